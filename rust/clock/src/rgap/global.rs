//! The other clock's time from one's own, without a message.

use super::exchange::{Contradiction, Fix};
use super::line::Line;
use super::{Drift, TRILLION, drift_ns, ppt, rate_ppt};

#[cfg(feature = "std")]
mod words;

#[cfg(feature = "std")]
pub(super) use words::WORDS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What the server's clock shows, in nanoseconds.
    pub ns: u64,
    /// It is not further off than this in 99.9 % of all cases, if ω holds and the paths are alike.
    pub bound_ns: u64,
    /// It is never further off than this, if ρ holds.
    pub hard_ns: u64,
}

impl Reading {
    /// The same with both bounds so much wider.
    #[inline]
    pub(super) fn wider(self, by_ns: u64) -> Self {
        Self {
            bound_ns: self.bound_ns.saturating_add(by_ns),
            hard_ns: self.hard_ns.saturating_add(by_ns),
            ..self
        }
    }

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
    /// The synchronisation that the hard bound is from: the one that ρ leaves the narrowest.
    anchor: Fix,
    /// A point of the line, local instant and offset: the synchronisation that ω leaves the narrowest.
    centre: (u64, i64),
    /// s, in parts per trillion.
    slope_ppt: i64,
    /// What chance does to the point, and to s.
    noise_ns: u64,
    noise_ppt: u64,
    /// What all synchronisations have in common.
    bias_ns: u64,
    /// What the rate may be off s besides.
    wander_ppt: u64,
    worst_ppt: u64,
    rated: bool,
}

impl Global {
    /// After one synchronisation: no rate is known.
    #[must_use]
    pub fn once(fix: &Fix, drift: &Drift) -> Self {
        Self {
            anchor: *fix,
            centre: (fix.local_ns, fix.offset_ns),
            slope_ppt: 0,
            noise_ns: fix.noise_ns,
            noise_ppt: 0,
            bias_ns: fix.sure_ns.saturating_sub(fix.noise_ns),
            wander_ppt: ppt(drift.worst_ppb),
            worst_ppt: ppt(drift.worst_ppb),
            rated: false,
        }
    }

    /// After several, in the order of time. The rate is that of all of them, as soon as they tell it
    /// better than ρ does; the line goes through the one that is now the narrowest, as a rate that
    /// wanders takes the clock further off the line of all of them than chance takes each of them.
    ///
    /// # Errors
    /// If there are none, they are not in order, or ρ does not hold in between.
    pub fn fit(fixes: &[Fix], drift: &Drift) -> Result<Self, Contradiction> {
        let (Some(first), Some(last)) = (fixes.first(), fixes.last()) else {
            return Err(Contradiction);
        };
        let follows = |pair: &[Fix]| {
            pair[0].local_ns <= pair[1].local_ns && pair[0].agrees(&pair[1], drift.worst_ppb)
        };
        if !fixes.windows(2).all(follows) || !first.agrees(last, drift.worst_ppb) {
            return Err(Contradiction);
        }
        let anchor = narrowest(fixes, last, |it| it.half_ns, ppt(drift.worst_ppb));
        let once = Self::once(anchor, drift);
        let long = |it: &Line| it.baseline_ns >= drift.baseline_ns.max(1);
        let line = Line::through(fixes).filter(long);
        let rated = line.map(|line| {
            let [least_ns, bias_ns] = bias_ns(fixes);
            let tilt_ppt = rate_ppt(bias_ns - least_ns, line.baseline_ns);
            let wander_ppt = ppt(drift.wander_ppb).saturating_add(tilt_ppt);
            let unsure_ppt = wander_ppt.saturating_add(line.noise_ppt);
            let centre = narrowest(fixes, last, |it| it.noise_ns, unsure_ppt);
            Self {
                centre: (centre.local_ns, centre.offset_ns),
                slope_ppt: line.slope_ppt,
                noise_ns: centre.noise_ns,
                noise_ppt: line.noise_ppt,
                bias_ns,
                wander_ppt,
                rated: true,
                ..once
            }
        });
        let better = |it: &Self| it.unsure_ppt() < it.worst_ppt;
        Ok(rated.filter(better).unwrap_or(once))
    }

