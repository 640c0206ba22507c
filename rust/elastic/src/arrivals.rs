//! When viewers come.

use std::f64::consts::TAU;

use rand::Rng;
use rand_distr::Exp1;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use super::error::SpecError;
use super::time::{length, need, ns, positive, seconds};

/// Seconds of a day.
const DAY_S: f64 = 86_400.0;
const DAY_NS: u64 = 86_400_000_000_000;

/// How viewers come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// Independent of each other.
    Poisson { rate_hz: f64 },
    /// One after the other, at equal distances; the first after one distance.
    Uniform { rate_hz: f64 },
    /// At these times, which do not go back.
    Trace { at_s: Vec<f64> },
    /// A Poisson process that has another rate for a while.
    FlashCrowd {
        rate_hz: f64,
        crowd_rate_hz: f64,
        from_s: f64,
        for_s: f64,
    },
    /// A Poisson process whose rate swings as a cosine with the hours of the day.
    Daily {
        /// On the average of a day.
        rate_hz: f64,
        /// Of the mean, between 0 and 1: how much more come at the peak.
        swing: f64,
        /// Seconds after midnight; the run begins at midnight.
        peak_at_s: f64,
    },
    /// A Poisson process with a rate for each step of time, from the first again after the last.
    Profile { rates_hz: Vec<f64>, step_s: f64 },
}

impl Arrivals {
    /// # Errors
    /// Names the field.
    pub(super) fn check(&self) -> Result<(), SpecError> {
        match self {
            Self::Poisson { rate_hz } | Self::Uniform { rate_hz } => positive("rate_hz", *rate_hz),
            Self::Trace { at_s } => {
                for (i, at) in at_s.iter().enumerate() {
                    let field = format!("at_s[{i}]");
                    length(&field, *at)?;
                    let before = at_s[i.saturating_sub(1)];
                    need(
                        before <= *at,
                        &field,
                        *at,
                        &format!("{before} or more, as the one before"),
                    )?;
                }
                Ok(())
            }
            Self::FlashCrowd {
                rate_hz,
                crowd_rate_hz,
                from_s,
                for_s,
            } => {
                positive("rate_hz", *rate_hz)?;
                positive("crowd_rate_hz", *crowd_rate_hz)?;
                length("from_s", *from_s)?;
                length("for_s", *for_s)
            }
            Self::Daily {
                rate_hz,
                swing,
                peak_at_s,
            } => {
                positive("rate_hz", *rate_hz)?;
                need((0.0..=1.0).contains(swing), "swing", *swing, "0 to 1")?;
                length("peak_at_s", *peak_at_s)
            }
            Self::Profile { rates_hz, step_s } => {
                for (i, rate) in rates_hz.iter().enumerate() {
                    length(&format!("rates_hz[{i}]"), *rate)?;
                }
                if !rates_hz.iter().any(|rate| *rate > 0.0) {
                    return Err(SpecError::new("rates_hz", "needs a rate above 0"));
                }
                positive("step_s", *step_s)
            }
        }
    }

    /// About how many seconds so many sessions take to come.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(super) fn lasts_s(&self, sessions: u64) -> f64 {
        let sessions = sessions as f64;
        match self {
            Self::Trace { at_s } => at_s.last().copied().unwrap_or_default(),
            Self::Poisson { rate_hz }
            | Self::Uniform { rate_hz }
            | Self::FlashCrowd { rate_hz, .. }
            | Self::Daily { rate_hz, .. } => sessions / rate_hz,
            Self::Profile { rates_hz, .. } => {
                sessions * rates_hz.len() as f64 / rates_hz.iter().sum::<f64>()
            }
        }
    }
}

/// The times of arrival, one after the other.
#[derive(Debug)]
pub(super) struct Coming {
    way: Way,
    random: Xoshiro256PlusPlus,
    /// The last one, in nanoseconds.
    at: u64,
    /// What is left of it below one, unless the way itself keeps that.
    rest: f64,
    left: u64,
    until: u64,
}

