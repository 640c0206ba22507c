//! Loads the kernel modules that the initramfs brings along, in the order of its list: who made the
//! list knows the dependencies, so the guest needs no modprobe.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;

use crate::system::sys;

const LIST: &str = "/modules.list";
/// From linux/module.h: the kernel unpacks .ko.xz and the like by itself, where it can.
const COMPRESSED: libc::c_int = 4;

/// Loads every module of the list. No list means that the kernel has all built in.
pub fn load_listed() -> Result<(), String> {
    let list = match fs::read_to_string(LIST) {
        Ok(list) => list,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(sys::failed("init: cannot read", LIST, &error)),
    };
    paths(&list).try_for_each(|path| {
        load(path).map_err(|error| sys::failed("init: cannot load the module", path, &error))
    })
}

/// Removes the files, which would otherwise take up the guest's memory for ever.
pub fn forget_listed() {
    let list = fs::read_to_string(LIST).unwrap_or_default();
    for path in paths(&list).chain([LIST]) {
        let _ = fs::remove_file(path);
    }
}

fn paths(list: &str) -> impl Iterator<Item = &str> {
    list.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn load(path: &str) -> io::Result<()> {
    let file = File::open(path)?;
    let plain = std::path::Path::new(path)
        .extension()
        .is_some_and(|extension| extension == "ko");
    let flags = if plain { 0 } else { COMPRESSED };
    // SAFETY: an open file, and an empty NUL-terminated string of parameters.
    let result = unsafe {
        libc::syscall(
            libc::SYS_finit_module,
            file.as_raw_fd(),
            c"".as_ptr(),
            flags,
        )
    };
    match sys::check(if result < 0 { -1 } else { 0 }) {
        // Loaded already; or for hardware that this guest lacks, such as the CPU's own CRC
        // instruction.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EEXIST | libc::ENODEV)) => Ok(()),
        other => other.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_may_have_blank_lines_and_comments() {
        let listed: Vec<_> = paths("/a.ko\n\n# net\n  /b.ko \n").collect();
        assert_eq!(listed, ["/a.ko", "/b.ko"]);
    }
}