    /// What the rate may be off s.
    fn unsure_ppt(&self) -> u64 {
        self.noise_ppt.saturating_add(self.wander_ppt)
    }

    /// The same rate from another synchronisation.
    pub(super) fn through(&self, anchor: &Fix) -> Self {
        Self {
            anchor: *anchor,
            centre: (anchor.local_ns, anchor.offset_ns),
            noise_ns: anchor.noise_ns,
            // Without a rate, it is that of the other synchronisation only.
            bias_ns: self
                .bias_ns
                .max(anchor.sure_ns.saturating_sub(anchor.noise_ns)),
            ..*self
        }
    }

    /// The same with a hard bound that is so much wider.
    #[cfg(feature = "std")]
    pub(super) fn wider(mut self, by_ns: u64) -> Self {
        self.anchor.half_ns = self.anchor.half_ns.saturating_add(by_ns);
        self
    }

    /// What the other clock shows when one's own shows this: before or after the synchronisation.
    #[must_use]
    #[inline]
    pub fn at(&self, local_ns: u64) -> Reading {
        let offset = self.offset(local_ns);
        let from_centre_ns = local_ns.abs_diff(self.centre.0).saturating_add(1);
        // Chance in the point and in the slope is not added in squares: the slope is partly of that
        // point.
        let bound_ns = self
            .noise_ns
            .saturating_add(self.bias_ns)
            .saturating_add(drift_ns(self.unsure_ppt(), from_centre_ns));
        let age_ns = local_ns.abs_diff(self.anchor.local_ns).saturating_add(1);
        let moved = (offset - i128::from(self.anchor.offset_ns)).unsigned_abs();
        let hard_ns = u64::try_from(moved)
            .unwrap_or(u64::MAX)
            .saturating_add(self.anchor.half_ns)
            .saturating_add(drift_ns(self.worst_ppt, age_ns));
        Reading::of(local_ns, offset, bound_ns, hard_ns)
    }

    /// The other clock less one's own.
    #[inline]
    fn offset(&self, local_ns: u64) -> i128 {
        let age = i128::from(local_ns) - i128::from(self.centre.0);
        let moved = (age * i128::from(self.slope_ppt)).div_euclid(i128::from(TRILLION));
        i128::from(self.centre.1) + moved
    }

    /// How much faster the other clock runs, and how well that is known, in parts per trillion; none
    /// if only ρ is known.
    #[must_use]
    pub fn rate(&self) -> Option<(i64, u64)> {
        self.rated.then_some((self.slope_ppt, self.unsure_ppt()))
    }
}

/// What the paths' being unlike may do: the least and the most of all. What is common to all moves
/// the line, and only the rest of it tilts it.
fn bias_ns(fixes: &[Fix]) -> [u64; 2] {
    let bias = || {
        let bounds = fixes.iter();
        bounds.map(|it| it.sure_ns.saturating_sub(it.noise_ns))
    };
    [bias().min(), bias().max()].map(Option::unwrap_or_default)
}

/// The one that is known best at the last one's instant, if it grows worse by so much.
fn narrowest<'a>(
    fixes: &'a [Fix],
    last: &'a Fix,
    known_ns: impl Fn(&Fix) -> u64,
    rate_ppt: u64,
) -> &'a Fix {
    let aged = |it: &&Fix| known_ns(it).saturating_add(drift_ns(rate_ppt, it.apart_ns(last)));
    // Of equals, the latest.
    fixes.iter().rev().min_by_key(aged).unwrap_or(last)
}

