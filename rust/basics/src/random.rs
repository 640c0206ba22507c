//! sysbench's random numbers: one generator a thread, whose doubles become choices (`sb_rand.h`).

use rand_xoshiro::Xoroshiro128Plus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

pub struct Random(Xoroshiro128Plus);

impl Random {
    /// Each thread has its own.
    pub fn new(seed: u64, thread: u32) -> Self {
        Self(Xoroshiro128Plus::seed_from_u64(
            seed ^ u64::from(thread) << 32,
        ))
    }

    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `count`, by a double from 0 to 1.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        reason = "as sysbench has it, by signed numbers of 64 bits"
    )]
    pub fn below(&mut self, count: u64) -> u64 {
        let part = f64::from_bits(0x3FF << 52 | self.bits() >> 12) - 1.0;
        (part * count as i64 as f64) as i64 as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_the_seeds_and_the_threads() {
        let some = |seed, thread| Random::new(seed, thread).below(1 << 40);
        assert_eq!(some(1, 0), some(1, 0));
        assert_ne!(some(1, 0), some(2, 0));
        assert_ne!(some(1, 0), some(1, 1));
    }

    #[test]
    fn all_are_chosen() {
        let mut random = Random::new(1, 0);
        let mut counts = [0; 7];
        for _ in 0..7000 {
            counts[usize::try_from(random.below(7)).expect("below 7")] += 1;
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)));
    }
}