#[derive(Debug)]
enum Way {
    Poisson(Poisson),
    Uniform(f64),
    Trace(std::vec::IntoIter<f64>),
    Varying(Rates),
    Swinging(Swing),
}

impl Coming {
    /// At most so many, before a time in nanoseconds.
    pub(super) fn new(
        arrivals: &Arrivals,
        random: Xoshiro256PlusPlus,
        sessions: Option<u64>,
        until: Option<u64>,
    ) -> Self {
        let way = match arrivals {
            Arrivals::Poisson { rate_hz } => Way::Poisson(Poisson::new(1e9 / rate_hz)),
            Arrivals::Uniform { rate_hz } => Way::Uniform(1e9 / rate_hz),
            Arrivals::Trace { at_s } => Way::Trace(at_s.clone().into_iter()),
            Arrivals::FlashCrowd {
                rate_hz,
                crowd_rate_hz,
                from_s,
                for_s,
            } => Way::Varying(Rates {
                steps: vec![
                    (*rate_hz, *from_s),
                    (*crowd_rate_hz, from_s + for_s),
                    (*rate_hz, f64::INFINITY),
                ],
                period_ns: u64::MAX,
                viewers: f64::INFINITY,
            }),
            Arrivals::Profile { rates_hz, step_s } => Way::Varying(Rates::of(rates_hz, *step_s)),
            Arrivals::Daily {
                rate_hz,
                swing,
                peak_at_s,
            } => Way::Swinging(Swing {
                mean_hz: *rate_hz,
                part: *swing,
                peak_at_s: *peak_at_s,
            }),
        };
        Self {
            way,
            random,
            at: 0,
            rest: 0.0,
            left: sessions.unwrap_or(u64::MAX),
            until: until.unwrap_or(u64::MAX),
        }
    }
}

impl Coming {
    /// The next times, and `u64::MAX` after the last.
    pub(super) fn fill(&mut self, all: &mut [u64]) {
        let Way::Poisson(mut poisson) = self.way else {
            return all.fill_with(|| self.next().unwrap_or(u64::MAX));
        };
        // Not behind a pointer, it stays in registers.
        let (mut random, mut at) = (self.random.clone(), self.at);
        for time in all.iter_mut() {
            let ended = self.left == 0 || at >= self.until;
            self.left -= u64::from(!ended);
            at = at.saturating_add(poisson.gap_ns(&mut random));
            *time = if ended || at >= self.until {
                u64::MAX
            } else {
                at
            };
        }
        (self.random, self.at) = (random, at);
        self.way = Way::Poisson(poisson);
    }

    /// A time so many nanoseconds later; what is left of them below one is kept.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "whole nanoseconds, and what is left of them is kept"
    )]
    fn later(&mut self, gap_ns: f64) -> u64 {
        let gap = gap_ns + self.rest;
        // Signed is quicker to convert.
        let whole = gap as i64;
        self.rest = gap - whole as f64;
        self.at.saturating_add_signed(whole)
    }
}

impl Iterator for Coming {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let gap_ns = match &mut self.way {
            Way::Poisson(poisson) => {
                let gap_ns = poisson.gap_ns(&mut self.random);
                self.at = self.at.saturating_add(gap_ns);
                return (self.at < self.until).then_some(self.at);
            }
            Way::Uniform(gap_ns) => *gap_ns,
            Way::Trace(times) => return times.next().map(ns).filter(|at| *at < self.until),
            Way::Varying(rates) => rates.gap_ns(self.at, &mut self.random),
            Way::Swinging(swing) => swing.gap_ns(self.at, &mut self.random),
        };
        self.at = self.later(gap_ns);
        (self.at < self.until).then_some(self.at)
    }
}

