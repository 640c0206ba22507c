//! The rate of a counter against its bridge clock: least squares over pairs of readings.

use std::thread;
use std::time::Duration;
use std::vec::Vec;

use crate::sys::GRAIN_NS;
use crate::{Counter, Pair, Rate, RateSource};

/// Fewer points make no line worth a standard deviation.
const FEWEST: usize = 8;

/// Takes `count` pairs, evenly over `baseline`, asleep in between; at once where it is zero.
pub fn measure<C: Counter>(counter: &C, baseline: Duration, count: u32) -> Vec<Pair> {
    let pause = baseline / count.saturating_sub(1).max(1);
    let mut pairs = Vec::new();
    for number in 0..count {
        if number > 0 && !pause.is_zero() {
            thread::sleep(pause);
        }
        pairs.push(counter.pair());
    }
    pairs
}

/// The rate of the line through the pairs; none if there are too few good ones, or no time passed.
///
/// Only the narrower half counts: what a pair that was interrupted says is not worth it.
/// `sigma_ppb` is the slope's standard error, sqrt(SSR/(n−2)/Sxx). `bound_ppb` needs no statistics:
/// the two ends of the line each lie within their brackets.
///
/// `one_core`: use only pairs of the core that most were taken on, for counters that are apart.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "53 bits hold 40 days of ticks")]
pub fn fit(pairs: &[Pair], one_core: bool) -> Option<Rate> {
    let pairs = good(pairs, one_core);
    let first = *pairs.first().filter(|_| pairs.len() >= FEWEST)?;
    let points: Vec<(f64, f64)> = pairs
        .iter()
        .map(|pair| {
            let ticks = pair.ticks.wrapping_sub(first.ticks).cast_signed();
            (pair.ns.saturating_sub(first.ns) as f64, ticks as f64)
        })
        .collect();
    let n = points.len() as f64;
    let sum = points
        .iter()
        .fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
    let mean = (sum.0 / n, sum.1 / n);
    let (mut sxx, mut sxy) = (0.0, 0.0);
    for (x, y) in &points {
        sxx += (x - mean.0) * (x - mean.0);
        sxy += (x - mean.0) * (y - mean.1);
    }
    let slope = sxy / sxx;
    let residuals = points
        .iter()
        .map(|(x, y)| y - mean.1 - slope * (x - mean.0));
    let ssr: f64 = residuals.map(|residual| residual * residual).sum();
    let sigma = (ssr / (n - 2.0) / sxx).sqrt();
    let (ends, half) = ends(&pairs)?;
    let bound = (slope - ends).abs() + half;
    let millihertz = positive(slope * 1e12)?;
    Some(Rate {
        millihertz,
        sigma_ppb: ppb(sigma / slope),
        bound_ppb: ppb(bound / slope),
        source: RateSource::Fitted,
    })
}

/// The narrower half, in the order they were taken.
fn good(pairs: &[Pair], one_core: bool) -> Vec<Pair> {
    let on = |cpu| pairs.iter().filter(|pair| pair.cpu == cpu).count();
    let cpu = pairs.iter().map(|pair| pair.cpu).max_by_key(|cpu| on(*cpu));
    let whole = pairs.iter().filter(|pair| pair.width != u64::MAX);
    let mut kept: Vec<Pair> = whole
        .filter(|pair| !one_core || Some(pair.cpu) == cpu)
        .copied()
        .collect();
    let mut widths: Vec<u64> = kept.iter().map(|pair| pair.width).collect();
    widths.sort_unstable();
    let median = widths.get(widths.len() / 2).copied().unwrap_or(0);
    kept.retain(|pair| pair.width <= median);
    kept
}

/// The slope between the best pair of the first third and the best of the last, and how wrong that
/// is at most: half of both brackets, and what the bridge rounds by at either end.
#[expect(clippy::cast_precision_loss, reason = "as above")]
fn ends(pairs: &[Pair]) -> Option<(f64, f64)> {
    let third = pairs.len() / 3;
    let narrowest = |part: &[Pair]| part.iter().min_by_key(|pair| pair.width).copied();
    let from = narrowest(pairs.get(..third)?)?;
    let to = narrowest(pairs.get(pairs.len() - third..)?)?;
    let ns = to.ns.checked_sub(from.ns).filter(|ns| *ns > 0)? as f64;
    let slope = to.ticks.wrapping_sub(from.ticks).cast_signed() as f64 / ns;
    // One tick, since the middle of a bracket is rounded.
    let ticks = (from.width + to.width) as f64 / 2.0 + 1.0 + slope * GRAIN_NS as f64;
    Some((slope, ticks / ns))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked"
)]
fn positive(number: f64) -> Option<u64> {
    (1.0..1.8e19)
        .contains(&number)
        .then(|| number.round() as u64)
}

/// Rounded up; a conversion saturates.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates"
)]
fn ppb(fraction: f64) -> u32 {
    (fraction.abs() * 1e9).ceil() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(millihertz: u128, noise: impl Fn(u64) -> u64) -> Vec<Pair> {
        let pair = |number: u64| {
            let ns = 5_000_000_000 + number * 1_000_000;
            let exact = u128::from(ns) * millihertz / 1_000_000_000_000;
            let ticks = u64::try_from(exact).expect("ticks") + noise(number);
            Pair {
                ticks,
                after: ticks + 50,
                cpu: 0,
                ns,
                width: 100,
            }
        };
        (0..40).map(pair).collect()
    }

    #[test]
    fn a_line_is_found() {
        let rate = fit(&line(2_596_123_456_789, |_| 0), false).expect("rate");
        assert!(
            rate.millihertz.abs_diff(2_596_123_456_789) < 50_000,
            "{rate}"
        );
        // 100 ticks and a few of rounding over at least 26 ms, and what the system's clock rounds.
        let bound_ppb = 1_700 + 40 * GRAIN_NS;
        assert!(
            rate.sigma_ppb < 20 && u64::from(rate.bound_ppb) < bound_ppb,
            "{rate}"
        );
    }

    #[test]
    fn the_truth_is_within_the_bound() {
        let rate = fit(&line(1_000_000_000_000, |n| n * 7919 % 51), false).expect("rate");
        let off = rate.apart_ppb(&Rate::NANOSECONDS);
        assert!(
            off <= u64::from(rate.bound_ppb) && off <= 4 * u64::from(rate.sigma_ppb),
            "{rate}"
        );
    }

    #[test]
    fn interrupted_pairs_are_left_out() {
        let mut pairs = line(1_000_000_000_000, |_| 0);
        for pair in pairs.iter_mut().step_by(3) {
            pair.ticks += 1_000_000;
            pair.width = 2_000_000;
        }
        let rate = fit(&pairs, false).expect("rate");
        assert_eq!(rate.millihertz, 1_000_000_000_000);
    }

    #[test]
    fn another_core_is_left_out() {
        let mut pairs = line(1_000_000_000_000, |_| 0);
        for pair in pairs.iter_mut().skip(30) {
            pair.ticks += 1 << 40;
            pair.cpu = 1;
        }
        assert_eq!(
            fit(&pairs, true).expect("rate").millihertz,
            1_000_000_000_000
        );
        assert!(fit(&pairs, false).expect("rate").sigma_ppb > 1_000_000);
    }

    #[test]
    fn no_line_without_points_or_time() {
        let pairs = line(1_000_000_000_000, |_| 0);
        assert_eq!(fit(&pairs[..7], false), None);
        let standing = std::vec![pairs[0]; 40];
        assert_eq!(fit(&standing, false), None);
        assert_eq!(fit(&[], true), None);
    }
}
