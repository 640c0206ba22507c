//! Carries a child's output to the controller, never faster than the controller's credit allows.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::channel::{Channel, Raw};
use crate::child::Ended;
use crate::frame::{ID, Kind};
use crate::system::children::Ending;
use crate::system::sys;

/// One frame holds what a pipe holds.
const CHUNK: usize = 64 << 10;
/// So long after a child's end others (a daemon that it started) may keep its output open.
const GRACE: Duration = Duration::from_secs(1);

/// Both outputs of one child.
pub struct Output {
    pub id: u32,
    pub channel: Arc<Channel>,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// A pipe that is still open.
struct Stream<'a> {
    kind: Kind,
    fd: &'a OwnedFd,
}

impl Output {
    /// Carries until the child has ended and its output is whole; with its end, for how long after
    /// that was seen the output was still open. `kill_rest` is called when somebody else keeps it
    /// open for longer than the grace.
    pub fn carry(&self, ending: &Ending, kill_rest: impl FnOnce()) -> (Ended, Duration) {
        let mut raw = Raw::new(CHUNK);
        let mut open = vec![
            Stream {
                kind: Kind::Stdout,
                fd: &self.stdout,
            },
            Stream {
                kind: Kind::Stderr,
                fd: &self.stderr,
            },
        ];
        let mut seen: Option<Instant> = None;
        while !open.is_empty() {
            if seen.is_none() && ending.get().is_some() {
                seen = Some(Instant::now());
            }
            let left = seen.map(|seen| GRACE.saturating_sub(seen.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                kill_rest();
                self.empty(&open, &mut raw);
                break;
            }
            let event = if left.is_none() { ending.fd() } else { -1 };
            let mut ready = wait(&open, event, left).into_iter();
            open.retain(|stream| match ready.next() {
                Some(State::Bytes) => self.carry_some(stream, &mut raw, CHUNK) > 0,
                Some(State::Closed) => false,
                Some(State::Quiet) | None => true,
            });
        }
        let held = seen.map_or(Duration::ZERO, |seen| seen.elapsed());
        (ending.wait(), held)
    }

    /// The last bytes of pipes that others may go on writing to: what is there now, and no more.
    fn empty(&self, open: &[Stream], raw: &mut Raw) {
        for stream in open {
            let mut left = sys::waiting_bytes(stream.fd);
            while left > 0 {
                let count = self.carry_some(stream, raw, left);
                left = if count == 0 {
                    0
                } else {
                    left.saturating_sub(count)
                };
            }
        }
    }

    /// Moves at most `limit` bytes of a stream that has some; takes credit for what there is, and
    /// puts back what it did not need. Returns 0 when nothing more will come.
    fn carry_some(&self, stream: &Stream, raw: &mut Raw, limit: usize) -> usize {
        let waiting = sys::waiting_bytes(stream.fd).min(limit).min(CHUNK);
        let credit = self.channel.credit.take((waiting + ID) as u64);
        let room = usize::try_from(credit)
            .unwrap_or(usize::MAX)
            .saturating_sub(ID);
        let count = raw
            .fill(room.min(waiting), |buffer| sys::read(stream.fd, buffer))
            .unwrap_or(0);
        let used = if count > 0 { (count + ID) as u64 } else { 0 };
        self.channel.credit.put_back(credit.saturating_sub(used));
        if count > 0 {
            self.channel.send_raw(stream.kind, self.id, raw);
        }
        count
    }
}

/// What `poll` says of a stream.
enum State {
    Bytes,
    Closed,
    Quiet,
}

/// Waits until some stream has something (or has ended), or `event` fires; the state of each
/// stream.
fn wait(open: &[Stream], event: RawFd, timeout: Option<Duration>) -> Vec<State> {
    let mut fds: Vec<_> = open
        .iter()
        .map(|stream| sys::readable(stream.fd.as_raw_fd()))
        .collect();
    fds.push(sys::readable(event));
    // Rounded up, so that the last millisecond is not spent spinning.
    let timeout = timeout.map_or(-1, |left| {
        i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX)
    });
    if sys::poll(&mut fds, timeout).is_err() {
        return Vec::new();
    }
    let state = |fd: &libc::pollfd| match fd.revents {
        0 => State::Quiet,
        events if events & libc::POLLIN != 0 => State::Bytes,
        _ => State::Closed,
    };
    fds.iter().take(open.len()).map(state).collect()
}
