//! One child from its request to its `exit` answer.

use std::sync::Arc;
use std::time::Duration;

use ullage_clock::Stamp;

use crate::channel::Channel;
use crate::protocol::{Code, Failure, KILL, Spawn};
use crate::responses::{Response, Usage};
use crate::system::children::{Children, Ending};
use crate::system::spawn::{Forked, Prepared};
use crate::system::sys;
use crate::timer::Timer;
use crate::{shutdown, time};

/// How a program ended.
#[derive(Clone, Copy, Debug)]
pub enum How {
    Exited(u32),
    Killed(i32),
}

#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub how: How,
    /// When, and what is to be said of the clock until then.
    pub end: Stamp,
    pub usage: Usage,
}

/// What children need of the agent.
#[derive(Clone)]
pub struct Nursery {
    pub channel: Arc<Channel>,
    pub children: Arc<Children>,
    pub timer: Arc<Timer>,
}

/// A forked child with the promises of its request.
struct Attended {
    id: u32,
    pid: u32,
    name: String,
    at_ns: Option<u64>,
    timeout_ns: Option<u64>,
    ending: Arc<Ending>,
}

impl Nursery {
    /// Forks the child at once, so that it can wait for its instant by itself; the rest happens in
    /// a thread.
    pub fn spawn(&self, id: u32, request: Spawn) -> Result<(), Failure> {
        let prepared = Prepared::new(&request)?;
        let failed = |error: &std::io::Error| {
            Failure::new(
                Code::ExecFailed,
                format!("cannot fork: {}", sys::text(error)),
            )
        };
        if shutdown::ending() {
            return Err(failed(&std::io::Error::other("the agent is ending")));
        }
        let mut forked = None;
        let fork = || {
            let (pid, child) = prepared.fork()?;
            forked = Some(child);
            Ok(pid)
        };
        let (pid, ending) = self
            .children
            .add(id, fork)
            .map_err(|error| prepared.refused(&error))?;
        let Some(forked) = forked else {
            return Err(failed(&std::io::Error::other("no child")));
        };
        let name = request.argv.into_iter().next().unwrap_or_default();
        let (at_ns, timeout_ns) = (request.at_ns, request.timeout_ns);
        let attended = Attended {
            id,
            pid,
            name,
            at_ns,
            timeout_ns,
            ending,
        };
        let nursery = self.clone();
        sys::start_thread("child", move || nursery.attend(&attended, forked)).map_err(|error| {
            let _ = self.children.signal(id, KILL);
            self.children.remove(id);
            failed(&error)
        })
    }

    fn attend(&self, child: &Attended, forked: Forked) {
        let answer = match forked.started(&child.name) {
            Ok(start_ns) => self.attend_started(child, forked, start_ns),
            Err(message) => {
                child.ending.wait();
                self.children.remove(child.id);
                Response::error(Some(child.id), Failure::new(Code::ExecFailed, message))
            }
        };
        self.channel.send(&answer);
    }

    /// Announces the start, carries the output, and returns the `exit` answer.
    fn attend_started(&self, child: &Attended, forked: Forked, start_ns: u64) -> Response {
        let id = child.id;
        if let Some(timeout_ns) = child.timeout_ns {
            self.timer.add(
                start_ns.saturating_add(timeout_ns),
                id,
                Arc::clone(&child.ending),
            );
        }
        let late_ns = child
            .at_ns
            .map_or(0, |at_ns| start_ns.saturating_sub(at_ns));
        self.channel.send(&Response::Started {
            id,
            pid: child.pid,
            start_ns,
            late_ns,
        });
        let channel = Arc::clone(&self.channel);
        let output = forked.output(id, channel);
        let kill_rest = || drop(self.children.signal(id, KILL));
        let (ended, held) = output.carry(&child.ending, kill_rest);
        let timed_out = self.children.remove(id);
        exit(id, start_ns, timed_out, &ended, held)
    }
}

fn exit(id: u32, start_ns: u64, timed_out: bool, ended: &Ended, held: Duration) -> Response {
    let (status, signal) = match ended.how {
        How::Exited(status) => (Some(status), None),
        How::Killed(signal) => (None, Some(signal)),
    };
    Response::Exit {
        id,
        status,
        signal,
        timed_out,
        start_ns,
        end_ns: ended.end.ns,
        held_ns: u64::try_from(held.as_nanos()).unwrap_or(u64::MAX),
        reasons: time::names(ended.end.reasons),
        rusage: ended.usage,
    }
}
