//! What all time-stamps become once the run is over and a second synchronisation is there.

use super::exchange::{Contradiction, Fix};
use super::global::{Global, Reading, in_order};
use super::{Drift, drift_ns, ppt, rate_ppt};

/// The chord between the first synchronisation and the last; beyond them, a [`Global`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correction {
    first: Fix,
    last: Fix,
    beyond: Global,
    worst_ppt: u64,
    wander_ppt: u64,
    drifted_ns: u64,
    residual_ns: Option<u64>,
    /// Something happened to the own clock before the first, or after the last.
    void: [bool; 2],
}

impl Correction {
    /// From the first to the last.
    ///
    /// # Errors
    /// If ρ does not hold in between.
    pub fn new(a: &Fix, b: &Fix, drift: &Drift) -> Result<Self, Contradiction> {
        let [first, last] = in_order(a, b);
        Ok(Self {
            first,
            last,
            beyond: Global::fit(&[first, last], drift)?,
            worst_ppt: ppt(drift.worst_ppb),
            wander_ppt: ppt(drift.wander_ppb),
            drifted_ns: first.offset_ns.abs_diff(last.offset_ns),
            residual_ns: None,
            void: [false; 2],
        })
    }

    /// Says nothing more of instants before the first synchronisation, or after the last: something
    /// happened to the own clock there.
    #[cfg(feature = "std")]
    #[must_use]
    pub(super) fn voided(self, before: bool, after: bool) -> Self {
        Self {
            void: [before, after],
            ..self
        }
    }

    /// Holds a synchronisation in between against the chord: how far it is off becomes the residual,
    /// and ω grows if it was too small for that. Others are ignored.
    ///
    /// # Errors
    /// If ρ does not hold.
    pub fn check(&mut self, fix: &Fix) -> Result<(), Contradiction> {
        let worst_ppb = u32::try_from(self.worst_ppt / 1_000).unwrap_or(u32::MAX);
        if !fix.agrees(&self.first, worst_ppb) || !fix.agrees(&self.last, worst_ppb) {
            return Err(Contradiction);
        }
        let Some(place) = self.place(fix.local_ns) else {
            return Ok(());
        };
        let off = (place.offset - i128::from(fix.offset_ns)).unsigned_abs();
        let off_ns = u64::try_from(off).unwrap_or(u64::MAX);
        self.residual_ns = self.residual_ns.max(Some(off_ns));
        let explained = place.half_ns.saturating_add(fix.half_ns).saturating_add(2);
        let unexplained = off_ns.saturating_sub(explained);
        if unexplained > 0 && place.end_ns > 0 {
            self.wander_ppt = self.wander_ppt.max(rate_ppt(unexplained, place.end_ns));
        }
        Ok(())
    }

    /// What the other clock showed when one's own showed this.
    #[must_use]
    pub fn at(&self, local_ns: u64) -> Reading {
        let Some(place) = self.place(local_ns) else {
            let before = local_ns < self.first.local_ns;
            let end = if before { self.first } else { self.last };
            let beyond = self.beyond.through(&end).at(local_ns);
            let void = self.void[usize::from(!before)];
            return beyond.wider(if void { u64::MAX } else { 0 });
        };
        let wander = drift_ns(self.wander_ppt, place.end_ns.saturating_add(1));
        let bound_ns = place.sure_ns.saturating_add(wander);
        Reading::of(
            local_ns,
            place.offset,
            bound_ns,
            self.hard_ns(local_ns, place.offset),
        )
    }

    /// How far the offset moved from the first to the last: how wrong the clock of the first was in
    /// the end, and what is corrected.
    #[must_use]
    pub fn drifted_ns(&self) -> u64 {
        self.drifted_ns
    }

    /// The largest distance from the chord that any synchronisation in between had; none if none was.
    #[must_use]
    pub fn residual_ns(&self) -> Option<u64> {
        self.residual_ns
    }

    /// ω in parts per billion, rounded up: as stated, or what the residual shows at least.
    #[must_use]
    pub fn wander_ppb(&self) -> u64 {
        self.wander_ppt.div_ceil(1_000)
    }

    /// On the chord; none outside.
    fn place(&self, local_ns: u64) -> Option<Place> {
        let x = local_ns.checked_sub(self.first.local_ns)?;
        let left_ns = self.last.local_ns.checked_sub(local_ns)?;
        let apart = self.first.apart_ns(&self.last).max(1);
        let moved = i128::from(self.last.offset_ns) - i128::from(self.first.offset_ns);
        let part = moved
            .saturating_mul(i128::from(x))
            .div_euclid(i128::from(apart));
        let weighted = |[from, to]: [u64; 2]| {
            let sum = u128::from(from) * u128::from(left_ns);
            let sum = sum.saturating_add(u128::from(to) * u128::from(x));
            let mean = u64::try_from(sum.div_ceil(u128::from(apart))).unwrap_or(u64::MAX);
            // At one and the same instant, nothing is between.
            mean.max(from.min(to))
        };
        let ends = [&self.first, &self.last];
        Some(Place {
            offset: i128::from(self.first.offset_ns) + part,
            half_ns: weighted(ends.map(|fix| fix.half_ns)),
            sure_ns: weighted(ends.map(|fix| fix.sure_ns)),
            end_ns: x.min(left_ns),
        })
    }

