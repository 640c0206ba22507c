//! Locality-sensitive hashing: near segments fall into the same bucket more often than far ones.
//!
//! Datar, Immorlica, Indyk and Mirrokni 2004, "Locality-sensitive hashing scheme based on p-stable
//! distributions" (SCG, doi:10.1145/997817.997857), for p = 2: a hash is floor((a·v + b) / w), a from the
//! normal distribution, b uniform in [0, w); a table's key is several of them, and there are several tables.

use std::collections::HashMap;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::features::{DIMENSIONS, ONE, Segment};
use crate::draw::Draw;

const SEED: u64 = 0x4c53_4821;

/// How fine the buckets are, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Args, Serialize, Deserialize)]
pub struct Settings {
    /// Hash tables
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub tables: u16,
    /// Projections that make up one table's key
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=32))]
    pub projections: u16,
    /// Width of a bucket, w, in thousandths of a feature's range
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub width: u32,
}

struct Projection {
    along: [f64; DIMENSIONS],
    offset: f64,
}

/// One table: what makes its key, and the images by key.
struct Table {
    projections: Vec<Projection>,
    buckets: HashMap<u64, Vec<u32>>,
}

/// Which images have a segment in which bucket.
pub struct Index {
    width: f64,
    tables: Vec<Table>,
}

impl Index {
    /// The tables of a database of images, in order.
    pub fn new<'a>(settings: Settings, images: impl Iterator<Item = &'a [Segment]>) -> Self {
        let width = f64::from(settings.width) * ONE / 1000.0;
        let mut draw = Draw::new(SEED);
        let mut projection = || Projection {
            along: std::array::from_fn(|_| draw.normal()),
            offset: draw.unit() * width,
        };
        let mut table = |_| Table {
            projections: (0..settings.projections).map(|_| projection()).collect(),
            buckets: HashMap::new(),
        };
        let tables = (0..settings.tables).map(&mut table).collect();
        let mut index = Self { width, tables };
        for (image, segments) in (0..).zip(images) {
            for segment in segments {
                index.add(image, segment);
            }
        }
        index
    }

    fn add(&mut self, image: u32, segment: &Segment) {
        for table in &mut self.tables {
            let key = key(&table.projections, self.width, segment);
            let bucket = table.buckets.entry(key).or_default();
            if bucket.last() != Some(&image) {
                bucket.push(image);
            }
        }
    }

    /// The images that share buckets with a segment; one may come several times.
    pub fn near(&self, segment: &Segment) -> impl Iterator<Item = u32> {
        self.tables.iter().flat_map(move |table| {
            let key = key(&table.projections, self.width, segment);
            table.buckets.get(&key).into_iter().flatten().copied()
        })
    }
}

/// Equal keys are taken for equal hashes: a clash of two adds candidates, and no more.
fn key(projections: &[Projection], width: f64, segment: &Segment) -> u64 {
    projections
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |key, projection| {
            let pairs = projection.along.iter().zip(segment.features);
            let along: f64 = pairs.map(|(a, v)| a * f64::from(v)).sum();
            #[allow(clippy::cast_possible_truncation)] // A few hundred at most.
            let bucket = ((along + projection.offset) / width).floor() as i64;
            (key ^ bucket.cast_unsigned())
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        })
}
