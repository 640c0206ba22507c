//! The N exchanges with the smallest round trips: the published rule to stop is that the standard
//! deviation of these is under K; that of the offsets of the smaller half is what chance does to one.

/// The largest N.
pub const KEEP_MOST: usize = 64;
/// A standard deviation of fewer is not worth a bound: with two ways there and two ways back, this
/// many exchanges could all be of one kind once in a thousand times.
const FEWEST: usize = 8;

/// The N smallest round trips of all seen, in order, each with its offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Smallest {
    numbers: [(u64, i64); KEEP_MOST],
    filled: usize,
    keep: usize,
}

impl Smallest {
    /// N is brought within 2 and [`KEEP_MOST`].
    pub(super) fn new(keep: usize) -> Self {
        Self {
            numbers: [(u64::MAX, 0); KEEP_MOST],
            filled: 0,
            keep: keep.clamp(2, KEEP_MOST),
        }
    }

    pub(super) fn add(&mut self, rtt_ns: u64, offset_ns: i64) {
        let kept = &mut self.numbers[..self.keep];
        let place = kept[..self.filled].partition_point(|other| other.0 <= rtt_ns);
        if place < kept.len() {
            kept[place..].rotate_right(1);
            kept[place] = (rtt_ns, offset_ns);
            self.filled = (self.filled + 1).min(self.keep);
        }
    }

    fn kept(&self) -> &[(u64, i64)] {
        &self.numbers[..self.filled]
    }

    /// Whether there are N, and their sample standard deviation is under so much.
    pub(super) fn within(&self, spread_ns: u64) -> bool {
        let first = self.numbers[0].0;
        let variance = variance(self.kept().iter().map(|it| it.0 - first));
        let most = u128::from(spread_ns) * u128::from(spread_ns);
        self.filled == self.keep && variance.is_some_and(|(over, n)| over < most.saturating_mul(n))
    }

    /// The sample standard deviation of the smaller half's offsets, rounded up; none if there are too
    /// few. The larger half says more of the delays' tail than of the best exchange.
    pub(super) fn sd_ns(&self) -> Option<u64> {
        let half = self.kept().get(..self.filled.div_ceil(2).max(FEWEST))?;
        let least = half.iter().map(|it| it.1).min()?;
        let (over, n) = variance(half.iter().map(|it| it.1.abs_diff(least)))?;
        u64::try_from(over.div_ceil(n).isqrt() + 1).ok()
    }
}

/// The sample variance as a fraction: n·Σd² − (Σd)² over n·(n − 1); none if it cannot be had.
fn variance(distances: impl Iterator<Item = u64>) -> Option<(u128, u128)> {
    let (mut n, mut sum, mut squares) = (0_u128, 0_u128, 0_u128);
    for distance in distances {
        let distance = u128::from(distance);
        n += 1;
        sum += distance;
        squares = squares.checked_add(distance * distance)?;
    }
    let over = squares.checked_mul(n)?.checked_sub(sum.checked_mul(sum)?)?;
    (n >= 2).then(|| (over, n * (n - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_smallest_count() {
        let mut smallest = Smallest::new(3);
        for number in [900, 10, 800, 12, 700] {
            smallest.add(number, 0);
        }
        assert!(!smallest.within(300));
        smallest.add(14, 0);
        smallest.add(u64::MAX, 0);
        // 10, 12, 14: the sample standard deviation is 2.
        assert_eq!(smallest.numbers[..3], [(10, 0), (12, 0), (14, 0)]);
        assert!(smallest.within(3) && !smallest.within(2));
    }

    #[test]
    fn never_before_all_are_there_and_never_overflowing() {
        let mut smallest = Smallest::new(0);
        smallest.add(0, 0);
        assert!(!smallest.within(u64::MAX));
        smallest.add(u64::MAX, 0);
        assert!(!smallest.within(500));
    }

    #[test]
    fn the_offsets_spread_is_a_sample_standard_deviation() {
        let mut smallest = Smallest::new(20);
        for number in 0..7 {
            smallest.add(100, if number % 2 == 0 { -30 } else { 30 });
            assert_eq!(smallest.sd_ns(), None);
        }
        smallest.add(90, 30);
        // sqrt(8·30²/7) = 32.1, rounded up once or twice.
        assert!(
            matches!(smallest.sd_ns(), Some(33 | 34)),
            "{:?}",
            smallest.sd_ns()
        );
        // The larger half does not count.
        for _ in 0..8 {
            smallest.add(200, 1_000_000);
        }
        assert!(matches!(smallest.sd_ns(), Some(33 | 34)));
        smallest.add(1, i64::MIN);
        smallest.add(1, i64::MAX);
        assert!(smallest.sd_ns().is_none_or(|sd| sd > 1 << 60));
    }
}
