//! The other clock's time from one's own, without a message.

use super::exchange::{Contradiction, Fix};
use super::{TRILLION, drift_ns, ppt, rate_ppt};

/// What is assumed of the two clocks' rates relative to each other: nothing here can prove it.
///
/// That is about oscillators. A clock that a daemon slews may go far beyond: take one that nobody
/// disciplines, as this crate's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drift {
    /// ρ: the rates never differ by more, in parts per billion of the client's time.
    pub worst_ppb: u32,
    /// ω: the rate of any moment is within this of its mean over the baseline.
    pub wander_ppb: u32,
    /// Two synchronisations at least this far apart make a rate, in nanoseconds.
    pub baseline_ns: u64,
}

impl Drift {
    /// 100 ppm before a rate is known, 1 ppm around it afterwards, known after a second (clocks.md
    /// §5 (b), (c)).
    pub const USUAL: Self = Self {
        worst_ppb: 100_000,
        wander_ppb: 1_000,
        baseline_ns: 1_000_000_000,
    };
}

impl Default for Drift {
    fn default() -> Self {
        Self::USUAL
    }
}

/// A global instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What the server's clock shows, in nanoseconds.
    pub ns: u64,
    /// It is not further off than this if ρ and ω hold.
    pub bound_ns: u64,
    /// It is not further off than this if ρ holds.
    pub hard_ns: u64,
}

impl Reading {
    /// A local instant moved by an offset; bounds nothing if that is no instant.
    pub(super) fn of(local_ns: u64, offset_ns: i128, bound_ns: u64, hard_ns: u64) -> Self {
        // The shift is rounded down, and the clocks that it is compared with as well.
        let [bound_ns, hard_ns] = [bound_ns.min(hard_ns), hard_ns].map(|it| it.saturating_add(2));
        let sum = i128::from(local_ns).saturating_add(offset_ns);
        u64::try_from(sum).map_or(
            Self {
                ns: if sum < 0 { 0 } else { u64::MAX },
                bound_ns: u64::MAX,
                hard_ns: u64::MAX,
            },
            |ns| Self {
                ns,
                bound_ns,
                hard_ns,
            },
        )
    }
}

/// The global clock: a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Global {
    anchor: Fix,
    /// s, in parts per trillion.
    slope_ppt: i64,
    /// What the rate may be off s.
    sure_ppt: u64,
    /// The same without ω.
    hard_ppt: u64,
    rated: bool,
}

impl Global {
    /// After one synchronisation: no rate is known.
    #[must_use]
    pub fn once(fix: &Fix, drift: &Drift) -> Self {
        Self {
            anchor: *fix,
            slope_ppt: 0,
            sure_ppt: ppt(drift.worst_ppb),
            hard_ppt: ppt(drift.worst_ppb),
            rated: false,
        }
    }

    /// After two. If they are too close to tell a rate better than ρ does, the narrower one is taken.
    ///
    /// # Errors
    /// If ρ does not hold in between.
    pub fn twice(one: &Fix, other: &Fix, drift: &Drift) -> Result<Self, Contradiction> {
        let worst_ppt = ppt(drift.worst_ppb);
        let [first, last] = in_order(one, other);
        if !first.agrees(&last, drift.worst_ppb) {
            return Err(Contradiction);
        }
        let apart_ns = first.apart_ns(&last);
        let halves = first.half_ns.saturating_add(last.half_ns);
        // And one for the slope, which is rounded down.
        let ends_ppt = rate_ppt(halves, apart_ns).saturating_add(1);
        if apart_ns < drift.baseline_ns.max(1) || ends_ppt >= worst_ppt {
            let aged = first.half_ns.saturating_add(drift_ns(worst_ppt, apart_ns));
            let narrower = if aged < last.half_ns { first } else { last };
            return Ok(Self::once(&narrower, drift));
        }
        let moved = i128::from(last.offset_ns) - i128::from(first.offset_ns);
        let slope = (moved * i128::from(TRILLION)).div_euclid(i128::from(apart_ns));
        // Not beyond 2·ρ, as the two agree and are known that well.
        let slope_ppt = i64::try_from(slope).map_err(|_| Contradiction)?;
        let hard_ppt = worst_ppt.saturating_add(slope_ppt.unsigned_abs());
        Ok(Self {
            anchor: last,
            slope_ppt,
            sure_ppt: ends_ppt.saturating_add(ppt(drift.wander_ppb)).min(hard_ppt),
            hard_ppt,
            rated: true,
        })
    }

