//! What is said of many numbers: quantiles, an interval for a median, histograms.

use serde::{Deserialize, Serialize};

/// A distribution, in nanoseconds. Quantiles are values that occurred (nearest rank).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many values; at least one.
    pub count: u64,
    /// The least value; negative if time went backwards.
    pub min_ns: f64,
    /// One in a hundred is not more.
    pub p01_ns: f64,
    /// A quarter is not more.
    pub p25_ns: f64,
    pub p50_ns: f64,
    /// Three quarters are not more.
    pub p75_ns: f64,
    /// All but one in a hundred are not more.
    pub p99_ns: f64,
    /// All but one in a thousand are not more.
    pub p999_ns: f64,
    /// The greatest value.
    pub max_ns: f64,
    pub mean_ns: f64,
    /// The standard deviation of the values (n − 1); 0 for a single one.
    pub sd_ns: f64,
}

impl Summary {
    /// The summary of differences in ticks, which are sorted. None: there are none.
    #[expect(clippy::cast_precision_loss, reason = "far less than 2^53")]
    pub fn of(ticks: &mut [i64], ns_per_tick: f64) -> Option<Self> {
        ticks.sort_unstable();
        let count = ticks.len();
        if count == 0 {
            return None;
        }
        let at = |part: f64| ticks[rank(count, part)] as f64 * ns_per_tick;
        let mean = ticks.iter().map(|tick| *tick as f64).sum::<f64>() / count as f64;
        let squares = ticks.iter().map(|tick| (*tick as f64 - mean).powi(2));
        let variance = squares.sum::<f64>() / (count.max(2) - 1) as f64;
        Some(Self {
            count: count as u64,
            min_ns: at(0.0),
            p01_ns: at(0.01),
            p25_ns: at(0.25),
            p50_ns: at(0.5),
            p75_ns: at(0.75),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: at(1.0),
            mean_ns: mean * ns_per_tick,
            sd_ns: variance.sqrt() * ns_per_tick,
        })
    }
}

/// Nearest rank, from 0: the least value that at least this part of all is not more than.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part of a length"
)]
fn rank(count: usize, part: f64) -> usize {
    ((part * count as f64).ceil() as usize).clamp(1, count) - 1
}

/// A median with its interval by order statistics, which assumes nothing of the distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub median: f64,
    /// The median of all that could be drawn is between these with at least 95 %; the least and the
    /// greatest value where there are too few for that.
    pub low: f64,
    /// See `low`.
    pub high: f64,
    /// The confidence that it really has, by the binomial distribution: less than 0.95 for fewer
    /// than six values.
    pub confidence: f64,
}

impl Interval {
    /// The interval of these, which are sorted. None: there are none.
    pub fn of(values: &mut [f64]) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        let count = values.len();
        let last = count.checked_sub(1)?;
        let median = f64::midpoint(values[last / 2], values[count / 2]);
        let (skip, confidence) = trim(count);
        Some(Self {
            median,
            low: values[skip],
            high: values[last - skip],
            confidence,
        })
    }
}

/// How many order statistics may be left out at either end, and the confidence that then remains:
/// 1 − 2 P(X ≤ skip), X of Binomial(count, 1/2).
#[expect(clippy::cast_precision_loss, reason = "far less than 2^53")]
fn trim(count: usize) -> (usize, f64) {
    let n = count as f64;
    // ln of C(n, k) / 2^n, so that no n is too large.
    let mut log = -n * std::f64::consts::LN_2;
    let mut tail = log.exp();
    let (mut skip, mut confidence) = (0, (1.0 - 2.0 * tail).max(0.0));
    for k in 1..count / 2 {
        log += ((n - k as f64 + 1.0) / k as f64).ln();
        tail += log.exp();
        if 1.0 - 2.0 * tail < 0.95 {
            break;
        }
        (skip, confidence) = (k, 1.0 - 2.0 * tail);
    }
    (skip, confidence)
}

/// One bin: from its lower edge up to, and not with, its upper one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    pub from_ns: f64,
    pub to_ns: f64,
    pub count: u64,
}

/// Counts in bins of equal width in the logarithm; two histograms with as many bins per decade have
/// the same edges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Bins from a value to ten times as much.
    pub per_decade: u32,
    /// Values below a nanosecond, also negative ones.
    pub under: u64,
    /// The bins from the first to the last one with a value.
    pub bins: Vec<Bin>,
}

impl Histogram {
    /// The histogram of durations in nanoseconds.
    pub fn of(values: impl Iterator<Item = f64>, per_decade: u32) -> Self {
        let (mut under, mut counts) = (0, Vec::<u64>::new());
        for value in values {
            let Some(bin) = bin(value, per_decade) else {
                under += 1;
                continue;
            };
            if counts.len() <= bin {
                counts.resize(bin + 1, 0);
            }
            counts[bin] += 1;
        }
        let bins = counts.iter().enumerate().map(|(bin, count)| Bin {
            from_ns: edge(bin, per_decade),
            to_ns: edge(bin + 1, per_decade),
            count: *count,
        });
        Self {
            per_decade,
            under,
            bins: bins.skip_while(|bin| bin.count == 0).collect(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred")]
fn edge(bin: usize, per_decade: u32) -> f64 {
    10_f64.powf(bin as f64 / f64::from(per_decade))
}

/// Which bin; by the edges themselves, since the logarithm may round the other way.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a few hundred"
)]
fn bin(value: f64, per_decade: u32) -> Option<usize> {
    if value.is_nan() || value < 1.0 {
        return None;
    }
    let bin = (value.log10() * f64::from(per_decade)) as usize;
    if value < edge(bin, per_decade) {
        return bin.checked_sub(1);
    }
    Some(bin + usize::from(value >= edge(bin + 1, per_decade)))
}

#[cfg(test)]
#[path = "stats_tests.rs"]
mod tests;
