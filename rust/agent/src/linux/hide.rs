//! Becomes a program for which a directory is empty, and for nobody else: crun refuses to start
//! anything on a host with control groups of version 1 while the tree of version 2 beside them still
//! has a controller of its own (often `hugetlb`), though it would use none.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::system::mounts;
use crate::system::sys;

/// What to hide, and from whom.
#[derive(Debug, PartialEq)]
pub struct Hidden {
    directory: PathBuf,
    program: OsString,
    arguments: Vec<OsString>,
}

/// Reads the arguments of `hide`.
pub fn parse(mut args: impl Iterator<Item = OsString>) -> Result<Hidden, String> {
    let mut next = |what: &str| args.next().ok_or_else(|| format!("hide: {what} is wanted"));
    Ok(Hidden {
        directory: next("a directory")?.into(),
        program: next("a program")?,
        arguments: args.collect(),
    })
}

impl Hidden {
    /// Becomes the program; the return value is why it could not. While there is one thread only.
    pub fn run(&self) -> Result<(), String> {
        let failed = |error| sys::failed("hide:", self.directory.display(), &error);
        own_users()
            .and_then(|()| mounts::unshare())
            .map_err(failed)?;
        // Mounted over, not unmounted: a user namespace may not take away what it did not mount.
        mounts::mount("tmpfs", Path::new("none"), &self.directory, 0, "").map_err(failed)?;
        let error = Command::new(&self.program).args(&self.arguments).exec();
        Err(sys::failed(
            "hide:",
            Path::new(&self.program).display(),
            &error,
        ))
    }
}

/// A plain user may mount in a user namespace only; the ids stay what they are in there.
fn own_users() -> io::Result<()> {
    // SAFETY: no memory is involved.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    if user == 0 {
        return Ok(());
    }
    // SAFETY: as above.
    sys::check(unsafe { libc::unshare(libc::CLONE_NEWUSER) })?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_and_a_program_are_read() {
        let parsed = |args: &[&str]| parse(args.iter().map(OsString::from));
        let hidden = Hidden {
            directory: "/sys/fs/cgroup/unified".into(),
            program: "crun".into(),
            arguments: vec!["--root".into(), "/run/x".into()],
        };
        assert_eq!(
            parsed(&["/sys/fs/cgroup/unified", "crun", "--root", "/run/x"]),
            Ok(hidden)
        );
        assert_eq!(parsed(&["/x"]), Err("hide: a program is wanted".into()));
        assert!(parsed(&[]).is_err());
    }
}
