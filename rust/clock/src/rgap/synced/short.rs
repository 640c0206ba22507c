//! The global clock without its bounds: what a program that only wants the time has to compute.

use super::super::slew::Slew;
use super::super::{Global, TRILLION};

pub const WORDS: usize = 4;
/// A nanosecond is slewed away in so many: 500 ppm.
const SLEWED: u64 = 2_000;

/// The line through a point, with a slope in 2^-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    local_ns: u64,
    global_ns: u64,
    slope: i64,
    /// From this local instant on nothing is slewed away, and the line is what is shown.
    shown_ns: u64,
}

impl Short {
    /// Known and shown nowhere.
    pub const NONE: Self = Self {
        local_ns: u64::MAX,
        global_ns: 0,
        slope: 0,
        shown_ns: u64::MAX,
    };

    /// From this local instant on; nowhere for a slope that no two clocks have.
    pub fn through(local_ns: u64, global: &Global, slew: &Slew) -> Self {
        let [ahead, since_ns] = slew.words();
        let slewed_ns = ahead.cast_signed().unsigned_abs().saturating_mul(SLEWED);
        let slope_ppt = global.rate().map_or(0, |(slope_ppt, _)| slope_ppt);
        let slope = (i128::from(slope_ppt) << 64) / i128::from(TRILLION);
        i64::try_from(slope).map_or(Self::NONE, |slope| Self {
            local_ns,
            global_ns: global.at(local_ns).ns,
            slope,
            shown_ns: local_ns.max(since_ns.saturating_add(slewed_ns)),
        })
    }

    pub fn words(&self) -> [u64; WORDS] {
        let slope = self.slope.cast_unsigned();
        [self.local_ns, self.global_ns, slope, self.shown_ns]
    }

    /// The inverse of [`Short::words`].
    #[inline]
    pub fn of_words(&[local_ns, global_ns, slope, shown_ns]: &[u64; WORDS]) -> Self {
        Self {
            local_ns,
            global_ns,
            slope: slope.cast_signed(),
            shown_ns,
        }
    }

    /// What is shown; none while something is slewed away, and before the line begins.
    #[inline]
    pub fn shown(&self, local_ns: u64) -> Option<u64> {
        (local_ns >= self.shown_ns).then(|| self.at(local_ns))
    }

    /// What is known; none before the line begins.
    #[inline]
    pub fn estimate(&self, local_ns: u64) -> Option<u64> {
        (local_ns >= self.local_ns).then(|| self.at(local_ns))
    }

    #[inline]
    fn at(&self, local_ns: u64) -> u64 {
        let age_ns = local_ns.wrapping_sub(self.local_ns);
        let moved = (i128::from(age_ns) * i128::from(self.slope)) >> 64;
        let global_ns = self.global_ns.wrapping_add(age_ns);
        global_ns.wrapping_add_signed(moved as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Drift, Fix};
    use super::*;
    use proptest::prelude::*;

    fn fix(local_ns: u64, offset_ns: i64) -> Fix {
        Fix {
            local_ns,
            offset_ns,
            half_ns: 100,
            sure_ns: 100,
            noise_ns: 100,
            rtt_ns: 200,
        }
    }

    fn line(offset_ns: i64, drifted_ns: i64) -> Global {
        let fixes = [
            fix(0, offset_ns),
            fix(10_000_000_000, offset_ns + drifted_ns),
        ];
        Global::fit(&fixes, &Drift::USUAL).expect("agree")
    }

    proptest! {
        /// For weeks, at any rate that two clocks may have.
        #[test]
        fn it_is_the_long_line(
            offset in -1_000_000_000_000_i64..1_000_000_000_000,
            drifted in -999_000_i64..999_000,
            from in 2_000_000_000_000_u64..1 << 52,
            age in 0..1_u64 << 52,
        ) {
            let global = line(offset, drifted);
            let short = Short::through(from, &global, &Slew::NONE);
            let long = global.at(from + age).ns;
            let estimate = short.estimate(from + age).expect("known");
            // The long line's slope is rounded to parts per trillion as well.
            prop_assert!(estimate.abs_diff(long) <= 1, "{estimate} {long}");
            prop_assert_eq!(short.shown(from + age), Some(estimate));
            prop_assert_eq!(Short::of_words(&short.words()), short);
        }

        /// Nobody is shown the line before the slew is over.
        #[test]
        fn what_is_slewed_is_not_cut_short(ahead in -1_000_000_i64..1_000_000, age in 0..4_000_000_000_u64) {
            let from = 1 << 50;
            let global = line(7, 500_000);
            let global_ns = global.at(from).ns;
            let slew = Slew::from(global_ns.wrapping_add_signed(ahead), global_ns, from);
            let short = Short::through(from, &global, &slew);
            let long = slew.of(global.at(from + age), from + age).ns;
            if let Some(shown) = short.shown(from + age) {
                prop_assert!(shown.abs_diff(long) <= 1, "{shown} {long}");
            } else {
                prop_assert!(age < ahead.unsigned_abs() * 2_000);
            }
            prop_assert!(short.estimate(from + age).is_some());
        }
    }

    #[test]
    fn none_is_none() {
        let short = Short::NONE;
        assert_eq!(
            (short.shown(u64::MAX - 1), short.estimate(u64::MAX - 1)),
            (None, None)
        );
        assert_eq!(
            Short::through(5, &line(0, 0), &Slew::NONE).estimate(4),
            None
        );
    }
}
