//! Random numbers that are the same on every machine and with every version of a library.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// xoshiro256++ (Blackman and Vigna 2021, doi:10.1145/3460772), and what we draw from it.
#[derive(Clone)]
pub struct Draw(Xoshiro256PlusPlus);

impl Draw {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// One of 256.
    pub fn byte(&mut self) -> u8 {
        self.bits().to_le_bytes()[7]
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// A whole number from `low` to `high` - 1, each equally likely but for 2⁻³² of bias at most.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        let wide = u128::from(self.bits()) * (high - low) as u128;
        low + usize::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number in [0, 1) with 53 random bits.
    #[allow(clippy::cast_precision_loss)] // Exact: 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number from the standard normal distribution (Marsaglia's polar method, 1964).
    ///
    /// The logarithm is `libm`'s, in Rust: the C library has several, and picks one by the CPU.
    pub fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * libm::log(square) / square).sqrt();
            }
        }
    }
}
