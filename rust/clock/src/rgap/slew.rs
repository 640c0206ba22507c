//! From one line to the next without a jump.

use super::{Reading, drift_ns, ppt};

/// How fast a difference is worked off, in parts per billion: as the kernel's clocks are slewed
/// (`adjtime(3)`).
const RATE_PPB: u32 = 500_000;
pub(super) const WORDS: usize = 2;

/// What the old line was ahead of the new one, and when; it shrinks by 500 ppm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slew {
    ahead_ns: i64,
    local_ns: u64,
}

impl Slew {
    /// Nothing to work off.
    pub const NONE: Self = Self {
        ahead_ns: 0,
        local_ns: 0,
    };

    /// From what is shown at this local instant to what is now known.
    pub fn from(shown_ns: u64, known_ns: u64, local_ns: u64) -> Self {
        Self {
            ahead_ns: shown_ns.wrapping_sub(known_ns).cast_signed(),
            local_ns,
        }
    }

    /// What is shown. It is as much further off as is left. Before the slew began nobody was shown
    /// it: there, the new line holds.
    #[inline]
    pub fn of(&self, reading: Reading, local_ns: u64) -> Reading {
        if local_ns < self.local_ns {
            return reading;
        }
        self.now(reading, local_ns)
    }

    /// The same for an instant that was read just now. One that is before the slew was read while
    /// another thread began it: it goes on from the old line like all others.
    #[inline]
    pub fn now(&self, reading: Reading, local_ns: u64) -> Reading {
        if self.ahead_ns == 0 {
            return reading;
        }
        let age_ns = local_ns.saturating_sub(self.local_ns);
        let done_ns = drift_ns(ppt(RATE_PPB), age_ns);
        let left_ns = self.ahead_ns.unsigned_abs().saturating_sub(done_ns);
        let signed_ns = i64::try_from(left_ns).unwrap_or(i64::MAX);
        let ahead_ns = if self.ahead_ns < 0 {
            -signed_ns
        } else {
            signed_ns
        };
        Reading {
            ns: reading.ns.saturating_add_signed(ahead_ns),
            ..reading
        }
        .wider(left_ns)
    }

    pub fn words(&self) -> [u64; WORDS] {
        [self.ahead_ns.cast_unsigned(), self.local_ns]
    }

    #[inline]
    pub fn of_words([ahead, local_ns]: &[u64; WORDS]) -> Self {
        Self {
            ahead_ns: ahead.cast_signed(),
            local_ns: *local_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reading(ns: u64) -> Reading {
        Reading {
            ns,
            bound_ns: 10,
            hard_ns: 20,
        }
    }

    proptest! {
        /// It begins where the old line was, ends on the new one, and never goes back.
        #[test]
        fn no_jump(ahead in -1_000_000..1_000_000_i64, steps in proptest::collection::vec(1..100_000_000_u64, 1..40)) {
            let start = 1_u64 << 40;
            let slew = Slew::from((start + (1 << 30)).wrapping_add_signed(ahead), start + (1 << 30), start);
            prop_assert_eq!(Slew::of_words(&slew.words()), slew);
            let (mut local, mut last) = (start, (start + (1 << 30)).wrapping_add_signed(ahead));
            prop_assert_eq!(slew.of(reading(local + (1 << 30)), local).ns, last);
            for step in steps {
                local += step;
                let truth = local + (1 << 30);
                let shown = slew.of(reading(truth), local);
                prop_assert!(shown.ns > last || step < 2);
                prop_assert_eq!(shown.bound_ns - 10, shown.ns.abs_diff(truth));
                last = shown.ns;
            }
            local += 2_000_000_000;
            prop_assert_eq!(slew.of(reading(local + 5), local), reading(local + 5));
        }

        /// Whoever read the clock just before another thread began the slew sees no jump either.
        #[test]
        fn no_jump_for_who_was_early(ahead in -1_000_000..1_000_000_i64, early in 1..1_000_u64) {
            let (start, truth) = (1_u64 << 40, 1_u64 << 41);
            let slew = Slew::from(truth.wrapping_add_signed(ahead), truth, start);
            let before = slew.now(reading(truth - early), start - early);
            prop_assert_eq!(before.ns, truth.wrapping_add_signed(ahead) - early);
            prop_assert_eq!(before.hard_ns, 20 + ahead.unsigned_abs());
            prop_assert_eq!(slew.of(reading(truth - early), start - early), reading(truth - early));
        }
    }
}
