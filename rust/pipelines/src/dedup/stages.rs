//! What goes from stage to stage, and the three stages that have n threads each.

use std::ops::Range;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use zstd::bulk::Compressor;

use super::container::{Codec, Hash};
use super::fragments::Bytes;
use super::table::Table;
use crate::chunking::Chunking;

/// Most chunks in a batch. PARSEC's queues take 20 at a time.
const BATCH: usize = 64;

/// What the first stage makes.
pub struct Fragment<'a> {
    /// Counted from 0.
    pub number: u64,
    pub bytes: Bytes<'a>,
}

/// Where a batch stands in the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub fragment: u64,
    pub batch: u32,
}

impl Place {
    /// The first batch of all.
    pub const FIRST: Self = Self {
        fragment: 0,
        batch: 0,
    };

    /// The next one, after the last of its fragment or another.
    #[must_use]
    pub fn after(self, last: bool) -> Self {
        if last {
            let fragment = self.fragment + 1;
            Self { fragment, batch: 0 }
        } else {
            let batch = self.batch + 1;
            Self { batch, ..self }
        }
    }
}

/// How a first occurrence is to be written.
pub enum Kept {
    /// These bytes of the batch's frames.
    Compressed(Range<usize>),
    Stored,
}

pub struct Chunk {
    /// Its bytes within the fragment.
    pub range: Range<usize>,
    pub hash: Hash,
    pub identity: u32,
    /// None: it was seen before.
    pub kept: Option<Kept>,
}

/// Neighbouring chunks of a fragment: what the queues between the stages hold.
pub struct Batch<'a> {
    pub place: Place,
    /// Is it the last of its fragment?
    pub last: bool,
    pub fragment: Bytes<'a>,
    pub chunks: Vec<Chunk>,
    /// The compressed chunks, one after the other.
    pub frames: Vec<u8>,
}

/// Refine: cuts a fragment into chunks, in batches.
pub fn refine(fragment: Fragment<'_>, chunking: Chunking) -> Vec<Batch<'_>> {
    let Fragment { number, bytes } = fragment;
    let ends = chunking.ends(&bytes);
    let mut start = 0;
    let mut batches: Vec<Batch> = Vec::with_capacity(ends.len() / BATCH + 1);
    for (batch, ends) in (0..).zip(ends.chunks(BATCH)) {
        let mut chunks = Vec::with_capacity(ends.len());
        for &end in ends {
            chunks.push(Chunk {
                range: start..end,
                hash: [0; 32],
                identity: 0,
                kept: None,
            });
            start = end;
        }
        batches.push(Batch {
            place: Place {
                fragment: number,
                batch,
            },
            last: false,
            fragment: bytes.clone(),
            chunks,
            frames: Vec::new(),
        });
    }
    if let Some(last) = batches.last_mut() {
        last.last = true;
    }
    batches
}

/// Deduplicate: hashes the chunks and looks them up; is there a first occurrence among them?
pub fn deduplicate(batch: &mut Batch<'_>, table: &Table) -> bool {
    let mut any = false;
    for chunk in &mut batch.chunks {
        chunk.hash = Sha256::digest(&batch.fragment[chunk.range.clone()]).into();
        let (identity, new) = table.identify(&chunk.hash);
        chunk.identity = identity;
        chunk.kept = new.then_some(Kept::Stored);
        any |= new;
    }
    any
}

/// Compress: what one thread of it needs.
pub struct Packer {
    zstd: Option<Compressor<'static>>,
    scratch: Vec<u8>,
}

impl Packer {
    /// One for a codec.
    ///
    /// # Errors
    /// When zstd refuses the level.
    pub fn new(codec: Codec) -> Result<Self> {
        let zstd = match codec {
            Codec::Stored => None,
            Codec::Zstd(level) => {
                let mut zstd = Compressor::new(level).context("zstd refuses the level")?;
                // The container says how long a chunk is, and proves it by SHA-256.
                zstd.include_contentsize(false)?;
                zstd.include_checksum(false)?;
                Some(zstd)
            }
        };
        Ok(Self {
            zstd,
            scratch: Vec::new(),
        })
    }

    /// Compresses the first occurrences of a batch; what does not shrink stays as it is.
    ///
    /// # Errors
    /// zstd's own.
    pub fn pack(&mut self, batch: &mut Batch<'_>) -> Result<()> {
        let Some(zstd) = &mut self.zstd else {
            return Ok(());
        };
        for chunk in &mut batch.chunks {
            if chunk.kept.is_none() {
                continue;
            }
            let bytes = &batch.fragment[chunk.range.clone()];
            let bound = zstd::zstd_safe::compress_bound(bytes.len());
            if self.scratch.len() < bound {
                self.scratch.resize(bound, 0);
            }
            let size = zstd.compress_to_buffer(bytes, self.scratch.as_mut_slice())?;
            if size < bytes.len() {
                let start = batch.frames.len();
                batch.frames.extend_from_slice(&self.scratch[..size]);
                chunk.kept = Some(Kept::Compressed(start..start + size));
            }
        }
        Ok(())
    }
}
