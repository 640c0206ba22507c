//! Waiting for many descriptors at once.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use nix::sys::epoll::{Epoll, EpollCreateFlags};
pub use nix::sys::epoll::{EpollEvent, EpollFlags};

/// Descriptors, each with a token of its own.
pub struct Poll(Epoll);

impl Poll {
    /// # Errors
    /// There are no more descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?))
    }

    /// Waits for these events of a descriptor from now on.
    ///
    /// # Errors
    /// It is no descriptor that can be waited for, or waited for already.
    pub fn add(&self, descriptor: impl AsFd, flags: EpollFlags, token: u64) -> io::Result<()> {
        Ok(self.0.add(descriptor, EpollEvent::new(flags, token))?)
    }

    /// Waits for events, no longer than so long to the nanosecond (for ever if none). How many there
    /// are; none after a signal.
    ///
    /// # Errors
    /// The kernel has no such call.
    pub fn wait(&self, events: &mut [EpollEvent], longest_ns: Option<u64>) -> io::Result<usize> {
        let time = longest_ns.map(|ns| libc::timespec {
            tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(ns % 1_000_000_000).unwrap_or(0),
        });
        // SAFETY: as many events as there are places are written; `time` outlives the call; no signal
        // mask.
        let count = unsafe {
            match &time {
                None => i64::from(libc::epoll_wait(
                    self.0.0.as_raw_fd(),
                    events.as_mut_ptr().cast(),
                    i32::try_from(events.len()).unwrap_or(i32::MAX),
                    -1,
                )),
                Some(time) => libc::syscall(
                    libc::SYS_epoll_pwait2,
                    self.0.0.as_raw_fd(),
                    events.as_mut_ptr(),
                    events.len(),
                    ptr::from_ref(time),
                    ptr::null::<libc::sigset_t>(),
                    0usize,
                ),
            }
        };
        match usize::try_from(count) {
            Ok(count) => Ok(count),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
                error => Err(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn events_come_with_their_token_and_waiting_ends_in_time() {
        let poll = Poll::new().expect("epoll");
        let (reader, mut writer) = io::pipe().expect("a pipe");
        poll.add(&reader, EpollFlags::EPOLLIN, 7).expect("added");
        let mut events = [EpollEvent::empty(); 4];
        let began = Instant::now();
        assert_eq!(poll.wait(&mut events, Some(2_000_000)).expect("waited"), 0);
        assert!(began.elapsed() >= Duration::from_millis(2));
        writer.write_all(b"x").expect("written");
        for longest_ns in [None, Some(0)] {
            assert_eq!(poll.wait(&mut events, longest_ns).expect("waited"), 1);
            assert_eq!(
                (events[0].data(), events[0].events()),
                (7, EpollFlags::EPOLLIN)
            );
        }
    }
}
