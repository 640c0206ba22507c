//! Files: their modes, and what a path is.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// What stands between the names of a path.
pub const SEPARATORS: &[char] = &['/'];

/// What is refused.
#[cfg(test)]
pub const BAD_PATHS: &[&str] = &["relative", "/tmp/", "/", "", "/a\0b"];

pub fn absolute(path: &str) -> bool {
    path.starts_with('/')
}

/// `O_NONBLOCK`, so that a FIFO without a writer is refused later instead of blocking here.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
}

/// A new file that only we may read. `create_new` is `O_EXCL`: an existing file or symlink of that
/// name is never followed.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

pub fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::files::Put;
    use crate::protocol;

    fn put(directory: &str, id: u32, bytes: &[u8]) -> std::path::PathBuf {
        let directory = std::env::temp_dir().join(format!("{directory}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("scratch directory");
        let victim = directory.join("victim");
        let planted = directory.join(format!(".ullage-put-{}-{id}-0", std::process::id()));
        std::os::unix::fs::symlink(&victim, planted).expect("symlink");
        let request = protocol::Put {
            path: directory.join("target").to_string_lossy().into_owned(),
            mode: 0o750,
            size: bytes.len() as u64,
        };
        let mut put = Put::begin(id, &request).expect("begin");
        put.take(bytes).expect("take");
        put.finish().expect("finish");
        directory
    }

    #[test]
    fn a_planted_link_is_not_followed() {
        assert!(!put("ullage-files-link", 9, b"x").join("victim").exists());
    }

    #[test]
    fn the_mode_is_as_asked() {
        use std::os::unix::fs::PermissionsExt;
        let target = put("ullage-files-mode", 8, b"x").join("target");
        let mode = fs::metadata(target).expect("stat").permissions().mode();
        assert_eq!(mode & 0o7777, 0o750);
    }
}
