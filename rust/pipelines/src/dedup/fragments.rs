//! The input, and cutting it coarsely: from memory, or read as the pipeline goes.

use std::fs::File;
use std::io::{self, Read};
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::chunking::{FRAGMENT, LONGEST, fragment_end};
use crate::source::{Aligned, open_direct};

/// Bytes asked for at a time once the least fragment is there.
const STEP: usize = 128 << 10;
/// Bytes in one request past the page cache.
const BLOCK: usize = 1 << 20;

/// Bytes of a fragment, shared by the threads that work on parts of it.
#[derive(Clone)]
pub enum Bytes<'a> {
    Lent(&'a [u8]),
    Held(Arc<Vec<u8>>),
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Lent(bytes) => bytes,
            Self::Held(bytes) => bytes,
        }
    }
}

impl Bytes<'_> {
    /// The buffer, to be used again, when nobody else holds it.
    #[must_use]
    pub fn into_buffer(self) -> Vec<u8> {
        match self {
            Self::Lent(_) => Vec::new(),
            Self::Held(bytes) => Arc::try_unwrap(bytes).unwrap_or_default(),
        }
    }
}

/// Gives the fragments of an input, one after the other.
pub enum Fragments<'a> {
    Memory(&'a [u8]),
    Stream(Stream),
}

impl<'a> Fragments<'a> {
    /// The next one; None at the end. `buffer` is used for it where one is needed.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn next(&mut self, buffer: Vec<u8>) -> Result<Option<Bytes<'a>>> {
        match self {
            Self::Memory([]) => Ok(None),
            Self::Memory(unread) => {
                let (fragment, after) =
                    unread.split_at(fragment_end(unread).unwrap_or(unread.len()));
                *unread = after;
                Ok(Some(Bytes::Lent(fragment)))
            }
            Self::Stream(stream) => {
                Ok(stream.next(buffer)?.map(|held| Bytes::Held(Arc::new(held))))
            }
        }
    }

    /// Time within read calls.
    #[must_use]
    pub fn reading(&self) -> Duration {
        match self {
            Self::Memory(_) => Duration::ZERO,
            Self::Stream(stream) => stream.reading,
        }
    }
}

/// An input that is read as the pipeline goes.
pub struct Stream {
    from: From,
    /// What was read beyond the last fragment.
    carried: Vec<u8>,
    reading: Duration,
}

enum From {
    File(File),
    Direct(Direct),
}

impl Stream {
    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be opened so.
    pub fn open(path: &Path, direct: bool) -> Result<Self> {
        let from = if direct {
            From::Direct(Direct::open(path)?)
        } else {
            From::File(File::open(path).with_context(|| format!("cannot open {}", path.display()))?)
        };
        Ok(Self {
            from,
            carried: Vec::new(),
            reading: Duration::ZERO,
        })
    }

    fn next(&mut self, mut buffer: Vec<u8>) -> Result<Option<Vec<u8>>> {
        buffer.clear();
        buffer.append(&mut self.carried);
        buffer.reserve((FRAGMENT + STEP).saturating_sub(buffer.len()));
        let mut needed = FRAGMENT + STEP;
        loop {
            let ended = self.fill(&mut buffer, needed)?;
            let end = match fragment_end(&buffer) {
                Some(end) => end,
                None if ended => buffer.len(),
                None => {
                    needed = (buffer.len() + STEP).min(LONGEST);
                    continue;
                }
            };
            self.carried.extend_from_slice(&buffer[end..]);
            buffer.truncate(end);
            return Ok((end > 0).then_some(buffer));
        }
    }

    /// Reads until the buffer holds so much; did the input end before?
    fn fill(&mut self, buffer: &mut Vec<u8>, needed: usize) -> Result<bool> {
        let began = Instant::now();
        let missing = needed.saturating_sub(buffer.len());
        let count = match &mut self.from {
            From::File(file) => file.by_ref().take(missing as u64).read_to_end(buffer),
            From::Direct(direct) => direct.read(buffer, missing),
        };
        self.reading += began.elapsed();
        Ok(count.context("cannot read the input")? < missing)
    }
}

/// A file read past the page cache, in aligned blocks.
struct Direct {
    file: File,
    block: Aligned,
    /// What of it was read and not yet given out.
    left: Range<usize>,
}

impl Direct {
    fn open(path: &Path) -> Result<Self> {
        Ok(Self {
            file: open_direct(path)?,
            block: Aligned::new(BLOCK),
            left: 0..0,
        })
    }

    /// Appends so many bytes, fewer only at the end.
    fn read(&mut self, buffer: &mut Vec<u8>, missing: usize) -> io::Result<usize> {
        let mut filled = 0;
        while filled < missing {
            if self.left.is_empty() {
                match self.file.read(&mut self.block) {
                    Ok(0) => break,
                    Ok(length) => self.left = 0..length,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error),
                }
            }
            let take = self.left.len().min(missing - filled);
            buffer.extend_from_slice(&self.block[self.left.start..self.left.start + take]);
            self.left.start += take;
            filled += take;
        }
        Ok(filled)
    }
}
