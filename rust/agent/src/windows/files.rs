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
    "//?/GLOBALROOT/Device/Null",
    "//./PhysicalDrive0",
    r"\\?\C:/x",
    r"\\?\UNC\.\x\y",
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

/// These names are devices in every directory, whatever their ending; so are COM0 to LPT9.
const DEVICES: &[&str] = &["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];

/// A file of a drive or a share, from its root. Devices, pipes and other streams of a file have ways
/// of their own past all files, and who reads from one may wait for ever.
pub fn absolute(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    let Some(Component::Prefix(prefix)) = parts.next() else {
        return false;
    };
    of_files(prefix.kind())
        && !(prefix.kind().is_verbatim() && path.contains('/'))
        && Path::new(path).has_root()
        && parts.all(|part| plain(&part.as_os_str().to_string_lossy()))
}

/// A drive, or a share of a server. Windows reads `//?/` as `\\?\`, and after that `/` as part of a name;
/// Rust reads both in its own way.
fn of_files(prefix: Prefix<'_>) -> bool {
    match prefix {
        Prefix::Disk(_) | Prefix::VerbatimDisk(_) => true,
        Prefix::UNC(server, share) | Prefix::VerbatimUNC(server, share) => {
            let wrong = |name: &&str| share.eq_ignore_ascii_case(name);
            server != "?" && server != "." && !["pipe", "mailslot"].iter().any(wrong)
        }
        Prefix::Verbatim(_) | Prefix::DeviceNS(_) => false,
    }
}

/// No device, and no stream of a file.
fn plain(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).trim_end_matches(' ');
    let port = |kind: &str| {
        let number = stem
            .get(..3)
            .filter(|start| start.eq_ignore_ascii_case(kind));
        let number = number.and_then(|_| stem.get(3..)).unwrap_or_default();
        matches!(number, "\u{b9}" | "\u{b2}" | "\u{b3}")
            || (number.len() == 1 && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let device = DEVICES.iter().any(|name| stem.eq_ignore_ascii_case(name));
    !name.contains(':') && !device && !port("COM") && !port("LPT")
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
        let good = [
            r"C:\data\x",
            "c:/data/ümlaut/../x",
            r"\\server\share\x",
            r"\\?\C:\x",
            r"\\?\UNC\server\share\x",
            "C:/console/nulls/com10/lpt",
        ];
        for path in good {
            assert!(absolute(path), "{path}");
        }
        for path in ["x", r"C:x", r"\x", "/x", r"\\.\COM1", ""] {
            assert!(!absolute(path), "{path}");
        }
    }
}