/// Exponential gaps in parts of a nanosecond, which are added up as whole numbers: with
/// floating-point ones each would wait for what the one before has left.
#[derive(Clone, Copy, Debug)]
struct Poisson {
    /// In parts.
    mean: f64,
    /// A nanosecond has 2^bits parts.
    bits: u32,
    /// Parts below a nanosecond that the last one has left.
    rest: u64,
}

impl Poisson {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 to 20"
    )]
    fn new(mean_ns: f64) -> Self {
        // A mean below 2^57 parts: no exponential of 53 bits is 2^6 times as long, and 2^63 fit.
        let bits = (57.0 - mean_ns.log2().ceil()).clamp(0.0, 20.0) as u32;
        Self {
            mean: mean_ns * f64::from(1_u32 << bits),
            bits,
            rest: 0,
        }
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole parts, and not negative"
    )]
    fn gap_ns(&mut self, random: &mut Xoshiro256PlusPlus) -> u64 {
        // Signed is quicker to convert.
        let parts = (random.sample::<f64, _>(Exp1) * self.mean) as i64 as u64 + self.rest;
        self.rest = parts & ((1 << self.bits) - 1);
        parts >> self.bits
    }
}

/// Rates that change in steps.
#[derive(Debug)]
struct Rates {
    /// Rate and end of each, in seconds after the begin of a period.
    steps: Vec<(f64, f64)>,
    period_ns: u64,
    /// Viewers of a period, on the average.
    viewers: f64,
}

impl Rates {
    fn of(rates_hz: &[f64], length_s: f64) -> Self {
        let mut end_s = 0.0;
        let each = rates_hz.iter().map(|rate| {
            end_s += length_s;
            (*rate, end_s)
        });
        let steps: Vec<_> = each.collect();
        Self {
            steps,
            period_ns: ns(end_s).max(1),
            viewers: rates_hz.iter().sum::<f64>() * length_s,
        }
    }

    /// Until the next one: a unit exponential is used up at the rate of each step.
    fn gap_ns(&self, at: u64, random: &mut Xoshiro256PlusPlus) -> f64 {
        let mut left: f64 = random.sample(Exp1);
        let mut place_s = seconds(at % self.period_ns);
        let mut gap_s = 0.0;
        loop {
            for (rate, end_s) in &self.steps {
                let step_s = (end_s - place_s).max(0.0);
                if *rate > 0.0 && left <= step_s * rate {
                    return (gap_s + left / rate) * 1e9;
                }
                if step_s > 0.0 {
                    left -= step_s * rate;
                    gap_s += step_s;
                    place_s = *end_s;
                }
            }
            place_s = 0.0;
            // Periods in which nobody comes are not gone through one by one.
            let empty = (left / self.viewers).floor();
            gap_s += empty * self.steps.last().map_or(0.0, |(_, end_s)| *end_s);
            if empty.is_infinite() {
                return f64::INFINITY;
            }
            left = (left - empty * self.viewers).max(0.0);
        }
    }
}

/// A rate that follows a cosine.
#[derive(Debug)]
struct Swing {
    mean_hz: f64,
    part: f64,
    peak_at_s: f64,
}

impl Swing {
    /// By thinning: as many as at the peak are drawn, and some of them do not come.
    fn gap_ns(&self, at: u64, random: &mut Xoshiro256PlusPlus) -> f64 {
        let most_hz = self.mean_hz * (1.0 + self.part);
        let at_s = seconds(at % DAY_NS);
        let mut gap_s = 0.0;
        loop {
            gap_s += random.sample::<f64, _>(Exp1) / most_hz;
            let turn = (at_s + gap_s - self.peak_at_s) / DAY_S * TAU;
            let rate = self.mean_hz * (1.0 + self.part * turn.cos());
            if random.random::<f64>() * most_hz <= rate {
                return gap_s * 1e9;
            }
        }
    }
}

#[cfg(test)]
#[path = "arrivals_tests.rs"]
mod tests;
