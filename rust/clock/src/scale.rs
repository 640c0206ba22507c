//! From ticks to nanoseconds by one multiplication: nanoseconds per tick as a fixed-point number
//! with [`SHIFT`] fractional bits, like `mult` and `shift` of Linux's timekeeping
//! (`kernel/time/timekeeping.c`), but with 128-bit products, so that no range has to be guarded.

use crate::Rate;

/// Fractional bits of nanoseconds, in [`Scale`] and in every age.
///
/// 54 leave ten bits before the point, so counters down to 1 MHz fit.
pub const SHIFT: u32 = 54;

/// Nanoseconds per tick.
///
/// The multiplier is rounded to nearest, so for a given [`Rate`] the result of [`Scale::ns`] is
/// off by at most `ticks / 2^55` ns, and less than 1 ns is cut off: under 2 ns after 200 days at
/// 2 GHz. Folding adds nothing, since ages keep the fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale(u64);

impl Scale {
    /// A tick is a nanosecond.
    pub const NANOSECONDS: Self = Self(1 << SHIFT);

    /// The scale of a counter of this rate; none for what is slower than 1 MHz or faster than what
    /// 54 bits tell from a standstill.
    #[must_use]
    pub fn of(rate: &Rate) -> Option<Self> {
        let rate = u128::from(rate.millihertz);
        // ns/tick = 10^12 / mHz; 10^12 < 2^40, so the shifted number fits.
        let numerator = 1_000_000_000_000_u128 << SHIFT;
        let mult = numerator.checked_add(rate / 2)?.checked_div(rate)?;
        let mult = u64::try_from(mult).ok().filter(|mult| *mult > 0)?;
        Some(Self(mult))
    }

    /// What a multiplier means; the inverse of [`Scale::mult`]. None for zero: time would stand.
    #[must_use]
    pub const fn from_mult(mult: u64) -> Option<Self> {
        if mult == 0 { None } else { Some(Self(mult)) }
    }

    /// Nanoseconds per tick, times 2^54.
    #[must_use]
    pub const fn mult(self) -> u64 {
        self.0
    }

    /// How long so many ticks are, in 2^-54 ns. Exact: no product of two 64-bit numbers overflows.
    #[inline]
    #[must_use]
    pub const fn span(self, ticks: u64) -> u128 {
        ticks as u128 * self.0 as u128
    }

    /// How long so many ticks are, in whole nanoseconds, rounded down.
    ///
    /// Saturates after 584 years.
    #[must_use]
    pub fn ns(self, ticks: u64) -> u64 {
        u64::try_from(self.span(ticks) >> SHIFT).unwrap_or(u64::MAX)
    }

    /// How many ticks so many nanoseconds are, rounded down; saturates.
    #[must_use]
    pub fn ticks(self, ns: u64) -> u64 {
        u64::try_from((u128::from(ns) << SHIFT) / u128::from(self.0)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RateSource;
    use proptest::prelude::*;

    fn rate(millihertz: u64) -> Rate {
        Rate {
            millihertz,
            ..Rate::NANOSECONDS
        }
    }

    #[test]
    fn nanoseconds_stay_what_they_are() {
        let scale = Scale::of(&Rate::NANOSECONDS).expect("scale");
        for ns in [0, 1, 999, 1 << 53, u64::MAX] {
            assert_eq!(scale.ns(ns), ns);
            assert_eq!(scale.ticks(ns), ns);
        }
    }

    #[test]
    fn rates_without_a_scale_are_refused() {
        assert_eq!(Scale::of(&rate(0)), None);
        assert_eq!(Scale::of(&rate(900_000_000)), None);
        assert!(Scale::of(&rate(1_000_000_000)).is_some());
        assert!(Scale::of(&rate(u64::MAX)).is_some());
        assert_eq!(Scale::from_mult(0), None);
    }

    #[test]
    fn a_day_at_a_real_rate() {
        let hertz = 2_596_140_000;
        let rate = Rate::stated(hertz, RateSource::Hypervisor).expect("rate");
        let scale = Scale::of(&rate).expect("scale");
        assert!(scale.ns(hertz * 86_400).abs_diff(86_400_000_000_000) <= 1);
    }

    proptest! {
        /// The stated bound, against exact integers.
        #[test]
        fn no_further_off_than_stated(
            millihertz in 1_000_000_000_u64..10_000_000_000_000,
            ticks in 0_u64..1 << 62,
        ) {
            let scale = Scale::of(&rate(millihertz)).expect("scale");
            let exact = u128::from(ticks) * 1_000_000_000_000 / u128::from(millihertz);
            if let Ok(exact) = u64::try_from(exact) {
                let bound = 1 + (ticks >> 55) + 1;
                prop_assert!(scale.ns(ticks).abs_diff(exact) <= bound);
            }
        }

        /// And against a double, to its own 53 bits.
        #[test]
        #[expect(clippy::cast_precision_loss, reason = "that is what is compared")]
        fn a_double_agrees(
            millihertz in 1_000_000_000_u64..10_000_000_000_000,
            ticks in 0_u64..1 << 52,
        ) {
            let scale = Scale::of(&rate(millihertz)).expect("scale");
            let double = ticks as f64 * (1e12 / millihertz as f64);
            prop_assume!(double < 1e18);
            prop_assert!((scale.ns(ticks) as f64 - double).abs() <= 1.5 + double * 4e-16);
        }

        /// Cut anywhere, the parts make the whole, to the last bit.
        #[test]
        fn folding_loses_nothing(
            millihertz in 1_000_000_000_u64..10_000_000_000_000,
            parts in proptest::collection::vec(0_u64..1 << 50, 1..50),
        ) {
            let scale = Scale::of(&rate(millihertz)).expect("scale");
            let sum: u128 = parts.iter().map(|part| scale.span(*part)).sum();
            prop_assert_eq!(sum, scale.span(parts.iter().sum()));
        }

        #[test]
        fn there_and_back(
            millihertz in 1_000_000_000_u64..10_000_000_000_000,
            ns in 0_u64..1 << 60,
        ) {
            let scale = Scale::of(&rate(millihertz)).expect("scale");
            let tick = scale.ns(1) + 1;
            let back = scale.ns(scale.ticks(ns));
            prop_assert!(back <= ns && ns - back <= tick);
        }
    }
}
