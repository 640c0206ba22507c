//! The last stage: puts the batches in order again and writes them, each chunk once.
//!
//! Which thread saw a chunk first is chance; which occurrence is first in the content is not. So the
//! bytes are written at the first place where they stand, whoever compressed them, and numbered there:
//! the output does not depend on the number of threads.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::sync::Arc;

use super::container::Writer;
use super::stages::{Batch, Chunk, Kept, Place};

const UNWRITTEN: u32 = u32::MAX;

/// Bytes of a chunk that were not written yet: which of its batch's chunks it is.
struct Waiting<'a> {
    batch: Arc<Batch<'a>>,
    index: usize,
}

/// What came, what is to come, and what was written.
pub struct Order<'a, W: Write> {
    writer: Writer<W>,
    next: Place,
    /// Chunks of the next batch that were written already.
    done: usize,
    early: BTreeMap<Place, Arc<Batch<'a>>>,
    waiting: HashMap<u32, Waiting<'a>>,
    /// By identity: the number that a chunk was written with.
    numbers: Vec<u32>,
    written: u32,
}

impl<'a, W: Write> Order<'a, W> {
    /// Writes to a container that was just begun.
    pub fn new(writer: Writer<W>) -> Self {
        Self {
            writer,
            next: Place::FIRST,
            done: 0,
            early: BTreeMap::new(),
            waiting: HashMap::new(),
            numbers: Vec::new(),
            written: 0,
        }
    }

    /// Takes a batch, and writes all that can be; the batches that are wholly written.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn take(&mut self, batch: Batch<'a>) -> io::Result<Vec<Arc<Batch<'a>>>> {
        let batch = Arc::new(batch);
        for (index, chunk) in batch.chunks.iter().enumerate() {
            if chunk.kept.is_some() {
                let waiting = Waiting {
                    batch: Arc::clone(&batch),
                    index,
                };
                self.waiting.insert(chunk.identity, waiting);
            }
        }
        self.early.insert(batch.place, batch);
        let mut finished = Vec::new();
        while let Some(batch) = self.early.get(&self.next).map(Arc::clone) {
            while let Some(chunk) = batch.chunks.get(self.done) {
                if !self.write(chunk)? {
                    return Ok(finished);
                }
                self.done += 1;
            }
            self.early.remove(&self.next);
            self.next = self.next.after(batch.last);
            self.done = 0;
            finished.push(batch);
        }
        Ok(finished)
    }

    /// Writes one chunk; false when its bytes have not come yet.
    fn write(&mut self, chunk: &Chunk) -> io::Result<bool> {
        let identity = chunk.identity as usize;
        if identity >= self.numbers.len() {
            self.numbers.resize(identity + 1, UNWRITTEN);
        }
        let number = self.numbers[identity];
        if number != UNWRITTEN {
            self.writer.reference(&chunk.hash, number)?;
            return Ok(true);
        }
        let Some(Waiting { batch, index }) = self.waiting.remove(&chunk.identity) else {
            return Ok(false);
        };
        let first = &batch.chunks[index];
        if let Some(Kept::Compressed(range)) = &first.kept {
            let frame = &batch.frames[range.clone()];
            self.writer
                .compressed(&chunk.hash, first.range.len(), frame)?;
        } else {
            let bytes = &batch.fragment[first.range.clone()];
            self.writer.stored(&chunk.hash, bytes)?;
        }
        self.numbers[identity] = self.written;
        self.written += 1;
        Ok(true)
    }

    /// Ends the container; what was written to, and the number of unique chunks.
    ///
    /// # Errors
    /// When it cannot be written, or batches are missing.
    pub fn finish(self) -> io::Result<(W, u32)> {
        if !self.early.is_empty() {
            return Err(io::Error::other("batches are missing"));
        }
        Ok((self.writer.finish()?, self.written))
    }
}
