//! Thin and boring wrappers around libc: the kernel's clocks, pipes, signals and error texts that the
//! rest uses.

use std::ffi::{CStr, CString, c_int};
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Of a thread: enough for JSON and 64 bytes of message; the buffers are on the heap.
const STACK: usize = 128 << 10;

/// Starts a thread with a small stack.
pub fn start_thread(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new()
        .name(name.into())
        .stack_size(STACK)
        .spawn(body)
        .map(drop)
}

/// `CLOCK_MONOTONIC`: what the kernel's timers go by. The agent's own time is in `time.rs`.
/// Async-signal-safe: the child waits between fork and exec.
pub fn mono_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec
        .cast_unsigned()
        .wrapping_mul(1_000_000_000)
        .wrapping_add(now.tv_nsec.cast_unsigned())
}

/// Turns libc's -1 into the error.
pub fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Calls again when a signal came between.
pub fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// The error as `strerror` says it, without Rust's "(os error 2)".
pub fn text(error: &io::Error) -> String {
    let Some(number) = error.raw_os_error() else {
        return error.to_string();
    };
    let mut buffer = [0; 128];
    // SAFETY: the buffer is as long as we say, and strerror_r ends it with a NUL.
    let failed = unsafe { libc::strerror_r(number, buffer.as_mut_ptr(), buffer.len()) } != 0;
    // SAFETY: zeroed at first and NUL-terminated since.
    let text = unsafe { CStr::from_ptr(buffer.as_ptr()) };
    if failed {
        format!("error {number}")
    } else {
        text.to_string_lossy().into_owned()
    }
}

/// The message of a step that failed: `enter: --netns /run/netns/x: No such file or directory`.
pub fn failed(step: &str, path: impl Display, error: &io::Error) -> String {
    format!("{step} {path}: {}", text(error))
}

/// A path for libc; an embedded NUL is an error, not a shorter path.
pub fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// A close-on-exec pipe: the end to read from, the end to write to.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: two ints, as pipe2 wants; on success both are ours.
    unsafe {
        check(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// An event to be waited for with `poll`.
pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: on success the descriptor is ours.
    unsafe {
        Ok(OwnedFd::from_raw_fd(check(libc::eventfd(
            0,
            libc::EFD_CLOEXEC,
        ))?))
    }
}

pub fn set_nonblocking(fd: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: flags of a descriptor that is open.
    unsafe {
        let flags = check(libc::fcntl(fd.as_raw_fd(), libc::F_GETFL))?;
        check(libc::fcntl(
            fd.as_raw_fd(),
            libc::F_SETFL,
            flags | libc::O_NONBLOCK,
        ))?;
    }
    Ok(())
}

/// A close-on-exec copy, out of the way of 0, 1 and 2.
pub fn duplicate(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: on success the descriptor is ours.
    unsafe {
        Ok(OwnedFd::from_raw_fd(check(libc::fcntl(
            fd,
            libc::F_DUPFD_CLOEXEC,
            3,
        ))?))
    }
}

/// Makes `target` (0, 1 or 2) mean what `fd` means.
pub fn replace(fd: &impl AsRawFd, target: RawFd) -> io::Result<()> {
    // SAFETY: plain dup2 of an open descriptor.
    retry(|| check(unsafe { libc::dup2(fd.as_raw_fd(), target) })).map(drop)
}

/// `/dev/null`, or the reading end of a closed pipe where there is none: end of file either way.
pub fn no_input() -> io::Result<OwnedFd> {
    File::open("/dev/null").map_or_else(|_| pipe().map(|ends| ends.0), |null| Ok(null.into()))
}

/// Leaves nothing to read on fd 0.
pub fn detach_stdin() -> io::Result<()> {
    replace(&no_input()?, 0)
}

pub fn read(fd: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<usize> {
    retry(|| {
        // SAFETY: the buffer is valid for its length.
        let length =
            unsafe { libc::read(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
        usize::try_from(length).map_err(|_| io::Error::last_os_error())
    })
}

pub fn write_all(fd: &impl AsRawFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = retry(|| {
            // SAFETY: the buffer is valid for its length.
            let sent = unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
            usize::try_from(sent).map_err(|_| io::Error::last_os_error())
        })?;
        if sent == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = bytes.get(sent..).unwrap_or_default();
    }
    Ok(())
}

/// Waits for events; a negative timeout waits for ever. An interruption counts as "nothing yet".
pub fn poll(fds: &mut [libc::pollfd], timeout_ms: c_int) -> io::Result<()> {
    // SAFETY: the slice is valid for its length.
    let result =
        check(unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_ms) });
    match result {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            for fd in fds {
                fd.revents = 0;
            }
            Ok(())
        }
        other => other.map(drop),
    }
}

/// What to wait for: something to read on `fd`; a negative fd is ignored by `poll`.
pub fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Bytes that wait in a pipe.
pub fn waiting_bytes(fd: &impl AsRawFd) -> usize {
    let mut count: c_int = 0;
    // SAFETY: FIONREAD writes one int.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut count) };
    if result < 0 {
        0
    } else {
        usize::try_from(count).unwrap_or(0)
    }
}

/// Sends a signal to a process, or to a group when `pid` is negative.
pub fn kill(pid: libc::pid_t, signal: c_int) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// Orphans below us become our children, not init's.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_like_strerror() {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        assert_eq!(text(&error), "No such file or directory");
        assert_eq!(text(&io::Error::other("odd")), "odd");
    }

    #[test]
    fn a_path_with_a_nul_is_refused() {
        assert!(c_path(Path::new("/etc\0/passwd")).is_err());
    }

    #[test]
    fn pipes_carry_bytes_and_tell_how_many() {
        let (from, to) = pipe().expect("pipe");
        write_all(&to, b"thirteen byte").expect("write");
        assert_eq!(waiting_bytes(&from), 13);
        let mut buffer = [0; 20];
        assert_eq!(read(&from, &mut buffer).expect("read"), 13);
    }

    #[test]
    fn the_clock_goes_forward() {
        let before = mono_ns();
        assert!(mono_ns() >= before && before > 0);
    }
}
