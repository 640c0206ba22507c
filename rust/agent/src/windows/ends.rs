//! The channel's two ends: stdin and stdout, or a virtio-serial port.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, IntoRawHandle};
use std::path::Path;

use windows_sys::Win32::Foundation::{HANDLE_FLAG_INHERIT, SetHandleInformation};
use windows_sys::Win32::System::Console::{STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, SetStdHandle};

use super::port::Port;
use super::sys;

/// What the controller is heard by.
pub enum Receiver {
    Pipe(File),
    Port(Port),
}

/// What the controller is spoken to by.
pub enum Sender {
    Pipe(File),
    Port(Port),
}

/// Takes stdin and stdout for the channel, and leaves `NUL` and stderr in their place, so that
/// nothing else can ever write to the channel. Programs inherit neither: the copies cannot be inherited,
/// and what they are copies of cannot be any more.
pub fn stdio() -> io::Result<(Receiver, Sender)> {
    let input = io::stdin().as_handle().try_clone_to_owned()?;
    let output = io::stdout().as_handle().try_clone_to_owned()?;
    keep(io::stdin().as_handle())?;
    keep(io::stdout().as_handle())?;
    detach()?;
    Ok((
        Receiver::Pipe(File::from(input)),
        Sender::Pipe(File::from(output)),
    ))
}

/// Takes a virtio-serial port for the channel: `\\.\Global\NAME`.
pub fn device(path: &Path) -> io::Result<(Receiver, Sender)> {
    let port = Port::open(path)?;
    let output = port.try_clone()?;
    detach()?;
    Ok((Receiver::Port(port), Sender::Port(output)))
}

/// No program inherits it.
fn keep(handle: BorrowedHandle<'_>) -> io::Result<()> {
    // SAFETY: an open handle, or none, which is an error.
    sys::check(unsafe { SetHandleInformation(handle.as_raw_handle(), HANDLE_FLAG_INHERIT, 0) })
}

fn detach() -> io::Result<()> {
    // Whoever reads it waits for its end. There may be none.
    let _ = keep(io::stderr().as_handle());
    let nothing = File::open("NUL")?.into_raw_handle();
    let stderr = io::stderr().as_handle().try_clone_to_owned();
    let stderr = stderr.map_or(std::ptr::null_mut(), IntoRawHandle::into_raw_handle);
    // SAFETY: both handles are ours and stay open for ever, for they are given away here.
    unsafe {
        sys::check(SetStdHandle(STD_INPUT_HANDLE, nothing))?;
        sys::check(SetStdHandle(STD_OUTPUT_HANDLE, stderr))
    }
}

impl Receiver {
    /// On a device, "0 bytes" means that nobody is there.
    pub fn device(&self) -> bool {
        matches!(self, Self::Port(_))
    }

    /// A pipe whose other end is closed has ended.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Port(port) => port.read(buffer),
            Self::Pipe(file) => match file.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
                result => result,
            },
        }
    }
}

impl Sender {
    pub fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Port(port) => port.write_all(bytes),
            Self::Pipe(file) => (&*file).write_all(bytes),
        }
    }

    /// Whether somebody would read what is written now cannot be asked here.
    #[allow(clippy::unused_self, reason = "as on the other system")]
    pub fn heard(&self) -> bool {
        true
    }
}
