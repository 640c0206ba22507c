//! The container that dedup writes, and reading it back.
//!
//! A head of 18 bytes: `ULLDEDUP`, the version 1, the codec (0 none, 1 zstd), the length of the content
//! (8 bytes, little-endian). Then records, each begun by a LEB128 number n; n mod 4 is its kind:
//!
//! | kind | n div 4 | what follows |
//! |---|---|---|
//! | 0, seen before | number of a chunk, counted from 0 in order of first occurrence | |
//! | 1, compressed | length of the chunk | LEB128 length, one zstd frame |
//! | 2, stored | length of the chunk | the chunk |
//! | 3, end | number of records before | SHA-256 over the SHA-256 of all chunks, in order of content |
//!
//! Nothing follows the end. Chunks with the same SHA-256 are taken for equal: a collision would go
//! unnoticed, and nobody has found one.

use std::io::{self, Read, Write};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};
use zstd::bulk::Decompressor;

use crate::chunking::LONGEST;

const MAGIC: &[u8; 8] = b"ULLDEDUP";
const VERSION: u8 = 1;

/// SHA-256 of a chunk.
pub type Hash = [u8; 32];

/// How unique chunks are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    Stored,
    /// zstd at a level, each chunk a frame of its own.
    Zstd(i32),
}

impl Codec {
    fn code(self) -> u8 {
        u8::from(self != Self::Stored)
    }
}

pub struct Writer<W: Write> {
    to: W,
    records: u64,
    root: Sha256,
}

impl<W: Write> Writer<W> {
    /// Writes the head.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(mut to: W, codec: Codec, length: u64) -> io::Result<Self> {
        to.write_all(MAGIC)?;
        to.write_all(&[VERSION, codec.code()])?;
        to.write_all(&length.to_le_bytes())?;
        let root = Sha256::new();
        Ok(Self {
            to,
            records: 0,
            root,
        })
    }

    fn record(&mut self, hash: &Hash, value: u64, kind: u64) -> io::Result<()> {
        self.records += 1;
        self.root.update(hash);
        self.number(value << 2 | kind)
    }

    fn number(&mut self, mut value: u64) -> io::Result<()> {
        let (mut bytes, mut used) = ([0; 10], 0);
        loop {
            let low = value.to_le_bytes()[0] & 0x7f;
            value >>= 7;
            bytes[used] = low | u8::from(value > 0) << 7;
            used += 1;
            if value == 0 {
                return self.to.write_all(&bytes[..used]);
            }
        }
    }

    /// A chunk that was there before.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn reference(&mut self, hash: &Hash, number: u32) -> io::Result<()> {
        self.record(hash, u64::from(number), 0)
    }

    /// The first occurrence of a chunk of so many bytes, compressed.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn compressed(&mut self, hash: &Hash, length: usize, frame: &[u8]) -> io::Result<()> {
        self.record(hash, length as u64, 1)?;
        self.number(frame.len() as u64)?;
        self.to.write_all(frame)
    }

    /// The first occurrence of a chunk, as it is.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn stored(&mut self, hash: &Hash, chunk: &[u8]) -> io::Result<()> {
        self.record(hash, chunk.len() as u64, 2)?;
        self.to.write_all(chunk)
    }

    /// The end record; gives back what was written to.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.number(self.records << 2 | 3)?;
        let root = self.root.finalize();
        self.to.write_all(&root)?;
        self.to.flush()?;
        Ok(self.to)
    }
}

/// Where decompressed content goes, and can be had from again.
pub trait Content {
    /// Appends bytes.
    ///
    /// # Errors
    /// Why they could not be.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// Fills `bytes` with what was appended at that position.
    ///
    /// # Errors
    /// Why it could not be had.
    fn again(&mut self, position: u64, bytes: &mut [u8]) -> Result<()>;
}

impl Content for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn again(&mut self, position: u64, bytes: &mut [u8]) -> Result<()> {
        let from = usize::try_from(position)?;
        bytes.copy_from_slice(&self[from..from + bytes.len()]);
        Ok(())
    }
}

/// A chunk that references may name.
struct ChunkPlace {
    position: u64,
    length: usize,
    hash: Hash,
}

/// Decompresses a container; the length of its content.
///
/// # Errors
/// What is wrong with the container, or why the content could not be written.
pub fn read(from: impl Read, content: &mut impl Content) -> Result<u64> {
    let mut reader = Reader::begin(from)?;
    while reader.record(content)? {}
    ensure!(
        reader.position == reader.length,
        "the container holds {} bytes of {}",
        reader.position,
        reader.length
    );
    ensure!(
        reader.from.read(&mut [0])? == 0,
        "something follows the end of the container"
    );
    Ok(reader.length)
}

