//! Files: what a path is.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Component, Path, Prefix};

/// What stands between the names of a path.
pub const SEPARATORS: &[char] = &['\\', '/'];

/// What is refused.
#[cfg(test)]
pub const BAD_PATHS: &[&str] = &[
    "relative",
    r"C:relative",
    r"\of\the\drive",
    "/of/the/drive",
    r"\\.\PhysicalDrive0",
    // Other ways to what is no file.
    r"\\?\PhysicalDrive0",
    r"\\?\GLOBALROOT\Device\Null",
    r"\\localhost\pipe\ullage",
    r"\\?\UNC\localhost\PIPE\ullage",
    r"C:\tmp\NUL",
    r"C:\tmp\nul.txt",
    r"C:\CON\x",
    "C:/tmp/com1 .log",
    r"C:\tmp\CONIN$",
    // Other streams of a file, which nobody lists.
    r"C:\tmp\a:b",
    r"C:\tmp\a::$DATA",
    r"C:\tmp\",
    "C:/tmp/",
    r"C:\",
    "",
    "C:\\a\0b",
];

/// A drive or a share, and its root. A path of a device is a way past all files.
pub fn absolute(path: &str) -> bool {
    let path = Path::new(path);
    let device = |prefix: &Prefix| matches!(prefix, Prefix::DeviceNS(_));
    match path.components().next() {
        Some(Component::Prefix(prefix)) => path.has_root() && !device(&prefix.kind()),
        _ => false,
    }
}

pub fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// A new file; an existing one is never followed.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Windows has no modes: who may do what with a file it inherits from its directory, and a program
/// is one by its name.
#[allow(clippy::unnecessary_wraps, reason = "as on the other system")]
pub fn set_mode(_: &File, _: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_or_a_share_and_its_root() {
        for path in [r"C:\data\x", "c:/data/x", r"\\server\share\x", r"\\?\C:\x"] {
            assert!(absolute(path), "{path}");
        }
        for path in ["x", r"C:x", r"\x", "/x", r"\\.\COM1", ""] {
            assert!(!absolute(path), "{path}");
        }
    }
}