    /// What ρ allows from either end, from the farther side.
    fn hard_ns(&self, local_ns: u64, offset: i128) -> u64 {
        let (mut low, mut high) = (i128::MIN, i128::MAX);
        for end in [&self.first, &self.last] {
            let age_ns = end.local_ns.abs_diff(local_ns).saturating_add(1);
            let half = i128::from(end.half_ns) + i128::from(drift_ns(self.worst_ppt, age_ns));
            low = low.max(i128::from(end.offset_ns) - half);
            high = high.min(i128::from(end.offset_ns) + half);
        }
        let most = (high - offset).max(offset - low);
        u64::try_from(most.max(0)).unwrap_or(u64::MAX)
    }
}

/// A point on the chord.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: i128,
    /// What the ends' own bounds make of it.
    half_ns: u64,
    sure_ns: u64,
    /// How far the nearer end is.
    end_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

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

    fn minute() -> Correction {
        let (first, last) = (fix(0, 1_000), fix(60 * SECOND, 676_000));
        Correction::new(&first, &last, &Drift::USUAL).expect("agree")
    }

    #[test]
    fn between_the_two_it_is_a_line() {
        let correction = minute();
        assert_eq!(correction.drifted_ns(), 675_000);
        let reading = correction.at(30 * SECOND);
        assert_eq!(reading.ns, 30 * SECOND + 338_500);
        // 1 ppm of 30 s.
        assert_eq!(reading.bound_ns, 100 + 30_001 + 2);
        assert!(reading.hard_ns > reading.bound_ns);
        for (end, ns) in [(0, 1_000), (60 * SECOND, 60 * SECOND + 676_000)] {
            assert_eq!(
                (correction.at(end).ns, correction.at(end).bound_ns),
                (ns, 103)
            );
        }
        let after = correction.at(61 * SECOND);
        assert_eq!(after.ns, 61 * SECOND + 676_000 + 11_250);
        assert!(after.bound_ns > 1_100);
    }

    /// Too close together for a rate: before and after, each end's own bound holds.
    #[test]
    fn beyond_either_end_nothing_is_better_known_than_there() {
        let poor = Fix {
            sure_ns: 90_000,
            half_ns: 100_000,
            ..fix(2_000, 1_000)
        };
        for ends in [[fix(1_000, 1_000), poor], [poor, fix(3_000, 1_000)]] {
            let correction = Correction::new(&ends[0], &ends[1], &Drift::USUAL).expect("agree");
            let beyond = if ends[1] == poor { 2_001 } else { 1_999 };
            let bound_ns = correction.at(beyond).bound_ns;
            assert!(bound_ns >= poor.sure_ns, "{bound_ns}");
        }
    }

    #[test]
    fn beyond_a_disruption_nothing_is_known() {
        let correction = minute().voided(true, false);
        let bounded = |it: Correction, seconds| it.at(seconds * SECOND).hard_ns < u64::MAX;
        let early = Correction::new(&fix(SECOND, 0), &fix(2 * SECOND, 0), &Drift::USUAL);
        let early = early.expect("agree");
        assert!(bounded(early, 0) && !bounded(early.voided(true, false), 0));
        assert!(bounded(correction, 0) && bounded(correction, 60) && bounded(correction, 61));
        let correction = minute().voided(false, true);
        assert!(bounded(correction, 60) && !bounded(correction, 61));
    }

    #[test]
    fn a_residual_beyond_the_wander_widens_it() {
        let mut correction = minute();
        assert_eq!(correction.residual_ns(), None);
        correction.check(&fix(30 * SECOND, 339_000)).expect("agree");
        assert_eq!(
            (correction.residual_ns(), correction.wander_ppb()),
            (Some(500), 1_000)
        );
        correction.check(&fix(30 * SECOND, 438_500)).expect("agree");
        assert_eq!(correction.residual_ns(), Some(100_000));
        assert_eq!(correction.wander_ppb(), 3_327);
        assert!(correction.at(30 * SECOND).bound_ns >= 99_900);
        assert_eq!(correction.check(&fix(SECOND, 500_000)), Err(Contradiction));
        correction.check(&fix(61 * SECOND, 676_000)).expect("agree");
        assert_eq!(correction.residual_ns(), Some(100_000));
    }

    #[test]
    fn one_and_the_same_is_no_division_by_zero() {
        let correction = Correction::new(&fix(7, 5), &fix(7, 5), &Drift::USUAL).expect("agree");
        assert_eq!((correction.at(7).ns, correction.at(7).bound_ns), (12, 103));
        assert_eq!(correction.at(8).ns, 13);
    }
}
