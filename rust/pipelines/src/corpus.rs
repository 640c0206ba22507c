//! A generated input for dedup: with so many duplicates, and so compressible.
//!
//! The content is a row of segments of 16 to 128 KiB. A segment is, by chance, the copy of an earlier
//! one, drawn from all of them, or fresh; so copies lie at any byte, and as far back as the content goes.
//! A fresh segment is a row of runs of 256 to 4 096 bytes, each, by chance, text or random bytes. Text is
//! words of 2 to 10 letters from a vocabulary of 8 192, the more frequent the shorter their index: about
//! Zipf's law. Everything follows from the seed, by integers alone: the same bytes on every machine.

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::draw::Draw;
use crate::{digest, manifest, ratio};

const SEGMENT: (usize, usize) = (16 << 10, (128 << 10) + 1);
const RUN: (usize, usize) = (256, 4097);
const WORD: (usize, usize) = (2, 11);
const VOCABULARY_BITS: usize = 13;

/// What a corpus is to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Bytes.
    pub size: u64,
    /// Share of the segments that are copies, from 0 to below 1.
    pub duplicates: f64,
    /// Share of the runs that are text, from 0 to 1.
    pub compressible: f64,
    pub seed: u64,
}

/// What a corpus is: it lies beside it as a file of the same name with `.json` behind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Corpus {
    #[serde(flatten)]
    pub plan: Plan,
    pub sha256: String,
    /// Share of the bytes that stand in copies.
    pub duplicate_share: f64,
}

impl Corpus {
    /// Makes a corpus, in a file that is on the disk when this returns, and its manifest.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn make(plan: Plan, path: &Path) -> Result<Self> {
        let mut copied = 0;
        let pieces = Pieces::new(plan).map(|piece| {
            copied += u64::from(piece.copy) * piece.bytes.len() as u64;
            piece.bytes
        });
        let sha256 = digest::store(path, pieces.map(Ok))?;
        let corpus = Self {
            plan,
            sha256,
            duplicate_share: ratio(copied, plan.size),
        };
        manifest::store(path, &corpus)?;
        Ok(corpus)
    }
}

/// The segments of a corpus, in order.
pub struct Pieces {
    plan: Plan,
    words: Vec<Vec<u8>>,
    draw: Draw,
    /// Seed and length of each fresh segment so far.
    fresh: Vec<(u64, usize)>,
    left: u64,
}

pub struct Piece {
    pub bytes: Vec<u8>,
    pub copy: bool,
}

impl Pieces {
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        let mut draw = Draw::new(plan.seed);
        let words = (0..1 << VOCABULARY_BITS).map(|_| word(&mut draw)).collect();
        Self {
            plan,
            words,
            draw,
            fresh: Vec::new(),
            left: plan.size,
        }
    }

    fn content(&self, seed: u64, length: usize) -> Vec<u8> {
        let (mut draw, mut bytes) = (Draw::new(seed), Vec::with_capacity(length + RUN.1 + WORD.1));
        while bytes.len() < length {
            let text = draw.unit() < self.plan.compressible;
            let end = bytes.len() + draw.between(RUN.0, RUN.1);
            if text {
                while bytes.len() < end {
                    bytes.extend_from_slice(&self.words[frequent(&mut draw)]);
                }
            } else {
                let start = bytes.len();
                bytes.resize(end, 0);
                draw.fill(&mut bytes[start..]);
            }
        }
        bytes.truncate(length);
        bytes
    }
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.left == 0 {
            return None;
        }
        let copy = self.draw.unit() < self.plan.duplicates && !self.fresh.is_empty();
        let (seed, length) = if copy {
            self.fresh[self.draw.between(0, self.fresh.len())]
        } else {
            let segment = (self.draw.bits(), self.draw.between(SEGMENT.0, SEGMENT.1));
            self.fresh.push(segment);
            segment
        };
        let length = length.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= length as u64;
        let bytes = self.content(seed, length);
        Some(Piece { bytes, copy })
    }
}

/// A word and a blank.
fn word(draw: &mut Draw) -> Vec<u8> {
    let letters = draw.between(WORD.0, WORD.1);
    let mut word: Vec<u8> = (0..letters)
        .map(|_| b"abcdefghijklmnopqrstuvwxyz"[draw.between(0, 26)])
        .collect();
    word.push(b' ');
    word
}

/// An index below 2^13: its length in bits is drawn first, so small ones are frequent.
fn frequent(draw: &mut Draw) -> usize {
    let low = 1 << draw.between(0, VOCABULARY_BITS);
    draw.between(low, 2 * low) % (1 << VOCABULARY_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(plan: Plan) -> Vec<u8> {
        Pieces::new(plan).flat_map(|piece| piece.bytes).collect()
    }

    const PLAN: Plan = Plan {
        size: 3_000_017,
        duplicates: 0.3,
        compressible: 0.5,
        seed: 7,
    };

    #[test]
    fn a_corpus_follows_from_its_plan_alone() {
        assert_eq!(bytes(PLAN), bytes(PLAN));
        assert_eq!(bytes(PLAN).len(), 3_000_017);
        for other in [
            Plan { seed: 8, ..PLAN },
            Plan {
                duplicates: 0.4,
                ..PLAN
            },
            Plan {
                compressible: 0.6,
                ..PLAN
            },
        ] {
            assert_ne!(bytes(PLAN), bytes(other));
        }
    }

    #[test]
    fn a_longer_one_begins_with_a_shorter_one() {
        let longer = bytes(Plan {
            size: 4_000_000,
            ..PLAN
        });
        assert!(longer.starts_with(&bytes(PLAN)));
    }

    #[test]
    fn copies_are_as_frequent_as_asked() {
        for duplicates in [0.0, 0.3, 0.7] {
            let plan = Plan {
                size: 8 << 20,
                duplicates,
                compressible: 0.0,
                seed: 1,
            };
            let copied: usize = Pieces::new(plan)
                .filter(|piece| piece.copy)
                .map(|piece| piece.bytes.len())
                .sum();
            assert!((ratio(copied as u64, plan.size) - duplicates).abs() < 0.15);
        }
    }
}
