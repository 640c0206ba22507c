//! RGAP over a pair of files: pipes, a socket pair, a serial line to or from a virtual machine.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use super::channel::{Channel, Eyes, STOP_NS};
use super::patience::Patience;
use super::stream::Stream;
use super::{LENGTH, Server, Standing};
use crate::sys::poll;

/// One end. Writing to a pipe that nobody reads any more raises SIGPIPE where that is not ignored, as
/// it is in every Rust and Python program.
#[derive(Debug)]
pub struct Pipe(Stream<File, File>);

impl Pipe {
    /// Reads from one and writes to the other, which may be clones of one. Both become non-blocking,
    /// also for whoever else has them, and terminals raw.
    ///
    /// # Errors
    /// If that cannot be.
    pub fn new(reader: OwnedFd, writer: OwnedFd) -> io::Result<Self> {
        for file in [reader.as_fd(), writer.as_fd()] {
            if file.is_terminal() {
                raw(file)?;
            }
            do_not_block(file)?;
        }
        Ok(Self(Stream::new(reader.into(), writer.into())))
    }

    /// Answers with this clock until told to stop or the other side closes.
    ///
    /// # Errors
    /// If the other side sends what is no request of this run, or the files are broken.
    pub fn serve(
        &mut self,
        server: &mut Server,
        clock: impl Fn() -> (u64, Standing),
        stop: &AtomicBool,
    ) -> io::Result<()> {
        let (mut eyes, mut patience) = (Eyes::default(), Patience::default());
        while !stop.load(Ordering::Relaxed) {
            match self.0.answer(server, &mut eyes, &clock) {
                Ok(Some(t3)) => patience.met(t3),
                Ok(None) if !patience.over(clock().0) => {}
                Ok(None) => {
                    poll(&mut [self.0.asks()], STOP_NS)?;
                    eyes.closed();
                }
                Err(error) if gone(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Channel for Pipe {
    fn send(&mut self, bytes: &[u8; LENGTH]) -> io::Result<()> {
        self.0.send(bytes)
    }

    fn look(&mut self) -> io::Result<Option<&[u8]>> {
        self.0.look()
    }

    fn wait(&mut self, within_ns: u64) -> io::Result<()> {
        self.0.wait(within_ns)
    }
}

/// The other side has closed: the end of a file, or, of a terminal, EIO.
fn gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
    ) || error.raw_os_error() == Some(libc::EIO)
}

fn do_not_block(file: BorrowedFd<'_>) -> io::Result<()> {
    let file = file.as_raw_fd();
    // SAFETY: an open file, and its own flags with one more.
    let failed = unsafe {
        let flags = libc::fcntl(file, libc::F_GETFL);
        flags < 0 || libc::fcntl(file, libc::F_SETFL, flags | libc::O_NONBLOCK) < 0
    };
    if failed {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Bytes as they are: no echo, no lines, no control characters.
fn raw(file: BorrowedFd<'_>) -> io::Result<()> {
    let file = file.as_raw_fd();
    // SAFETY: a termios is plain numbers, and is filled by the kernel before it is used.
    let failed = unsafe {
        let mut mode: libc::termios = std::mem::zeroed();
        libc::tcgetattr(file, &raw mut mode) != 0 || {
            libc::cfmakeraw(&raw mut mode);
            libc::tcsetattr(file, libc::TCSANOW, &raw const mode) != 0
        }
    };
    if failed {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