    /// The same line through another point.
    pub(super) fn through(&self, anchor: &Fix) -> Self {
        Self {
            anchor: *anchor,
            ..*self
        }
    }

    /// What the other clock shows when one's own shows this: before or after the synchronisation.
    #[must_use]
    pub fn at(&self, local_ns: u64) -> Reading {
        let age = i128::from(local_ns) - i128::from(self.anchor.local_ns);
        let moved = (age * i128::from(self.slope_ppt)).div_euclid(i128::from(TRILLION));
        let age_ns = local_ns.abs_diff(self.anchor.local_ns).saturating_add(1);
        let bound = |ppt| self.anchor.half_ns.saturating_add(drift_ns(ppt, age_ns));
        let offset = i128::from(self.anchor.offset_ns) + moved;
        Reading::of(local_ns, offset, bound(self.sure_ppt), bound(self.hard_ppt))
    }

    /// How much faster the other clock runs, and how well that is known, in parts per trillion; none
    /// if only ρ is known.
    #[must_use]
    pub fn rate(&self) -> Option<(i64, u64)> {
        self.rated.then_some((self.slope_ppt, self.sure_ppt))
    }
}

/// The earlier first.
pub(super) fn in_order(one: &Fix, other: &Fix) -> [Fix; 2] {
    if other.local_ns < one.local_ns {
        [*other, *one]
    } else {
        [*one, *other]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fix(local_ns: u64, offset_ns: i64, half_ns: u64) -> Fix {
        Fix {
            local_ns,
            offset_ns,
            half_ns,
            rtt_ns: 2 * half_ns,
        }
    }

    #[test]
    fn once_the_bound_grows_with_the_worst_rate() {
        let global = Global::once(&fix(5_000, -1_000, 300), &Drift::USUAL);
        assert_eq!(global.rate(), None);
        let reading = global.at(10_000_005_000);
        assert_eq!(reading.ns, 10_000_004_000);
        // 100 ppm of 10 s, and the nanosecond that roundings add.
        assert_eq!(reading.bound_ns, 300 + 1_000_000 + 1 + 2);
        assert_eq!(reading.hard_ns, reading.bound_ns);
        assert_eq!(global.at(0).ns, 0);
        assert_eq!(global.at(0).bound_ns, u64::MAX);
    }

    #[test]
    fn twice_the_rate_is_known() {
        // 11.25 ppm over 10 s.
        let (first, last) = (fix(0, 0, 50), fix(10_000_000_000, 112_500, 50));
        let global = Global::twice(&last, &first, &Drift::USUAL).expect("agree");
        let (slope, sure) = global.rate().expect("rate");
        assert_eq!((slope, sure), (11_250_000, 10_000 + 1 + 1_000_000));
        let reading = global.at(20_000_000_000);
        assert_eq!(reading.ns, 20_000_225_000);
        assert_eq!(reading.bound_ns, 50 + 10_101 + 2);
        assert!(reading.hard_ns > 1_000_000);
    }

    #[test]
    fn too_close_for_a_rate() {
        let (first, last) = (fix(0, 0, 50), fix(999_999_999, 40, 100_500));
        let global = Global::twice(&first, &last, &Drift::USUAL).expect("agree");
        assert_eq!(global, Global::once(&first, &Drift::USUAL));
        let last = fix(999_999_999, 40, 50);
        let global = Global::twice(&first, &last, &Drift::USUAL).expect("agree");
        assert_eq!(global, Global::once(&last, &Drift::USUAL));
    }

    #[test]
    fn a_step_contradicts() {
        let (first, last) = (fix(0, 0, 50), fix(1_000_000_000, 150_000, 50));
        assert_eq!(
            Global::twice(&first, &last, &Drift::USUAL),
            Err(Contradiction)
        );
    }
}
