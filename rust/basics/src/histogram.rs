//! How long events took, by the logarithm: sysbench's histogram (`sb_histogram.c`), which costs
//! as much as a small event does. All threads share it; each writes to a copy that is drawn anew.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::random::Random;

const COPIES: usize = 128;
const BINS: usize = 1024;
const LEAST_MS: f64 = 1e-3;
const MOST_MS: f64 = 1e5;

pub struct Histogram {
    counts: Vec<AtomicU64>,
    offset: f64,
    scale: f64,
}

impl Histogram {
    #[expect(clippy::cast_precision_loss, reason = "a thousand bins")]
    pub fn new() -> Self {
        let offset = libm::log(LEAST_MS);
        let scale = (BINS - 1) as f64 / (libm::log(MOST_MS) - offset);
        let counts = (0..COPIES * BINS).map(|_| AtomicU64::new(0)).collect();
        Self {
            counts,
            offset,
            scale,
        }
    }

    /// The logarithm is not the system's own: it is to cost the same on all systems.
    #[expect(clippy::cast_possible_truncation, reason = "bins are few")]
    pub fn add(&self, milliseconds: f64, random: &mut Random) {
        let copy = random.bits() as usize % COPIES;
        let bin = ((libm::log(milliseconds) - self.offset) * self.scale + 0.5).floor() as i64;
        let bin = usize::try_from(bin).unwrap_or(0).min(BINS - 1);
        self.counts[copy * BINS + bin].fetch_add(1, Ordering::Relaxed);
    }

    /// In seconds: the middle of the bin that so many events, in percent, do not exceed.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "as sysbench has it"
    )]
    pub fn percentile_s(&self, percent: f64) -> f64 {
        let sum = |bin: usize| -> u64 {
            let of = |copy: usize| self.counts[copy * BINS + bin].load(Ordering::Relaxed);
            (0..COPIES).map(of).sum()
        };
        let counts: Vec<u64> = (0..BINS).map(sum).collect();
        let most = (counts.iter().sum::<u64>() as f64 * percent / 100.0 + 0.5).floor() as u64;
        let mut below = 0;
        let reaches = |count: &u64| {
            below += count;
            below >= most
        };
        let bin = counts.iter().position(reaches).unwrap_or(BINS - 1);
        libm::exp(bin as f64 / self.scale + self.offset) / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_95th_percentile_is_what_sysbench_would_say() {
        let (histogram, mut random) = (Histogram::new(), Random::new(1, 0));
        for part in 1..=100 {
            histogram.add(f64::from(part), &mut random);
        }
        // A bin is 1.8 % wide.
        assert!((histogram.percentile_s(95.0) / 0.095 - 1.0).abs() < 0.01);
    }

    #[test]
    fn what_is_outside_counts_as_the_last_bin() {
        let (histogram, mut random) = (Histogram::new(), Random::new(1, 0));
        histogram.add(0.0, &mut random);
        assert!((histogram.percentile_s(95.0) / 1e-6 - 1.0).abs() < 1e-9);
        for _ in 0..99 {
            histogram.add(1e9, &mut random);
        }
        assert!((histogram.percentile_s(95.0) / 100.0 - 1.0).abs() < 1e-9);
    }
}
