//! RGAP over a stream of bytes, whatever it is: both ends.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};

use super::channel::{Channel, Eyes, respond};
use super::frames::{Inbox, Outbox};
use super::{LENGTH, Server, Standing};
use crate::sys;

/// A non-blocking stream, from one side to the other and back.
#[derive(Debug)]
pub(super) struct Stream<R, W> {
    reader: R,
    writer: W,
    inbox: Inbox,
    outbox: Outbox,
}

impl<R: Read + AsFd, W: Write + AsFd> Stream<R, W> {
    /// Both must be non-blocking.
    pub fn new(reader: R, writer: W) -> Self {
        Self {
            reader,
            writer,
            inbox: Inbox::new(),
            outbox: Outbox::new(),
        }
    }

    /// What to wait for: until what is under way has gone, nothing else is read, so that whoever does
    /// not read cannot ask either.
    pub fn asks(&self) -> libc::pollfd {
        let (file, events) = if self.outbox.is_empty() {
            (self.reader.as_fd(), libc::POLLIN)
        } else {
            (self.writer.as_fd(), libc::POLLOUT)
        };
        libc::pollfd {
            fd: file.as_raw_fd(),
            events,
            revents: 0,
        }
    }

    /// Answers one request, if one is there. When, by the clock.
    ///
    /// # Errors
    /// If the stream is broken, or brought what is no request of this run.
    pub fn answer(
        &mut self,
        server: &mut Server,
        eyes: &mut Eyes,
        clock: impl Fn() -> (u64, Standing),
    ) -> io::Result<Option<u64>> {
        if !self.outbox.flush(&mut self.writer)? {
            eyes.closed();
            return Ok(None);
        }
        let Some(bytes) = self.inbox.read(&mut self.reader)? else {
            eyes.empty(clock().0);
            return Ok(None);
        };
        let answer = respond(server, bytes, *eyes, clock);
        let (bytes, t3) = answer.ok_or(io::ErrorKind::PermissionDenied)?;
        eyes.closed();
        self.outbox.send(&bytes, &mut self.writer)?;
        Ok(Some(t3))
    }
}

impl<R: Read + AsFd, W: Write + AsFd> Channel for Stream<R, W> {
    fn send(&mut self, bytes: &[u8; LENGTH]) -> io::Result<()> {
        // A message that is stuck must go whole, or the other side would not find the next one.
        if self.outbox.flush(&mut self.writer)? {
            self.outbox.send(bytes, &mut self.writer)?;
        }
        Ok(())
    }

    fn look(&mut self) -> io::Result<Option<&[u8]>> {
        self.outbox.flush(&mut self.writer)?;
        let message = self.inbox.read(&mut self.reader)?;
        Ok(message.map(|bytes| &bytes[..]))
    }

    fn wait(&mut self, within_ns: u64) -> io::Result<()> {
        sys::poll(&mut [self.asks()], within_ns)
    }
}
