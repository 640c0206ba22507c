//! The other clock's time from one's own, without a message.

use super::exchange::{Contradiction, Fix, UNLIKE};
use super::line::Line;
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

/// Of [`Global::words`].
pub(super) const WORDS: usize = 15;

/// A global instant.
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
    /// The last synchronisation, or the narrower if no rate is known: what the hard bound is from.
    anchor: Fix,
    /// A point of the line: local instant, offset.
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

    /// After several, in the order of time. If they are too close to tell a rate better than ρ does,
    /// the narrowest one is taken.
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
        let apart_ns = first.apart_ns(last);
        let line = Line::through(fixes).filter(|_| apart_ns >= drift.baseline_ns.max(1));
        let rated = line.map(|line| Self {
            centre: line.centre,
            slope_ppt: line.slope_ppt,
            noise_ns: line.noise_ns,
            noise_ppt: line.noise_ppt,
            bias_ns: bias_ns(fixes),
            wander_ppt: ppt(drift.wander_ppb).saturating_add(rate_ppt(unlike_ns(fixes), apart_ns)),
            rated: true,
            ..Self::once(last, drift)
        });
        let better = |it: &Self| it.unsure_ppt() < it.worst_ppt;
        Ok(rated.filter(better).unwrap_or_else(|| {
            let aged = |it: &Fix| {
                let drifted = drift_ns(ppt(drift.worst_ppb), it.apart_ns(last));
                it.half_ns.saturating_add(drifted)
            };
            let narrowest = fixes.iter().min_by_key(|it| aged(it));
            Self::once(narrowest.unwrap_or(last), drift)
        }))
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
            ..*self
        }
    }

    /// What the other clock shows when one's own shows this: before or after the synchronisation.
    #[must_use]
    #[inline]
    pub fn at(&self, local_ns: u64) -> Reading {
        let offset = self.offset(local_ns);
        let from_centre = local_ns.abs_diff(self.centre.0).saturating_add(1);
        let slope_noise = u128::from(drift_ns(self.noise_ppt, from_centre));
        let noise = u128::from(self.noise_ns);
        let noise = noise * noise + slope_noise * slope_noise;
        let noise_ns = u64::try_from(noise.isqrt()).unwrap_or(u64::MAX);
        let age_ns = local_ns.abs_diff(self.anchor.local_ns).saturating_add(1);
        let bound_ns = noise_ns
            .saturating_add(1)
            .saturating_add(self.bias_ns)
            .saturating_add(drift_ns(self.wander_ppt, age_ns));
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

    /// Its parts, for [`super::Synced`] and for other processes.
    pub(super) fn words(&self) -> [u64; WORDS] {
        let Fix {
            local_ns,
            offset_ns,
            half_ns,
            sure_ns,
            noise_ns,
            rtt_ns,
        } = self.anchor;
        [
            local_ns,
            offset_ns.cast_unsigned(),
            half_ns,
            sure_ns,
            noise_ns,
            rtt_ns,
            self.centre.0,
            self.centre.1.cast_unsigned(),
            self.slope_ppt.cast_unsigned(),
            self.noise_ns,
            self.noise_ppt,
            self.bias_ns,
            self.wander_ppt,
            self.worst_ppt,
            u64::from(self.rated),
        ]
    }

    /// The inverse of [`Global::words`].
    pub(super) fn of_words(words: &[u64; WORDS]) -> Self {
        let [
            local_ns,
            offset,
            half_ns,
            sure_ns,
            noise_ns,
            rtt_ns,
            rest @ ..,
        ] = *words;
        let [
            at,
            there,
            slope,
            noise,
            noise_ppt,
            bias_ns,
            wander_ppt,
            worst_ppt,
            rated,
        ] = rest;
        Self {
            anchor: Fix {
                local_ns,
                offset_ns: offset.cast_signed(),
                half_ns,
                sure_ns,
                noise_ns,
                rtt_ns,
            },
            centre: (at, there.cast_signed()),
            slope_ppt: slope.cast_signed(),
            noise_ns: noise,
            noise_ppt,
            bias_ns,
            wander_ppt,
            worst_ppt,
            rated: rated != 0,
        }
    }

    /// How much faster the other clock runs, and how well that is known, in parts per trillion; none
    /// if only ρ is known.
    #[must_use]
    pub fn rate(&self) -> Option<(i64, u64)> {
        self.rated.then_some((self.slope_ppt, self.unsure_ppt()))
    }
}

/// The largest that all have: it moves the line, not its slope.
fn bias_ns(fixes: &[Fix]) -> u64 {
    let bias = fixes
        .iter()
        .map(|it| it.sure_ns.saturating_sub(it.noise_ns));
    bias.max().unwrap_or(0)
}

/// How differently unlike the paths may have been at times, from how much the round trips differ.
fn unlike_ns(fixes: &[Fix]) -> u64 {
    let rtts = || fixes.iter().map(|it| it.rtt_ns);
    let (Some(least), Some(most)) = (rtts().min(), rtts().max()) else {
        return 0;
    };
    (most - least).div_ceil(UNLIKE)
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
        // sqrt((2·50)² + 50²) + 1 ppm of 10 s.
        assert!((10_111..10_120).contains(&reading.bound_ns), "{reading:?}");
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
            rtt_ns: 10_000,
            ..fixes[2]
        };
        let global = Global::fit(&[fixes[0], fixes[1], last], &still).expect("agree");
        // A tenth of 10 us in 20 s, for as long again.
        let more_ns = global.at(40_000_000_000).bound_ns - bound_ns;
        assert!((999..1_003).contains(&more_ns), "{more_ns}");
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
