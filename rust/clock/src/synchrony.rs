//! How far the counters of two cores are apart, from messages between them.
//!
//! As with two machines: the other core's reading was taken after ours and before our next one, so
//! every exchange gives an interval that the offset is inside of, and many give their intersection
//! (Cristian 1989; here without any assumption on the two ways being alike).

use crate::{CpuSet, Scale};

/// An interval, in ticks, that (other counter − ours) is inside of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// It is not less.
    pub lowest: i64,
    /// It is not more.
    pub highest: i64,
}

impl Offset {
    pub const UNKNOWN: Self = Self {
        lowest: i64::MIN,
        highest: i64::MAX,
    };

    /// What one exchange adds: we read `sent`, they read `theirs`, we read `received`.
    pub fn learn(&mut self, sent: u64, theirs: u64, received: u64) {
        self.lowest = self.lowest.max(theirs.wrapping_sub(received).cast_signed());
        self.highest = self.highest.min(theirs.wrapping_sub(sent).cast_signed());
    }

    /// How far apart the two are for certain, in ticks. A contradiction (the counters moved against
    /// each other meanwhile) counts as apart by what it is wrong by.
    #[must_use]
    pub fn apart(&self) -> u64 {
        let beyond = self.lowest.max(self.highest.saturating_neg()).max(0);
        let contradiction = self.lowest.saturating_sub(self.highest).max(0);
        beyond.max(contradiction).unsigned_abs()
    }
}

/// The cores of this process, compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synchrony {
    pub cpus: CpuSet,
    /// How far any of them may be from the first at most, in ticks.
    pub worst: u64,
    /// How far apart some two of them are at least, in ticks.
    pub apart: u64,
    /// Exchanges of the core that had the fewest.
    pub rounds: u32,
    /// Cores that could not be compared.
    pub missed: u32,
}

impl Synchrony {
    /// One core, which agrees with itself.
    #[must_use]
    pub fn alone(cpu: u32) -> Self {
        let mut cpus = CpuSet::EMPTY;
        cpus.add(cpu);
        Self {
            cpus,
            worst: 0,
            apart: 0,
            rounds: u32::MAX,
            missed: 0,
        }
    }

    /// Adds what is known of `cpu` against the first core.
    pub fn add(&mut self, cpu: u32, offset: Offset, rounds: u32) {
        if rounds == 0 {
            self.missed += 1;
            return;
        }
        self.cpus.add(cpu);
        self.rounds = self.rounds.min(rounds);
        let own = offset
            .lowest
            .unsigned_abs()
            .max(offset.highest.unsigned_abs());
        self.worst = self.worst.max(own);
        self.apart = self.apart.max(offset.apart());
    }

    /// How far apart any two of them may be at most, in ticks: what both may be from the first.
    #[must_use]
    pub fn bound(&self) -> u64 {
        let others = self.cpus.count().saturating_sub(1).min(2);
        self.worst.saturating_mul(u64::from(others))
    }

    /// The bound in whole nanoseconds, rounded up.
    #[must_use]
    pub fn bound_ns(&self, scale: Scale) -> u64 {
        let bound = self.bound();
        if bound == 0 {
            0
        } else {
            scale.ns(bound).saturating_add(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exchanges_narrow_the_offset() {
        let mut offset = Offset::UNKNOWN;
        assert_eq!(offset.apart(), 0);
        offset.learn(100, 150, 200);
        assert_eq!(
            offset,
            Offset {
                lowest: -50,
                highest: 50
            }
        );
        offset.learn(300, 310, 330);
        assert_eq!(
            offset,
            Offset {
                lowest: -20,
                highest: 10
            }
        );
        assert_eq!(offset.apart(), 0);
    }

    #[test]
    fn a_counter_that_is_ahead_or_behind_is_noticed() {
        let mut ahead = Offset::UNKNOWN;
        ahead.learn(100, 1150, 200);
        assert_eq!(ahead.apart(), 950);
        let mut behind = Offset::UNKNOWN;
        behind.learn(5000, 4000, 5100);
        assert_eq!(behind.apart(), 1000);
    }

    #[test]
    fn a_counter_that_steps_in_between_is_noticed() {
        let mut offset = Offset::UNKNOWN;
        offset.learn(100, 150, 200);
        offset.learn(300, 850, 400);
        assert!(offset.apart() >= 450);
    }

    #[test]
    fn any_two_cores() {
        let mut all = Synchrony::alone(0);
        assert_eq!(all.bound(), 0);
        all.add(
            1,
            Offset {
                lowest: -20,
                highest: 30,
            },
            9,
        );
        assert_eq!((all.bound(), all.apart, all.rounds), (30, 0, 9));
        all.add(
            2,
            Offset {
                lowest: 40,
                highest: 50,
            },
            0,
        );
        assert_eq!((all.bound(), all.missed), (30, 1));
        all.add(
            3,
            Offset {
                lowest: 40,
                highest: 50,
            },
            7,
        );
        assert_eq!((all.bound(), all.apart, all.rounds), (100, 40, 7));
    }
}
