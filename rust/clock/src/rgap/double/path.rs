//! One way between two machines, and chance.

/// How what a datagram takes longer than the least is spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Evenly, up to the jitter.
    #[default]
    Uniform,
    /// Exponentially, the jitter on average: a queue.
    Exponential,
    /// Pareto's (Lomax's) with the exponent 3/2 and the jitter as its scale: no variance.
    Heavy,
    /// Nothing for seven of ten, the jitter for the others, and up to a twentieth of it for all: two
    /// ways, or a core that sleeps now and then.
    Bimodal,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Path {
    /// No datagram takes less, in nanoseconds.
    pub least_ns: u64,
    /// How much more some take.
    pub jitter_ns: u64,
    pub shape: Shape,
    /// How many of a thousand do not arrive.
    pub lost: u64,
    /// How many of a thousand arrive twice.
    pub twice: u64,
    /// How many of a thousand are followed by one with a wrong byte outside of its answer.
    pub forged: u64,
}

impl Path {
    /// What a datagram takes.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "delays are small, and this is about chance"
    )]
    pub(super) fn delay_ns(&self, dice: &mut Dice) -> u64 {
        let scale = self.jitter_ns as f64;
        let more_ns = match self.shape {
            Shape::Uniform => dice.below(self.jitter_ns.saturating_add(1)),
            Shape::Exponential => (-scale * dice.unit().ln()) as u64,
            Shape::Heavy => (scale * (dice.unit().powf(-2.0 / 3.0) - 1.0)) as u64,
            Shape::Bimodal => {
                let far_ns = if dice.below(10) < 3 {
                    self.jitter_ns
                } else {
                    0
                };
                far_ns + dice.below(self.jitter_ns / 20 + 1)
            }
        };
        self.least_ns.saturating_add(more_ns)
    }
}

/// Numbers that a seed decides.
#[derive(Clone, Copy, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Seeds next to each other give numbers that have nothing in common.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any. Steele, Lea and Flood's `SplitMix64` (OOPSLA 2014).
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below this, which is not 0.
    pub fn below(&mut self, most: u64) -> u64 {
        self.any() % most.max(1)
    }

    /// More than 0, at most 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are none too many")]
    pub fn unit(&mut self) -> f64 {
        ((self.any() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Whether what happens so many times in a thousand does.
    pub(super) fn happens(&mut self, of_a_thousand: u64) -> bool {
        self.below(1_000) < of_a_thousand
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: means of uniform and exponential, the median of the heavy one (2^(2/3) − 1), the
    /// share of the far one.
    #[test]
    fn delays_are_spread_as_stated() {
        let delays = |shape| {
            let (mut dice, path) = (
                Dice::new(1),
                Path {
                    least_ns: 500,
                    jitter_ns: 10_000,
                    shape,
                    ..Path::default()
                },
            );
            let mut all: std::vec::Vec<u64> = (0..100_000)
                .map(|_| path.delay_ns(&mut dice) - 500)
                .collect();
            all.sort_unstable();
            all
        };
        let mean = |all: &[u64]| all.iter().sum::<u64>() / 100_000;
        assert!((4_900..5_100).contains(&mean(&delays(Shape::Uniform))));
        assert!((9_800..10_200).contains(&mean(&delays(Shape::Exponential))));
        let heavy = delays(Shape::Heavy);
        assert!((5_700..6_050).contains(&heavy[50_000]) && heavy[99_999] > 1_000_000);
        let near = delays(Shape::Bimodal)
            .iter()
            .filter(|it| **it <= 500)
            .count();
        assert!((69_000..71_000).contains(&near), "{near}");
    }
}
