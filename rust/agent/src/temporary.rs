//! Files that are being written under a name of their own: none is left behind, however the agent ends.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::system::files::create;

/// Temporary files that exist now, so that the agent's end can remove them.
static ALL: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn all() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn remove_all() {
    let paths = std::mem::take(&mut *all());
    for path in paths {
        let _ = fs::remove_file(path);
    }
}

/// A file of ours under a name of its own; removed when dropped, unless it has been renamed.
pub struct Temporary(PathBuf);

impl Temporary {
    pub fn create(directory: &Path, id: u32) -> io::Result<(Self, File)> {
        let mut number = 0;
        loop {
            let name = format!(".ullage-put-{}-{id}-{number}", std::process::id());
            let path = directory.join(name);
            match create(&path) {
                Ok(file) => {
                    all().insert(path.clone());
                    return Ok((Self(path), file));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 100 => {
                    number += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        all().remove(&self.0);
        let _ = fs::remove_file(&self.0);
    }
}
