//! A virtio-serial port, which is one file for both directions. Windows lets two calls on a plain file
//! handle only happen one after the other, so nothing could be written while somebody waits for
//! bytes: the port is opened for overlapped calls, and each has an event of its own.
//!
//! What virtio-win's driver does is told by its source (`vioserial/sys/Port.c`): without a host that
//! listens, and where its buffers are full, a call fails with "insufficient resources".

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::Path;
use std::ptr;
use std::time::Duration;

use windows_sys::Win32::Foundation::{
    ERROR_BROKEN_PIPE, ERROR_IO_PENDING, ERROR_NO_SYSTEM_RESOURCES, HANDLE,
};
use windows_sys::Win32::Storage::FileSystem::{FILE_FLAG_OVERLAPPED, ReadFile, WriteFile};
use windows_sys::Win32::System::IO::{GetOverlappedResult, OVERLAPPED};
use windows_sys::Win32::System::Threading::CreateEventW;

use super::sys;

/// The driver takes no more at once.
const MOST: usize = 32 << 10;
const FULL: Duration = Duration::from_millis(1);

pub struct Port(File);

impl Port {
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        options.custom_flags(FILE_FLAG_OVERLAPPED);
        options.open(path).map(Self)
    }

    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Nothing where nobody is at the other end.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        let start = buffer.as_mut_ptr();
        // SAFETY: the buffer is ours until `wait` has seen the end of the call.
        let call = |file, overlapped| unsafe {
            ReadFile(file, start, length, ptr::null_mut(), overlapped)
        };
        match self.wait(call) {
            Err(error) if is(&error, ERROR_NO_SYSTEM_RESOURCES) => Ok(0),
            Err(error) if is(&error, ERROR_BROKEN_PIPE) => Ok(0),
            result => result,
        }
    }

    /// Waits while the port is full, and where it takes nothing.
    pub fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut left = bytes;
        while !left.is_empty() {
            let part = &left[..left.len().min(MOST)];
            let length = u32::try_from(part.len()).unwrap_or(0);
            // SAFETY: the bytes are there until `wait` has seen the end of the call.
            let call = |file, overlapped| unsafe {
                WriteFile(file, part.as_ptr(), length, ptr::null_mut(), overlapped)
            };
            match self.wait(call) {
                Ok(0) => std::thread::sleep(FULL),
                Ok(count) => left = &left[count..],
                Err(error) if is(&error, ERROR_NO_SYSTEM_RESOURCES) => std::thread::sleep(FULL),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Begins a call, and waits for its end: how many bytes it has moved.
    fn wait(&self, call: impl FnOnce(HANDLE, *mut OVERLAPPED) -> i32) -> io::Result<usize> {
        // SAFETY: no name and no attributes; it is reset by hand, and not set.
        let event = sys::owned(unsafe { CreateEventW(ptr::null(), 1, 0, ptr::null()) })?;
        let file = self.0.as_raw_handle();
        let mut count = 0;
        // SAFETY: `overlapped` lives until the call is over: GetOverlappedResult waits for that.
        unsafe {
            let mut overlapped: OVERLAPPED = std::mem::zeroed();
            overlapped.hEvent = event.as_raw_handle();
            if let Err(error) = sys::check(call(file, &raw mut overlapped))
                && !is(&error, ERROR_IO_PENDING)
            {
                return Err(error);
            }
            sys::check(GetOverlappedResult(
                file,
                &raw const overlapped,
                &raw mut count,
                1,
            ))?;
        }
        Ok(count as usize)
    }
}

fn is(error: &io::Error, code: u32) -> bool {
    error.raw_os_error().map(i32::cast_unsigned) == Some(code)
}
