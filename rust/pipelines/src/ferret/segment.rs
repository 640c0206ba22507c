//! Segmenting an image by statistical region merging.
//!
//! Nock and Nielsen 2004, "Statistical region merging", IEEE TPAMI 26(11):1452, doi:10.1109/TPAMI.2004.110:
//! neighbouring pixels are taken in order of their difference, and their regions merged when the means of
//! all channels are within sqrt(b²(R) + b²(R')), b²(R) = g² / (2 Q |R|) · (min(g, |R|) ln(1 + |R|) + 2 ln(6 n²)),
//! with g = 256 levels, n pixels, Q = 32 (their code; the paper's bound is the same up to constants).
//! Regions below 1 % of the image then join the neighbour that they differ least from.

use std::sync::LazyLock;

use super::images::{BYTES, SIDE};

const PIXELS: usize = SIDE * SIDE;
const Q: f64 = 32.0;
const SMALLEST: u32 = 164;

/// For each pixel, which segment it belongs to, from 0; and how many segments there are.
pub struct Segments {
    pub of: Vec<u16>,
    pub count: usize,
}

/// b² of a region, by its number of pixels.
static BOUND: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let levels = 256.0;
    let spread = 2.0 * libm::log(6.0 * f64::from(SIDE_32) * f64::from(SIDE_32));
    let bound = |size: u32| {
        let size = f64::from(size.max(1));
        levels * levels / (2.0 * Q * size) * (size.min(levels) * libm::log(1.0 + size) + spread)
    };
    (0..=SIDE_32 * SIDE_32).map(bound).collect()
});

#[allow(clippy::cast_possible_truncation)] // 128.
const SIDE_32: u32 = SIDE as u32;

struct Regions {
    parent: Vec<u32>,
    size: Vec<u32>,
    sums: Vec<[u32; 3]>,
}

impl Regions {
    fn new(pixels: &[u8]) -> Self {
        let parts = pixels.chunks_exact(3);
        Self {
            parent: (0..SIDE_32 * SIDE_32).collect(),
            size: vec![1; PIXELS],
            sums: parts
                .map(|p| [p[0].into(), p[1].into(), p[2].into()])
                .collect(),
        }
    }

    fn root(&mut self, mut pixel: u32) -> u32 {
        loop {
            let parent = self.parent[pixel as usize];
            if parent == pixel {
                return pixel;
            }
            let above = self.parent[parent as usize];
            self.parent[pixel as usize] = above;
            pixel = above;
        }
    }

    fn alike(&self, a: u32, b: u32) -> bool {
        let (a, b) = (a as usize, b as usize);
        let bound = BOUND[self.size[a] as usize] + BOUND[self.size[b] as usize];
        let (size_a, size_b) = (f64::from(self.size[a]), f64::from(self.size[b]));
        (0..3).all(|channel| {
            let mean_a = f64::from(self.sums[a][channel]) / size_a;
            let mean_b = f64::from(self.sums[b][channel]) / size_b;
            (mean_a - mean_b) * (mean_a - mean_b) <= bound
        })
    }

    fn merge(&mut self, a: u32, b: u32) {
        let (into, from) = if self.size[a as usize] >= self.size[b as usize] {
            (a, b)
        } else {
            (b, a)
        };
        self.parent[from as usize] = into;
        self.size[into as usize] += self.size[from as usize];
        for channel in 0..3 {
            self.sums[into as usize][channel] += self.sums[from as usize][channel];
        }
    }
}

/// Segments an image of `BYTES` bytes.
#[must_use]
pub fn segment(pixels: &[u8]) -> Segments {
    let pixels = &pixels[..BYTES];
    let (mut regions, edges) = (Regions::new(pixels), edges(pixels));
    for &(a, b) in &edges {
        let (a, b) = (regions.root(a), regions.root(b));
        if a != b && regions.alike(a, b) {
            regions.merge(a, b);
        }
    }
    for (a, b) in edges {
        let (a, b) = (regions.root(a), regions.root(b));
        if a != b && regions.size[a as usize].min(regions.size[b as usize]) < SMALLEST {
            regions.merge(a, b);
        }
    }
    numbered(&mut regions)
}

/// Neighbours to the right and below, by their largest difference in a channel: a counting sort.
fn edges(pixels: &[u8]) -> Vec<(u32, u32)> {
    let mut buckets: Vec<Vec<(u32, u32)>> = vec![Vec::new(); 256];
    let pixel = |at: u32| &pixels[at as usize * 3..at as usize * 3 + 3];
    for at in 0..SIDE_32 * SIDE_32 {
        let mut add = |other: u32| {
            let pairs = pixel(at).iter().zip(pixel(other));
            let most = pairs.map(|(a, b)| a.abs_diff(*b)).max();
            buckets[usize::from(most.unwrap_or(0))].push((at, other));
        };
        if at % SIDE_32 + 1 < SIDE_32 {
            add(at + 1);
        }
        if at / SIDE_32 + 1 < SIDE_32 {
            add(at + SIDE_32);
        }
    }
    buckets.concat()
}

fn numbered(regions: &mut Regions) -> Segments {
    const NONE: u16 = u16::MAX;
    let (mut numbers, mut count) = (vec![NONE; PIXELS], 0);
    let of = (0..SIDE_32 * SIDE_32)
        .map(|pixel| {
            let root = regions.root(pixel) as usize;
            if numbers[root] == NONE {
                numbers[root] = count;
                count += 1;
            }
            numbers[root]
        })
        .collect();
    Segments {
        of,
        count: count.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halves(left: [u8; 3], right: [u8; 3]) -> Vec<u8> {
        (0..PIXELS)
            .flat_map(|at| if at % SIDE < SIDE / 2 { left } else { right })
            .collect()
    }

    #[test]
    fn two_halves_are_two_segments_and_one_colour_is_one() {
        let two = segment(&halves([10, 20, 30], [200, 20, 30]));
        assert_eq!(two.count, 2);
        assert!(
            (0..PIXELS).all(|at| usize::from(two.of[at]) == usize::from(at % SIDE >= SIDE / 2))
        );
        assert_eq!(segment(&halves([9, 9, 9], [9, 9, 9])).count, 1);
    }

    #[test]
    fn specks_join_what_is_around_them() {
        let mut pixels = halves([10, 10, 10], [10, 10, 10]);
        for at in [5000, 5001, 5128] {
            pixels[at * 3..at * 3 + 3].copy_from_slice(&[255, 255, 255]);
        }
        assert_eq!(segment(&pixels).count, 1);
    }
}
