//! What a segment is described by: 14 numbers and a weight.
//!
//! After Lv, Charikar and Li 2004, "Image similarity search with compact data structures" (CIKM,
//! doi:10.1145/1031171.1031213), the features of PARSEC's ferret: nine moments of colour (mean, standard
//! deviation and cube root of the third central moment of each channel; Stricker and Orengo 1995) and five
//! of the bounding box (aspect ratio, size, share that is filled, centre). Ours are of red, green and blue.
//! A segment weighs as the square root of its size. All are rounded to fixed point, so that distances
//! are whole numbers.

use serde::{Deserialize, Serialize};

use super::images::SIDE;
use super::segment::Segments;

/// Numbers that describe a segment.
pub const DIMENSIONS: usize = 14;
/// Sum of the weights of an image.
pub const WHOLE: u32 = 255;
/// Fixed point: this is 1.0, about the range of each number.
pub const ONE: f64 = 4096.0;
/// The largest ones of an image are kept.
const MOST: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    pub weight: u32,
    pub features: [i32; DIMENSIONS],
}

/// What is summed up over the pixels of one segment.
#[derive(Clone, Copy)]
struct Sums {
    size: u32,
    powers: [[u64; 3]; 3],
    left: usize,
    right: usize,
    top: usize,
    bottom: usize,
}

impl Sums {
    const NONE: Self = Self {
        size: 0,
        powers: [[0; 3]; 3],
        left: SIDE,
        right: 0,
        top: SIDE,
        bottom: 0,
    };

    fn add(&mut self, at: usize, pixel: &[u8]) {
        let (x, y) = (at % SIDE, at / SIDE);
        self.size += 1;
        for (sums, &value) in self.powers.iter_mut().zip(pixel) {
            let value = u64::from(value);
            sums[0] += value;
            sums[1] += value * value;
            sums[2] += value * value * value;
        }
        self.left = self.left.min(x);
        self.right = self.right.max(x + 1);
        self.top = self.top.min(y);
        self.bottom = self.bottom.max(y + 1);
    }
}

/// The segments of an image, the largest first; their weights sum to `WHOLE`.
#[must_use]
pub fn extract(pixels: &[u8], segments: &Segments) -> Vec<Segment> {
    let mut sums = vec![Sums::NONE; segments.count];
    for (at, (pixel, &number)) in pixels.chunks_exact(3).zip(&segments.of).enumerate() {
        sums[usize::from(number)].add(at, pixel);
    }
    sums.sort_by_key(|sums| std::cmp::Reverse(sums.size));
    sums.truncate(MOST);
    let weights = weights(&sums);
    let described = sums.iter().map(described).zip(weights);
    described
        .map(|(features, weight)| Segment { weight, features })
        .filter(|segment| segment.weight > 0)
        .collect()
}

/// Whole weights that sum to `WHOLE`; what rounding leaves goes to the largest.
fn weights(sums: &[Sums]) -> Vec<u32> {
    let roots: Vec<u32> = sums.iter().map(|sums| (sums.size << 8).isqrt()).collect();
    let total: u32 = roots.iter().sum();
    let mut weights: Vec<u32> = roots.iter().map(|root| root * WHOLE / total).collect();
    let missing = WHOLE - weights.iter().sum::<u32>();
    if let Some(largest) = weights.first_mut() {
        *largest += missing;
    }
    weights
}

#[allow(clippy::cast_precision_loss)] // Sums over 2^14 pixels of bytes to the third: below 2^38.
fn described(sums: &Sums) -> [i32; DIMENSIONS] {
    let size = f64::from(sums.size);
    let mut numbers = [0.0; DIMENSIONS];
    for (channel, powers) in sums.powers.iter().enumerate() {
        let [first, second, third] = powers.map(|sum| sum as f64 / size);
        let variance = (second - first * first).max(0.0);
        let skew = third - 3.0 * first * second + 2.0 * first * first * first;
        numbers[channel * 3] = first / 255.0;
        numbers[channel * 3 + 1] = variance.sqrt() / 128.0;
        numbers[channel * 3 + 2] = libm::cbrt(skew) / 256.0;
    }
    let whole = SIDE as f64;
    let (width, height) = (
        (sums.right - sums.left) as f64,
        (sums.bottom - sums.top) as f64,
    );
    numbers[9] = libm::log2(width / height) / 8.0;
    numbers[10] = (width * height).sqrt() / whole / 2.0;
    numbers[11] = size / (width * height) / 2.0;
    numbers[12] = (sums.left + sums.right) as f64 / (2.0 * whole);
    numbers[13] = (sums.top + sums.bottom) as f64 / (2.0 * whole);
    numbers.map(fixed)
}

#[allow(clippy::cast_possible_truncation)] // Within a few times ONE.
fn fixed(number: f64) -> i32 {
    (number * ONE).round() as i32
}

/// Distance of two segments: Euclid's, in units of 1 / `ONE`.
#[must_use]
pub fn distance(a: &Segment, b: &Segment) -> u64 {
    let pairs = a.features.iter().zip(&b.features);
    let squares = pairs.map(|(a, b)| u64::from(a.abs_diff(*b)).pow(2));
    squares.sum::<u64>().isqrt()
}
