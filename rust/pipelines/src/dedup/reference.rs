//! What the output of dedup has to be: made by one thread, decompressed, and compared with the corpus
//! byte by byte.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::container::{self, Codec, Content};
use super::pack;
use crate::chunking::Chunking;
use crate::corpus::Corpus;
use crate::{digest, manifest};

/// The corpus, and the right output for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    pub corpus: Corpus,
    pub output_bytes: u64,
    pub output_sha256: String,
}

impl Reference {
    /// Makes it: packs the corpus with one thread, and proves that it comes back.
    ///
    /// # Errors
    /// When the corpus is missing, is not what its manifest says, or does not come back.
    pub fn make(corpus: &Path, chunking: Chunking, codec: Codec) -> Result<Self> {
        let manifest: Corpus = manifest::load(corpus)?;
        let bytes = std::fs::read(corpus)
            .with_context(|| format!("there is no corpus {}", corpus.display()))?;
        ensure!(
            digest::of_bytes(&bytes) == manifest.sha256,
            "the corpus {} is not what it was made as",
            corpus.display()
        );
        let packed = pack(&bytes, 1, chunking, codec)?;
        let mut compared = Compared {
            with: &bytes,
            position: 0,
        };
        let length = container::read(packed.as_slice(), &mut compared)?;
        ensure!(
            length == bytes.len() as u64,
            "{length} bytes came back, not {}",
            bytes.len()
        );
        Ok(Self {
            corpus: manifest,
            output_bytes: packed.len() as u64,
            output_sha256: digest::of_bytes(&packed),
        })
    }
}

/// Content that must equal bytes that are there already.
struct Compared<'a> {
    with: &'a [u8],
    position: usize,
}

impl Content for Compared<'_> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let end = self.position + bytes.len();
        if self.with.get(self.position..end) != Some(bytes) {
            bail!("what came back differs from byte {} on", self.position);
        }
        self.position = end;
        Ok(())
    }

    fn again(&mut self, position: u64, bytes: &mut [u8]) -> Result<()> {
        let from = usize::try_from(position)?;
        bytes.copy_from_slice(&self.with[from..from + bytes.len()]);
        Ok(())
    }
}

/// Content that goes into a file.
struct Filed {
    file: File,
    position: u64,
}

impl Content for Filed {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, self.position)?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    fn again(&mut self, position: u64, bytes: &mut [u8]) -> Result<()> {
        Ok(self.file.read_exact_at(bytes, position)?)
    }
}

/// Decompresses a container into a file; the length of the content.
///
/// # Errors
/// What is wrong with the container, or why the file cannot be written.
pub fn unpack(from: impl Read, to: &Path) -> Result<u64> {
    let mut how = File::options();
    how.read(true).write(true).create(true).truncate(true);
    let file = how
        .open(to)
        .with_context(|| format!("cannot write {}", to.display()))?;
    container::read(from, &mut Filed { file, position: 0 })
}
