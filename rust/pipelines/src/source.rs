//! How inputs are read: from memory, through the page cache, or past it.

use std::fs::{File, OpenOptions};
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use serde::Serialize;

/// What addresses, offsets and lengths past the page cache must be multiples of.
pub const ALIGNMENT: usize = 4096;

/// Where the input is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Read whole before the clock starts.
    Memory,
    /// Read by plain calls: from the page cache, as far as it is there.
    File,
    /// Read past the page cache (`O_DIRECT`).
    Direct,
}

/// Opens a file for reading past the page cache.
///
/// # Errors
/// When it cannot be opened, or the file system has no such way.
pub fn open_direct(path: &Path) -> Result<File> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_DIRECT.bits())
        .open(path);
    if let Err(error) = &opened {
        ensure!(
            error.raw_os_error() != Some(Errno::EINVAL as i32),
            "the file system of {} cannot read past the page cache (O_DIRECT)",
            path.display()
        );
    }
    opened.with_context(|| format!("cannot open {}", path.display()))
}

/// Bytes in memory that such a file may be read into.
pub struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    /// A buffer of so many zeros.
    #[must_use]
    pub fn new(length: usize) -> Self {
        let memory = vec![0; length + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self {
            memory,
            start,
            length,
        }
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}
