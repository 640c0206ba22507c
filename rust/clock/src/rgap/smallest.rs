//! The published rule to stop: the standard deviation of the N smallest round trips is under K.

/// The largest N.
pub const KEEP_MOST: usize = 64;

/// The N smallest of all numbers seen, in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Smallest {
    numbers: [u64; KEEP_MOST],
    filled: usize,
    keep: usize,
}

impl Smallest {
    /// N is brought within 2 and [`KEEP_MOST`].
    pub(super) fn new(keep: usize) -> Self {
        Self {
            numbers: [u64::MAX; KEEP_MOST],
            filled: 0,
            keep: keep.clamp(2, KEEP_MOST),
        }
    }

    pub(super) fn add(&mut self, number: u64) {
        let kept = &mut self.numbers[..self.keep];
        let place = kept[..self.filled].partition_point(|other| *other <= number);
        if place < kept.len() {
            kept[place..].rotate_right(1);
            kept[place] = number;
            self.filled = (self.filled + 1).min(self.keep);
        }
    }

    /// Whether there are N, and their sample standard deviation is under so much:
    /// n·Σd² − (Σd)² < K²·n·(n − 1), d being the distance from the smallest.
    pub(super) fn within(&self, spread_ns: u64) -> bool {
        let kept = &self.numbers[..self.filled];
        if self.filled < self.keep {
            return false;
        }
        let (mut sum, mut squares) = (0_u128, 0_u128);
        for number in kept {
            let distance = u128::from(number - kept[0]);
            sum += distance;
            squares = squares.saturating_add(distance * distance);
        }
        let n = kept.len() as u128;
        let most = u128::from(spread_ns) * u128::from(spread_ns);
        let (Some(squares), Some(sum)) = (squares.checked_mul(n), sum.checked_mul(sum)) else {
            return false;
        };
        squares.saturating_sub(sum) < most.saturating_mul(n * (n - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_smallest_count() {
        let mut smallest = Smallest::new(3);
        for number in [900, 10, 800, 12, 700] {
            smallest.add(number);
        }
        assert!(!smallest.within(300));
        smallest.add(14);
        smallest.add(u64::MAX);
        // 10, 12, 14: the sample standard deviation is 2.
        assert_eq!(smallest.numbers[..3], [10, 12, 14]);
        assert!(smallest.within(3) && !smallest.within(2));
    }

    #[test]
    fn never_before_all_are_there_and_never_overflowing() {
        let mut smallest = Smallest::new(0);
        smallest.add(0);
        assert!(!smallest.within(u64::MAX));
        smallest.add(u64::MAX);
        assert!(!smallest.within(500));
    }
}
