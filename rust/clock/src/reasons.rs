//! Why a clock promises less than it could, or a time-stamp is worth less than promised.

use core::fmt;
use core::ops::BitOr;

/// A set of reasons; empty when all is well. Sticky: what was seen once is said of every later
/// time-stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reasons(u32);

/// Every reason, its name, and what it means.
const NAMES: [(Reasons, &str, &str); 14] = [
    (
        Reasons::NO_COUNTER,
        "no-counter",
        "this process has no counter that it may read",
    ),
    (
        Reasons::NOT_INVARIANT,
        "not-invariant",
        "the counter's rate changes with the core's power state",
    ),
    (
        Reasons::UNSYNCHRONISED,
        "unsynchronised",
        "the counters of the cores were measured to be apart",
    ),
    (
        Reasons::UNMEASURED,
        "unmeasured",
        "the counters of some core were not compared with the others",
    ),
    (
        Reasons::RATE_UNKNOWN,
        "rate-unknown",
        "the counter's rate could not be measured",
    ),
    (
        Reasons::RATE_DISPUTED,
        "rate-disputed",
        "the processor states another rate than the one measured",
    ),
    (
        Reasons::DISTRUSTED,
        "distrusted",
        "the kernel has marked the counter as unstable",
    ),
    (
        Reasons::UNPAIRED,
        "unpaired",
        "counter and core cannot be read in one go, and here they would have to be",
    ),
    (
        Reasons::STEPPED,
        "stepped",
        "the counter jumped; the bridge clock was believed instead",
    ),
    (Reasons::SUSPENDED, "suspended", "the machine was suspended"),
    (
        Reasons::MOVED,
        "moved",
        "the hypervisor says that the machine was moved or restored",
    ),
    (
        Reasons::MOVES_UNSEEN,
        "moves-unseen",
        "a virtual machine without vmclock: a live migration would not be noticed",
    ),
    (
        Reasons::DISTORTED,
        "distorted",
        "the clock was made to run falsely on purpose, for an experiment",
    ),
    (
        Reasons::ADRIFT,
        "adrift",
        "since the last synchronisation something happened to this clock: it may be off by anything",
    ),
];

impl Reasons {
    /// All is well.
    pub const NONE: Self = Self(0);
    /// This process has no counter that it may read.
    pub const NO_COUNTER: Self = Self(1);
    /// The counter's rate changes with the core's power state.
    pub const NOT_INVARIANT: Self = Self(1 << 1);
    /// The counters of the cores were measured to be apart: values of different threads cannot be
    /// compared.
    pub const UNSYNCHRONISED: Self = Self(1 << 2);
    /// The thread ran on a core that was not compared with the others, or none could be compared.
    pub const UNMEASURED: Self = Self(1 << 3);
    /// The counter's rate could not be measured.
    pub const RATE_UNKNOWN: Self = Self(1 << 4);
    /// The processor states another rate than the one measured. The measured one is used.
    pub const RATE_DISPUTED: Self = Self(1 << 5);
    /// The kernel has marked the counter as unstable.
    pub const DISTRUSTED: Self = Self(1 << 6);
    /// Counter and core cannot be read in one go, and with counters apart they would have to be.
    pub const UNPAIRED: Self = Self(1 << 7);
    /// The counter jumped; the bridge clock was believed instead.
    pub const STEPPED: Self = Self(1 << 8);
    /// The machine was suspended.
    pub const SUSPENDED: Self = Self(1 << 9);
    /// The hypervisor says that the machine was moved or restored.
    pub const MOVED: Self = Self(1 << 10);
    /// A virtual machine without vmclock: a live migration would not be noticed. Known from the
    /// start, and no reason to distrust a value by itself.
    pub const MOVES_UNSEEN: Self = Self(1 << 11);
    /// The clock was made to run falsely on purpose, for an experiment.
    pub const DISTORTED: Self = Self(1 << 12);
    /// Since the last synchronisation something happened to this clock, or to the one it follows: it
    /// may be off by anything.
    pub const ADRIFT: Self = Self(1 << 13);

    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether any of these is among them.
    #[must_use]
    pub const fn any(self, of: Self) -> bool {
        self.0 & of.0 != 0
    }

    /// These, but not those.
    #[must_use]
    pub const fn without(self, those: Self) -> Self {
        Self(self.0 & !those.0)
    }

    /// These if `condition`, else none.
    #[must_use]
    pub const fn when(self, condition: bool) -> Self {
        if condition { self } else { Self::NONE }
    }

    /// One bit each, for a journal or a C caller; a published bit never changes its meaning.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The inverse of [`Reasons::bits`]; unknown bits are dropped.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & ((1 << NAMES.len()) - 1))
    }

    /// A short name and a sentence for each.
    pub fn iter(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let ours = NAMES.iter().filter(move |(reason, ..)| self.any(*reason));
        ours.map(|(_, name, meaning)| (*name, *meaning))
    }
}

impl BitOr for Reasons {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Reasons {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (name, _)) in self.iter().enumerate() {
            write!(out, "{}{name}", if number == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn every_bit_has_one_name() {
        let all = Reasons::from_bits(u32::MAX);
        assert_eq!(all.iter().count(), NAMES.len());
        for (number, (reason, ..)) in NAMES.iter().enumerate() {
            assert_eq!(reason.bits(), 1 << number);
        }
    }

    #[test]
    fn reasons_add_up() {
        let two = Reasons::SUSPENDED | Reasons::MOVED;
        assert!(two.any(Reasons::MOVED) && !two.any(Reasons::STEPPED));
        assert_eq!(two.without(Reasons::MOVED), Reasons::SUSPENDED);
        assert_eq!(two.to_string(), "suspended, moved");
        assert!(Reasons::MOVED.when(false).is_empty());
    }
}
