//! Distributions of times: kept whole in a histogram, told as quantiles.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// A quantile needs this many samples above it: with fewer it would depend on a single event.
const SAMPLES_ABOVE: f64 = 5.0;
/// 0.9, 0.99 … to six nines.
const NINES: i32 = 6;
/// Digits kept of every time: an error of at most 0.1 %.
const DIGITS: u8 = 3;

/// Times, to three digits, from a nanosecond up.
pub struct Times(Histogram<u64>);

impl Times {
    pub fn new() -> Self {
        Self(Histogram::new(DIGITS).expect("0 to 5 digits can be kept"))
    }

    pub fn record(&mut self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2);
        self.0 += nanoseconds;
    }

    /// Take over the times of another thread.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("a histogram that grows");
    }

    /// The time that this share of them do not exceed, seconds; 0 of none.
    pub fn quantile(&self, share: f64) -> f64 {
        seconds(self.0.value_at_quantile(share))
    }

    /// None: there are no times.
    pub fn distribution(&self) -> Option<Distribution> {
        (!self.0.is_empty()).then(|| Distribution {
            count: self.0.len(),
            mean_s: self.0.mean() / 1e9,
            min_s: seconds(self.0.min()),
            max_s: seconds(self.0.max()),
            quantiles: shares(self.0.len())
                .into_iter()
                .map(|share| (share, self.quantile(share)))
                .collect(),
        })
    }
}

/// A distribution of times, in seconds.
#[derive(Debug, Serialize)]
pub struct Distribution {
    pub count: u64,
    pub mean_s: f64,
    pub min_s: f64,
    pub max_s: f64,
    /// Share of the times that do not exceed it, and the time: 0.5, 0.9, 0.99 … as far as there are
    /// at least five times above it. The median is always told.
    pub quantiles: Vec<(f64, f64)>,
}

/// The quantiles that so many samples can support.
#[allow(clippy::cast_precision_loss)]
fn shares(samples: u64) -> Vec<f64> {
    let nines = (1..=NINES).map(|n| {
        let tail = 10f64.powi(n);
        ((tail - 1.0) / tail, samples as f64 / tail)
    });
    let supported = nines.take_while(|(_, above)| *above >= SAMPLES_ABOVE);
    std::iter::once(0.5)
        .chain(supported.map(|(share, _)| share))
        .collect()
}

#[allow(clippy::cast_precision_loss)]
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_that_the_samples_support() {
        assert_eq!(shares(1), [0.5]);
        assert_eq!(shares(49), [0.5]);
        assert_eq!(shares(50), [0.5, 0.9]);
        assert_eq!(shares(5_000), [0.5, 0.9, 0.99, 0.999]);
    }

    #[test]
    fn quantiles_of_known_times_are_those_times() {
        let (mut times, mut more) = (Times::new(), Times::new());
        for n in 1..=500 {
            times.record(Duration::from_micros(n));
            more.record(Duration::from_micros(500 + n));
        }
        times.add(&more);
        let distribution = times.distribution().unwrap();
        assert_eq!(distribution.count, 1000);
        assert!((distribution.mean_s / 500.5e-6 - 1.0).abs() < 2e-3);
        assert_eq!(distribution.quantiles.len(), 3);
        let expected = [(0.5, 500e-6), (0.9, 900e-6), (0.99, 990e-6)];
        for ((share, time), (want, at)) in distribution.quantiles.iter().zip(expected) {
            assert!((share - want).abs() < 1e-12);
            assert!((time / at - 1.0).abs() < 2e-3, "{share}: {time}");
        }
    }

    #[test]
    fn of_no_times_nothing_is_told() {
        assert!(Times::new().distribution().is_none());
    }
}