/// The earlier first.
pub(super) fn in_order(a: &Fix, b: &Fix) -> [Fix; 2] {
    if b.local_ns < a.local_ns {
        [*b, *a]
    } else {
        [*a, *b]
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
            sure_ns: half_ns,
            noise_ns: half_ns,
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
        assert_eq!(reading.hard_ns, 300 + 1_000_000 + 1 + 2);
        assert_eq!(reading.bound_ns, reading.hard_ns);
        assert_eq!(global.at(0).ns, 0);
        assert_eq!(global.at(0).bound_ns, u64::MAX);
    }

    #[test]
    fn twice_the_rate_is_known() {
        // 11.25 ppm over 10 s.
        let fixes = [fix(0, 0, 50), fix(10_000_000_000, 112_500, 50)];
        let global = Global::fit(&fixes, &Drift::USUAL).expect("agree");
        let (slope, sure) = global.rate().expect("rate");
        // sqrt(50² + 50²) / 10 s are 7.1 ppb.
        assert_eq!(slope, 11_250_000);
        assert!((1_007_071..1_007_080).contains(&sure), "{sure}");
        let reading = global.at(20_000_000_000);
        assert_eq!(reading.ns, 20_000_225_000);
        // 50 + 7.1 ppb of 10 s + 1 ppm of 10 s.
        assert!((10_120..10_126).contains(&reading.bound_ns), "{reading:?}");
        assert!(reading.hard_ns > 1_000_000);
    }

    #[test]
    fn what_all_have_in_common_does_not_tilt() {
        let fixes = [0, 1, 2].map(|number| Fix {
            noise_ns: 10,
            sure_ns: 1_000,
            half_ns: 9_000,
            ..fix(number * 10_000_000_000, 0, 0)
        });
        let still = Drift {
            wander_ppb: 0,
            ..Drift::USUAL
        };
        let global = Global::fit(&fixes, &still).expect("agree");
        let bound_ns = global.at(40_000_000_000).bound_ns;
        assert!((1_000..1_040).contains(&bound_ns), "{bound_ns}");
        let last = Fix {
            sure_ns: 2_000,
            ..fixes[2]
        };
        let global = Global::fit(&[fixes[0], fixes[1], last], &still).expect("agree");
        // 1 us more in 20 s, for as long again.
        let more_ns = global.at(40_000_000_000).bound_ns - bound_ns;
        assert!((1_999..2_003).contains(&more_ns), "{more_ns}");
    }

    #[test]
    fn a_curve_is_followed_and_a_poor_synchronisation_is_not() {
        // 0.5 ppm more or less than the mean: 5 us off the chord in the middle.
        let mut fixes = [(0, 0), (10, 105_000), (20, 200_000)]
            .map(|(seconds, offset)| fix(seconds * 1_000_000_000, offset, 50));
        let global = Global::fit(&fixes, &Drift::USUAL).expect("agree");
        let reading = global.at(20_000_000_000);
        assert_eq!(reading.ns, 20_000_200_000);
        assert!((50..60).contains(&reading.bound_ns), "{reading:?}");
        // It had to be woken up.
        let poor = fix(20_000_000_000, 300_000, 200_000);
        fixes[2] = poor;
        let global = Global::fit(&fixes, &Drift::USUAL).expect("agree");
        let reading = global.at(20_000_000_000);
        assert!(reading.ns.abs_diff(20_000_210_000) < 100, "{reading:?}");
        assert!((10_050..10_200).contains(&reading.bound_ns), "{reading:?}");
    }

    #[test]
    fn too_close_for_a_rate() {
        let (first, last) = (fix(0, 0, 50), fix(999_999_999, 40, 100_500));
        let global = Global::fit(&[first, last], &Drift::USUAL).expect("agree");
        assert_eq!(global, Global::once(&first, &Drift::USUAL));
        let last = fix(999_999_999, 40, 50);
        let global = Global::fit(&[first, last], &Drift::USUAL).expect("agree");
        assert_eq!(global, Global::once(&last, &Drift::USUAL));
        assert_eq!(Global::fit(&[last], &Drift::USUAL), Ok(global));
    }

    #[test]
    fn words_keep_it() {
        let fixes = [fix(0, -7, 50), fix(10_000_000_000, 112_500, 60)];
        let global = Global::fit(&fixes, &Drift::USUAL).expect("agree");
        assert_eq!(Global::of_words(&global.words()), global);
    }

    #[test]
    fn what_cannot_be_contradicts() {
        let (first, last) = (fix(0, 0, 50), fix(1_000_000_000, 150_000, 50));
        for fixes in [&[first, last][..], &[last, first], &[]] {
            assert_eq!(Global::fit(fixes, &Drift::USUAL), Err(Contradiction));
        }
    }
}
