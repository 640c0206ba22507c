//! `workspace`: a directory for a program and its owner. The instance may hold no `mkdir`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::chown;
use std::path::PathBuf;

use crate::system::sys;

const WANTED: &str = "workspace: DIR, or DIR UID GID is wanted";

/// What is to be made.
#[derive(Debug, PartialEq)]
pub struct Workspace {
    path: PathBuf,
    /// Absent: whoever makes it.
    owner: Option<(u32, u32)>,
}

/// Reads `DIR` or `DIR UID GID`.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Workspace, String> {
    let words: Vec<OsString> = args.into_iter().collect();
    let number = |word: &OsString| word.to_str().and_then(|text| text.parse().ok());
    let (path, owner) = match words.as_slice() {
        [path] => (path, None),
        [path, uid, gid] => (path, number(uid).zip(number(gid))),
        _ => return Err(WANTED.into()),
    };
    if words.len() == 3 && owner.is_none() {
        return Err(WANTED.into());
    }
    let path = path.into();
    Ok(Workspace { path, owner })
}

impl Workspace {
    /// Makes it with its parents, and gives it to its owner.
    pub fn make(&self) -> Result<(), String> {
        let own = |(uid, gid)| chown(&self.path, Some(uid), Some(gid));
        fs::create_dir_all(&self.path)
            .and_then(|()| self.owner.map_or(Ok(()), own))
            .map_err(|error| sys::failed("workspace", self.path.display(), &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_and_two_numbers() {
        let parsed = |words: &[&str]| parse(words.iter().map(OsString::from));
        let path = "/data/x".into();
        assert_eq!(
            parsed(&["/data/x", "33", "34"]),
            Ok(Workspace {
                path,
                owner: Some((33, 34))
            })
        );
        for wrong in [&["/data/x", "0"][..], &["/data/x", "www", "0"], &[]] {
            assert!(parsed(wrong).is_err());
        }
    }
}