struct Reader<R: Read> {
    from: R,
    length: u64,
    position: u64,
    records: u64,
    root: Sha256,
    places: Vec<ChunkPlace>,
    zstd: Option<Decompressor<'static>>,
    frame: Vec<u8>,
    chunk: Vec<u8>,
}

impl<R: Read> Reader<R> {
    fn begin(mut from: R) -> Result<Self> {
        let mut head = [0; 18];
        from.read_exact(&mut head)
            .context("the container ends within its head")?;
        let [version, codec] = [head[8], head[9]];
        ensure!(head.starts_with(MAGIC), "this is no container of dedup's");
        ensure!(
            version == VERSION,
            "the container has version {version}, not {VERSION}"
        );
        let zstd = match codec {
            0 => None,
            1 => Some(Decompressor::new()?),
            other => bail!("the container has an unknown codec, {other}"),
        };
        let mut length = [0; 8];
        length.copy_from_slice(&head[10..]);
        Ok(Self {
            from,
            length: u64::from_le_bytes(length),
            position: 0,
            records: 0,
            root: Sha256::new(),
            places: Vec::new(),
            zstd,
            frame: Vec::new(),
            chunk: Vec::new(),
        })
    }

    /// Reads one record; was it not the end?
    fn record(&mut self, content: &mut impl Content) -> Result<bool> {
        let number = self.number()?;
        let (kind, value) = (number & 3, number >> 2);
        match kind {
            0 => self.seen_before(value, content)?,
            1 => {
                let length = self.chunk_length(value)?;
                let size = usize::try_from(self.number()?)?;
                ensure!(size < length, "a chunk of {length} bytes grew to {size}");
                self.compressed(length, size)?;
                self.unique(content)?;
            }
            2 => {
                let length = self.chunk_length(value)?;
                self.chunk.resize(length, 0);
                self.from
                    .read_exact(&mut self.chunk)
                    .context("the container ends within a chunk")?;
                self.unique(content)?;
            }
            _ => {
                self.end(value)?;
                return Ok(false);
            }
        }
        self.records += 1;
        Ok(true)
    }

    fn number(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let mut byte = [0];
            self.from
                .read_exact(&mut byte)
                .context("the container ends without an end record")?;
            value |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                return Ok(value);
            }
        }
        bail!("a number in the container is too long")
    }

    fn chunk_length(&self, value: u64) -> Result<usize> {
        let length = usize::try_from(value)?;
        ensure!(
            (1..=LONGEST).contains(&length) && value <= self.length - self.position,
            "a chunk has {length} bytes, which cannot be"
        );
        Ok(length)
    }

    fn compressed(&mut self, length: usize, size: usize) -> Result<()> {
        let Some(zstd) = &mut self.zstd else {
            bail!("a chunk is compressed in a container that has none")
        };
        self.frame.resize(size, 0);
        self.from
            .read_exact(&mut self.frame)
            .context("the container ends within a chunk")?;
        self.chunk.resize(length, 0);
        let unpacked = zstd
            .decompress_to_buffer(&self.frame, self.chunk.as_mut_slice())
            .context("a chunk cannot be decompressed")?;
        ensure!(
            unpacked == length,
            "a chunk of {length} bytes has {unpacked}"
        );
        Ok(())
    }

    fn unique(&mut self, content: &mut impl Content) -> Result<()> {
        let hash = Sha256::digest(&self.chunk).into();
        self.places.push(ChunkPlace {
            position: self.position,
            length: self.chunk.len(),
            hash,
        });
        self.append(hash, content)
    }

    fn seen_before(&mut self, number: u64, content: &mut impl Content) -> Result<()> {
        let place = usize::try_from(number)
            .ok()
            .and_then(|index| self.places.get(index));
        let Some(place) = place else {
            bail!("chunk {number} is named, {} are known", self.places.len())
        };
        ensure!(
            place.length as u64 <= self.length - self.position,
            "the content is longer than its head says"
        );
        self.chunk.resize(place.length, 0);
        let hash = place.hash;
        content.again(place.position, &mut self.chunk)?;
        self.append(hash, content)
    }

    fn append(&mut self, hash: Hash, content: &mut impl Content) -> Result<()> {
        content.append(&self.chunk)?;
        self.root.update(hash);
        self.position += self.chunk.len() as u64;
        Ok(())
    }

    fn end(&mut self, records: u64) -> Result<()> {
        ensure!(
            records == self.records,
            "the container has {} records, its end says {records}",
            self.records
        );
        let mut root = [0; 32];
        self.from
            .read_exact(&mut root)
            .context("the container ends within its digest")?;
        ensure!(
            *self.root.clone().finalize() == root,
            "the content is not what was put in: its digest differs"
        );
        Ok(())
    }
}
