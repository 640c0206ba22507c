//! The table of running children, and the one thread that waits for all of them.
//!
//! A single waiter is enough: it reads the clock as soon as the kernel reports an end, before
//! anything else, and it reaps orphans (we are a subreaper) on the way. It looks first and reaps
//! under the table's lock, so that no signal of ours can reach a process number that has been given
//! to somebody else.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use libc::{c_int, pid_t};
use ullage_clock::Stamp;

use crate::child::{Ended, How};
use crate::protocol::{Code, Failure};
use crate::responses::Usage;
use crate::system::descendants::{self, Process};
use crate::system::sys;
use crate::time;

/// Where the waiter leaves the end of one child; `event` becomes readable then.
pub struct Ending {
    slot: Mutex<Option<Ended>>,
    event: OwnedFd,
}

impl Ending {
    fn new() -> io::Result<Self> {
        Ok(Self {
            slot: Mutex::new(None),
            event: sys::eventfd()?,
        })
    }

    pub fn fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    /// The end, once it has come.
    pub fn get(&self) -> Option<Ended> {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn wait(&self) -> Ended {
        loop {
            if let Some(ended) = self.get() {
                return ended;
            }
            let _ = sys::poll(&mut [sys::readable(self.fd())], -1);
        }
    }

    fn set(&self, ended: Ended) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
        // An eventfd takes a write as long as its counter is far from 2^64.
        let _ = sys::write_all(&self.event, &1u64.to_ne_bytes());
    }
}

struct Child {
    pid: pid_t,
    running: bool,
    timed_out: bool,
    ending: Arc<Ending>,
}

/// All children between their fork and their `exit` answer, by the id of their spawn.
#[derive(Default)]
pub struct Children {
    table: Mutex<HashMap<u32, Child>>,
    born: Condvar,
}

impl Children {
    /// Forks by `fork` and enters the child, so that the waiter never meets a child that it does
    /// not know.
    pub fn add(
        &self,
        id: u32,
        fork: impl FnOnce() -> io::Result<pid_t>,
    ) -> io::Result<(u32, Arc<Ending>)> {
        let ending = Arc::new(Ending::new()?);
        let mut table = self.lock();
        let pid = fork()?;
        let child = Child {
            pid,
            running: true,
            timed_out: false,
            ending: Arc::clone(&ending),
        };
        table.insert(id, child);
        self.born.notify_all();
        Ok((pid.cast_unsigned(), ending))
    }

    pub fn contains(&self, id: u32) -> bool {
        self.lock().contains_key(&id)
    }

    /// Takes the child out; true when it was killed for running too long.
    pub fn remove(&self, id: u32) -> bool {
        self.lock().remove(&id).is_some_and(|child| child.timed_out)
    }

    /// Sends a signal to the child's process group.
    pub fn signal(&self, id: u32, signal: c_int) -> Result<(), Failure> {
        let table = self.lock();
        let Some(child) = table.get(&id) else {
            return Err(Failure::new(
                Code::NoSuchId,
                format!("kill: nothing runs with id {id}"),
            ));
        };
        match signal_group(child, signal) {
            // Nobody is left in the group: the end is on its way.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Err(Failure::new(
                Code::BadField,
                format!("kill: signal: {signal} is none"),
            )),
            Err(error) => Err(Failure::new(
                Code::Io,
                format!("kill: {}", sys::text(&error)),
            )),
            Ok(()) => Ok(()),
        }
    }

    /// Kills the child that `ending` belongs to, if it still runs: its time is over.
    pub fn time_out(&self, id: u32, ending: &Arc<Ending>) {
        let mut table = self.lock();
        let same = |child: &&mut Child| Arc::ptr_eq(&child.ending, ending);
        if let Some(child) = table.get_mut(&id).filter(same)
            && child.running
        {
            child.timed_out = true;
            let _ = signal_group(child, libc::SIGKILL);
        }
    }

    /// Kills every descendant that belongs to none of the children, and returns them: a child's own
    /// are in its session or below a process that is.
    pub fn kill_strays(&self) -> io::Result<Vec<Process>> {
        let table = self.lock();
        let sessions: HashSet<pid_t> = table.values().map(|child| child.pid).collect();
        // A child that has not come to its `setsid` yet is in our session.
        let spared = |process: &Process| {
            sessions.contains(&process.session) || sessions.contains(&process.pid)
        };
        let strays = descendants::below_us(spared)?;
        descendants::kill(&strays);
        Ok(strays)
    }

    /// Starts the waiter.
    pub fn watch(self: &Arc<Self>) -> io::Result<()> {
        let children = Arc::clone(self);
        sys::start_thread("waiter", move || children.wait_for_ever())
    }

    fn wait_for_ever(&self) -> ! {
        loop {
            if let Some(pid) = next_ended() {
                let end = time::stamp();
                self.reap(pid, end);
            } else {
                self.wait_for_birth();
            }
        }
    }

    fn reap(&self, pid: pid_t, end: Stamp) {
        let mut table = self.lock();
        let mut status = 0;
        // SAFETY: rusage is plain numbers, and wait4 fills in both.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage);
            usage
        };
        // An unknown one is an orphan that came to us; it is reaped, and nobody asks.
        if let Some(child) = table
            .values_mut()
            .find(|child| child.pid == pid && child.running)
        {
            child.running = false;
            child.ending.set(Ended {
                how: how(status),
                end,
                usage: usage_of(&usage),
            });
        }
    }

    /// Without children there are no orphans either: sleep until one is born.
    fn wait_for_birth(&self) {
        let table = self.lock();
        let nobody = |table: &mut HashMap<u32, Child>| !table.values().any(|child| child.running);
        drop(self.born.wait_while(table, nobody));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Child>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The group; or the process alone, when it has not come to its `setsid` yet.
fn signal_group(child: &Child, signal: c_int) -> io::Result<()> {
    let sent = sys::kill(-child.pid, signal);
    if sent.is_err() && child.running {
        sys::kill(child.pid, signal)
    } else {
        sent
    }
}

/// Blocks until some child has ended, without reaping it; None when there is no child at all.
fn next_ended() -> Option<pid_t> {
    let flags = libc::WEXITED | libc::WNOWAIT;
    // SAFETY: siginfo is plain data that the kernel fills in, with a pid where a child has ended.
    let ended = sys::retry(|| unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        sys::check(libc::waitid(libc::P_ALL, 0, &raw mut info, flags))?;
        Ok(info.si_pid())
    });
    ended.ok()
}

fn how(status: c_int) -> How {
    if libc::WIFEXITED(status) {
        How::Exited(libc::WEXITSTATUS(status).cast_unsigned())
    } else {
        How::Killed(libc::WTERMSIG(status))
    }
}

fn usage_of(usage: &libc::rusage) -> Usage {
    let count = |number: libc::c_long| u64::try_from(number).unwrap_or(0);
    let time =
        |time: libc::timeval| count(time.tv_sec) * 1_000_000_000 + count(time.tv_usec) * 1000;
    Usage {
        user_ns: Some(time(usage.ru_utime)),
        system_ns: Some(time(usage.ru_stime)),
        max_rss_bytes: Some(count(usage.ru_maxrss) * 1024),
        minor_faults: Some(count(usage.ru_minflt)),
        major_faults: Some(count(usage.ru_majflt)),
        voluntary_switches: Some(count(usage.ru_nvcsw)),
        involuntary_switches: Some(count(usage.ru_nivcsw)),
        read_blocks: Some(count(usage.ru_inblock)),
        write_blocks: Some(count(usage.ru_oublock)),
    }
}
