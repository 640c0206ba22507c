//! A clock that is a known function of another.

use std::f64::consts::TAU;

use rand::Rng;
use serde::{Deserialize, Serialize};

/// True time with an offset, a skew, and a rate that swings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Oscillator {
    /// Where the skew begins to count, in true nanoseconds.
    pub start_ns: u64,
    /// Ahead by this there, in nanoseconds.
    pub ahead_ns: i64,
    /// How much faster it runs, in parts per billion.
    pub skew_ppb: i64,
    /// The rate swings by so much, in parts per billion,
    pub wander_ppb: i64,
    /// once in so many seconds.
    pub period_s: f64,
}

impl Oscillator {
    /// An oscillator with a constant rate.
    #[must_use]
    pub fn steady(start_ns: u64, skew_ppb: i64) -> Self {
        Self {
            start_ns,
            ahead_ns: 0,
            skew_ppb,
            wander_ppb: 0,
            period_s: 1.0,
        }
    }

    /// Any, within these, swinging once in 20 to 200 s.
    pub fn any(start_ns: u64, skew_ppb: u32, wander_ppb: u32, random: &mut impl Rng) -> Self {
        let (skew, wander) = (i64::from(skew_ppb), i64::from(wander_ppb));
        Self {
            start_ns,
            ahead_ns: random.random_range(0..1_000_000_000_000),
            skew_ppb: random.random_range(-skew..=skew),
            wander_ppb: random.random_range(0..=wander),
            period_s: random.random_range(20.0..200.0),
        }
    }

    /// What it shows at this true instant: the integral of 1 + skew + wander·cos(2πt/period), in whole
    /// nanoseconds.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "hours of nanoseconds, and swings far smaller"
    )]
    #[must_use]
    pub fn at(&self, true_ns: u64) -> u64 {
        let age = i128::from(true_ns) - i128::from(self.start_ns);
        let skewed = age * i128::from(self.skew_ppb) / 1_000_000_000;
        let angle = TAU * (age as f64 / 1e9) / self.period_s;
        let swung = self.wander_ppb as f64 * self.period_s / TAU * angle.sin();
        let sum = i128::from(true_ns) + i128::from(self.ahead_ns) + skewed + swung.round() as i128;
        u64::try_from(sum).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_skew() {
        let oscillator = Oscillator::steady(1_000, 11_250);
        assert_eq!(oscillator.at(1_000), 1_000);
        assert_eq!(oscillator.at(10_000_001_000), 10_000_001_000 + 112_500);
    }

    #[test]
    fn it_never_stands() {
        let oscillator = Oscillator {
            ahead_ns: -5,
            skew_ppb: -100_000,
            wander_ppb: 100_000,
            period_s: 20.0,
            ..Oscillator::steady(1_000, 0)
        };
        let values: Vec<u64> = (0..1_000)
            .map(|at| oscillator.at(1_000 + at * 100_000))
            .collect();
        assert!(values.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
