//! Carries a program's output to the controller, never faster than the controller's credit allows.
//! A pipe here cannot be waited for beside others, so each has a thread that reads it.

use std::io::Read;
use std::process::{ChildStderr, ChildStdout};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::children::Ending;
use super::sys;
use crate::channel::{Channel, Raw};
use crate::child::Ended;
use crate::frame::{ID, Kind};

const CHUNK: usize = 64 << 10;
/// So long after a program's end others (what it started) may keep its output open.
const GRACE: Duration = Duration::from_secs(1);
/// So long after those are killed a pipe that is still open is somebody's outside of the job.
const LAST_WORDS: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(2);

/// Both outputs of one program.
pub struct Output {
    pub id: u32,
    pub channel: Arc<Channel>,
    pub stdout: Option<ChildStdout>,
    pub stderr: Option<ChildStderr>,
}

/// How far the reader of a pipe has come.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Reads,
    /// It has bytes that wait for credit: they will be sent, however long that takes.
    Holds,
    /// Nothing more will come.
    Closed,
    /// Nobody waits for it any more: what comes now is not sent.
    GivenUp,
}

/// The same, for the reader and for who waits for it: each step is one look and one change.
#[derive(Default)]
struct Progress(Mutex<Stage>);

impl Progress {
    /// Goes on from one stage to another, if it is there; where it is now.
    fn go(&self, from: Stage, to: Stage) -> Stage {
        let mut stage = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *stage == from {
            *stage = to;
        }
        *stage
    }

    fn closed(&self) -> bool {
        self.go(Stage::Closed, Stage::Closed) == Stage::Closed
    }

    /// Whether nothing of it will be sent any more.
    fn give_up(&self) -> bool {
        self.go(Stage::Reads, Stage::GivenUp) != Stage::Holds
    }
}

impl Output {
    /// Carries until the program has ended and its output is whole; with its end, for how long after
    /// that was seen the output was still open. `kill_rest` is called when somebody else keeps it
    /// open for longer than the grace.
    pub fn carry(mut self, ending: &Ending, kill_rest: impl FnOnce()) -> (Ended, Duration) {
        let readers = [
            self.stdout.take().map(|pipe| self.read(Kind::Stdout, pipe)),
            self.stderr.take().map(|pipe| self.read(Kind::Stderr, pipe)),
        ];
        let readers: Vec<_> = readers.into_iter().flatten().collect();
        let ended = ending.wait();
        let seen = Instant::now();
        if !all_closed_within(&readers, GRACE) {
            kill_rest();
            if !all_closed_within(&readers, LAST_WORDS) {
                // What is held is the program's, and goes out first.
                while !readers.iter().all(|reader| reader.give_up()) {
                    std::thread::sleep(PAUSE);
                }
            }
        }
        (ended, seen.elapsed())
    }

    fn read(&self, kind: Kind, pipe: impl Read + Send + 'static) -> Arc<Progress> {
        let progress = Arc::new(Progress::default());
        let (id, channel, ours) = (self.id, Arc::clone(&self.channel), Arc::clone(&progress));
        let reading = move || {
            carry_all(pipe, &channel, kind, id, &ours);
            ours.go(Stage::Reads, Stage::Closed);
        };
        if sys::start_thread("output", reading).is_err() {
            progress.go(Stage::Reads, Stage::Closed);
        }
        progress
    }
}

fn all_closed_within(readers: &[Arc<Progress>], patience: Duration) -> bool {
    let began = Instant::now();
    while !readers.iter().all(|reader| reader.closed()) {
        if began.elapsed() > patience {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    true
}

fn carry_all(mut pipe: impl Read, channel: &Channel, kind: Kind, id: u32, progress: &Progress) {
    let (mut raw, mut bytes) = (Raw::new(CHUNK), vec![0; CHUNK]);
    // A pipe that fails has ended as well.
    while let Ok(count) = pipe.read(&mut bytes) {
        let mut rest = bytes.get(..count).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        if progress.go(Stage::Reads, Stage::Holds) == Stage::GivenUp {
            return;
        }
        while !rest.is_empty() {
            let sent = send_some(channel, kind, id, &mut raw, rest);
            rest = rest.get(sent..).unwrap_or_default();
        }
        progress.go(Stage::Holds, Stage::Reads);
    }
}

/// Sends as much as there is credit for; how much that was.
fn send_some(channel: &Channel, kind: Kind, id: u32, raw: &mut Raw, bytes: &[u8]) -> usize {
    let credit = channel.credit.take((bytes.len() + ID) as u64);
    let room = usize::try_from(credit)
        .unwrap_or(usize::MAX)
        .saturating_sub(ID);
    let part = bytes.get(..room.min(bytes.len())).unwrap_or_default();
    let copy = |buffer: &mut [u8]| {
        buffer.copy_from_slice(part);
        Ok(part.len())
    };
    let count = raw.fill(part.len(), copy).unwrap_or(0);
    channel
        .credit
        .put_back(credit.saturating_sub((count + ID) as u64));
    channel.send_raw(kind, id, raw);
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_goes_out_and_what_comes_later_does_not() {
        let progress = Progress::default();
        assert!(progress.go(Stage::Reads, Stage::Holds) == Stage::Holds);
        assert!(!progress.give_up(), "it has bytes of the program");
        progress.go(Stage::Holds, Stage::Reads);
        assert!(progress.give_up());
        assert!(progress.go(Stage::Reads, Stage::Holds) == Stage::GivenUp);
        assert!(!progress.closed());
    }
}
