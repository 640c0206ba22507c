//! The channel's two ends: stdin and stdout, or a device.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::sys;

/// What the controller is heard by.
pub struct Receiver {
    fd: OwnedFd,
    device: bool,
}

/// What the controller is spoken to by.
pub struct Sender(OwnedFd);

/// Takes stdin and stdout for the channel, and leaves `/dev/null` and stderr in their place, so
/// that nothing else can ever write to the channel.
pub fn stdio() -> io::Result<(Receiver, Sender)> {
    let fd = sys::duplicate(0)?;
    let output = sys::duplicate(1)?;
    sys::detach_stdin()?;
    sys::replace(&io::stderr(), 1)?;
    Ok((Receiver { fd, device: false }, Sender(output)))
}

/// Takes a virtio-serial port, or any other character device, for the channel.
pub fn device(path: &Path) -> io::Result<(Receiver, Sender)> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY)
        .open(path)?;
    make_raw(&file);
    let output = OwnedFd::from(file.try_clone()?);
    sys::detach_stdin()?;
    sys::replace(&io::stderr(), 1)?;
    let receiver = Receiver {
        fd: OwnedFd::from(file),
        device: true,
    };
    Ok((receiver, Sender(output)))
}

/// A terminal would echo and translate; other devices have no such settings, and then nothing
/// happens.
fn make_raw(file: &impl AsRawFd) {
    // SAFETY: an all-zero termios is valid, tcgetattr fills it in.
    unsafe {
        let mut settings: libc::termios = std::mem::zeroed();
        if libc::tcgetattr(file.as_raw_fd(), &raw mut settings) == 0 {
            libc::cfmakeraw(&raw mut settings);
            libc::tcsetattr(file.as_raw_fd(), libc::TCSANOW, &raw const settings);
        }
    }
}

impl Receiver {
    /// On a device, "0 bytes" means that nobody is there.
    pub fn device(&self) -> bool {
        self.device
    }

    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match sys::read(&self.fd, buffer) {
            // A pseudo-terminal says EIO, where a virtio-serial port says 0, when nobody is there.
            Err(error) if self.device && error.raw_os_error() == Some(libc::EIO) => Ok(0),
            result => result,
        }
    }
}

impl Sender {
    pub fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        sys::write_all(&self.0, bytes)
    }

    /// Somebody would read what is written now.
    pub fn heard(&self) -> bool {
        let mut state = [libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLOUT,
            revents: 0,
        }];
        sys::poll(&mut state, 0).is_ok() && state[0].revents == libc::POLLOUT
    }
}
