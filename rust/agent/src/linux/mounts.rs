//! `mount(2)` and what is usually needed with it.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr;

use libc::c_ulong;

use crate::system::sys;

/// Flags of a mount that a remount must repeat, or they would be lost. statvfs tells them by the
/// same bits.
const LASTING: c_ulong =
    libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC | libc::MS_NOATIME | libc::MS_NODIRATIME;

/// Mounts a file system of a kind, such as `tmpfs`, with its options.
pub fn mount(
    kind: &str,
    source: &Path,
    target: &Path,
    flags: c_ulong,
    options: &str,
) -> io::Result<()> {
    let (source, target) = (sys::c_path(source)?, sys::c_path(target)?);
    let (kind, options) = (CString::new(kind)?, CString::new(options)?);
    // SAFETY: all strings are NUL-terminated.
    let result = unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            flags,
            options.as_ptr().cast(),
        )
    };
    sys::check(result).map(drop)
}

/// Changes what is mounted: binds, moves, remounts, propagation.
fn change(source: &Path, target: &Path, flags: c_ulong) -> io::Result<()> {
    let (source, target) = (sys::c_path(source)?, sys::c_path(target)?);
    // SAFETY: both strings are NUL-terminated, kind and options may be absent.
    let result = unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            ptr::null(),
            flags,
            ptr::null(),
        )
    };
    sys::check(result).map(drop)
}

/// Shows `source`, with what is mounted below it, at `target` too.
pub fn bind(source: &Path, target: &Path) -> io::Result<()> {
    change(source, target, libc::MS_BIND | libc::MS_REC)
}

pub fn move_to(source: &Path, target: &Path) -> io::Result<()> {
    change(source, target, libc::MS_MOVE)
}

/// Makes one mount read-only here, not the file system elsewhere.
pub fn make_read_only(target: &Path) -> io::Result<()> {
    let path = sys::c_path(target)?;
    // SAFETY: statvfs is plain numbers that the call fills in.
    let flags = unsafe {
        let mut statistics: libc::statvfs = std::mem::zeroed();
        sys::check(libc::statvfs(path.as_ptr(), &raw mut statistics))?;
        statistics.f_flag
    };
    change(
        Path::new("none"),
        target,
        libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY | (flags & LASTING),
    )
}

/// A mount namespace of our own, from which nothing gets out.
pub fn unshare() -> io::Result<()> {
    // SAFETY: no memory is involved.
    sys::check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    change(
        Path::new("none"),
        Path::new("/"),
        libc::MS_REC | libc::MS_PRIVATE,
    )
}

/// A handle on a place that stays good when the root changes.
pub fn place(path: &Path) -> io::Result<OwnedFd> {
    open_place(libc::AT_FDCWD, path, 0)
}

/// A handle on a directory right below another one; a symlink there is an error.
pub fn place_below(directory: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    open_place(
        directory.as_raw_fd(),
        Path::new(name),
        libc::O_NOFOLLOW | libc::O_DIRECTORY,
    )
}

fn open_place(directory: i32, path: &Path, flags: i32) -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    let path = sys::c_path(path)?;
    let flags = libc::O_PATH | libc::O_CLOEXEC | flags;
    // SAFETY: a NUL-terminated path; on success the descriptor is ours.
    unsafe {
        Ok(OwnedFd::from_raw_fd(sys::check(libc::openat(
            directory,
            path.as_ptr(),
            flags,
        ))?))
    }
}

/// The name of a place for calls that want a path.
pub fn path_of(place: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", place.as_raw_fd()))
}

pub fn go_to(place: BorrowedFd) -> io::Result<()> {
    // SAFETY: no memory is involved.
    sys::check(unsafe { libc::fchdir(place.as_raw_fd()) }).map(drop)
}

/// Makes the current directory, a mount point, the root. True when the old root now lies under it
/// and wants to be detached; false when it could only be covered, as an initramfs can.
pub fn make_cwd_root() -> io::Result<bool> {
    let here = c".";
    // SAFETY: NUL-terminated strings.
    let pivoted = unsafe { libc::syscall(libc::SYS_pivot_root, here.as_ptr(), here.as_ptr()) } == 0;
    if pivoted {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() != Some(libc::EINVAL) {
        return Err(error);
    }
    cover_root()?;
    Ok(false)
}

/// What `switch_root` does: moves the current directory's mount over the root.
pub fn cover_root() -> io::Result<()> {
    move_to(Path::new("."), Path::new("/"))?;
    std::os::unix::fs::chroot(".")?;
    std::env::set_current_dir("/")
}

/// Takes away what is mounted on the current directory, even in use.
pub fn detach_cwd() -> io::Result<()> {
    // SAFETY: a NUL-terminated string.
    sys::check(unsafe { libc::umount2(c".".as_ptr(), libc::MNT_DETACH) }).map(drop)
}
