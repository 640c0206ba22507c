//! When viewers come, in a simulation and in a run: one meaning for each kind, and the same curve
//! in both.

use std::f64::consts::TAU;

use rand::{Rng, SeedableRng};
use rand_distr::Exp1;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::units::{ns, seconds};

/// Seconds of a day.
const DAY_S: f64 = 86_400.0;
const DAY_NS: u64 = 86_400_000_000_000;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// Independent of each other.
    Poisson { rate_hz: f64 },
    /// One after the other, at equal distances; the first after one distance.
    Uniform { rate_hz: f64 },
    /// At these times, which do not go back.
    Trace { at_s: Vec<f64> },
    /// A Poisson process whose rate jumps to a peak, and falls back by e each `decay_s`.
    FlashCrowd {
        rate_hz: f64,
        peak_hz: f64,
        from_s: f64,
        decay_s: f64,
    },
    /// A Poisson process that has another rate for a while.
    Surge {
        rate_hz: f64,
        peak_hz: f64,
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

/// The times of arrival in nanoseconds, one after the other.
#[derive(Debug)]
pub struct Schedule {
    way: Way,
    random: Xoshiro256PlusPlus,
    /// The last one, in nanoseconds.
    at: u64,
    /// What is left of it below one, unless the way itself keeps that.
    fraction: f64,
    left: u64,
    until: u64,
}

#[derive(Debug)]
enum Way {
    Poisson(Poisson),
    Uniform(Equal),
    Trace(std::vec::IntoIter<f64>),
    Crowd(Crowd),
    Varying(Rates),
    Swinging(Swing),
}

impl Schedule {
    /// At most so many, before a time in nanoseconds.
    #[must_use]
    pub fn new(
        arrivals: &Arrivals,
        random: Xoshiro256PlusPlus,
        sessions: Option<u64>,
        until: Option<u64>,
    ) -> Self {
        let way = match arrivals {
            Arrivals::Poisson { rate_hz } => Way::Poisson(Poisson::new(1e9 / rate_hz)),
            Arrivals::Uniform { rate_hz } => Way::Uniform(Equal {
                rate_hz: *rate_hz,
                number: 1,
            }),
            Arrivals::Trace { at_s } => Way::Trace(at_s.clone().into_iter()),
            Arrivals::FlashCrowd {
                rate_hz,
                peak_hz,
                from_s,
                decay_s,
            } => Way::Crowd(Crowd {
                rate_hz: *rate_hz,
                from_s: *from_s,
                decay_s: *decay_s,
                viewers: (peak_hz - rate_hz) * decay_s,
            }),
            Arrivals::Surge {
                rate_hz,
                peak_hz,
                from_s,
                for_s,
            } => Way::Varying(Rates {
                steps: vec![
                    (*rate_hz, *from_s),
                    (*peak_hz, from_s + for_s),
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
            fraction: 0.0,
            left: sessions.unwrap_or(u64::MAX),
            until: until.unwrap_or(u64::MAX),
        }
    }

    /// The same for the same seed on every machine.
    #[must_use]
    pub fn seeded(
        arrivals: &Arrivals,
        seed: u64,
        count: Option<u64>,
        duration_s: Option<f64>,
    ) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self::new(arrivals, random, count, duration_s.map(ns))
    }

    /// Of equal distances, the first one at the begin instead of after one distance.
    #[must_use]
    pub fn at_once(mut self) -> Self {
        if let Way::Uniform(equal) = &mut self.way {
            equal.number = 0;
        }
        self
    }

    /// The next times, and `u64::MAX` after the last.
    pub(crate) fn fill(&mut self, all: &mut [u64]) {
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
        let gap = gap_ns + self.fraction;
        // Signed is quicker to convert.
        let whole = gap as i64;
        self.fraction = gap - whole as f64;
        self.at.saturating_add_signed(whole)
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let gap_ns = match &mut self.way {
            Way::Poisson(poisson) => {
                let gap_ns = poisson.gap_ns(&mut self.random);
                self.at = self.at.saturating_add(gap_ns);
                return (self.at < self.until).then_some(self.at);
            }
            Way::Uniform(equal) => {
                self.at = equal.next_ns();
                return (self.at < self.until).then_some(self.at);
            }
            Way::Trace(times) => return times.next().map(ns).filter(|at| *at < self.until),
            Way::Crowd(crowd) => crowd.gap_ns(self.at, &mut self.random),
            Way::Varying(rates) => rates.gap_ns(self.at, &mut self.random),
            Way::Swinging(swing) => swing.gap_ns(self.at, &mut self.random),
        };
        self.at = self.later(gap_ns);
        (self.at < self.until).then_some(self.at)
    }
}

/// Equal gaps. They are not added up: the last of a second is as exact as the first.
#[derive(Debug)]
struct Equal {
    rate_hz: f64,
    /// Of gaps before the next one.
    number: u64,
}

impl Equal {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "not negative, and 2^53 ns are 104 days to the nanosecond"
    )]
    fn next_ns(&mut self) -> u64 {
        let at_s = self.number as f64 / self.rate_hz;
        self.number += 1;
        (at_s * 1e9 + 0.5) as u64
    }
}

/// Exponential gaps in parts of a nanosecond, which are added up as whole numbers: with
/// floating-point ones each would wait for what the one before has left.
#[derive(Clone, Copy, Debug)]
struct Poisson {
    mean: f64,
    /// A nanosecond has 2^bits parts.
    bits: u32,
    /// Parts below a nanosecond that the last one has left.
    fraction: u64,
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
            fraction: 0,
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
        let parts = (random.sample::<f64, _>(Exp1) * self.mean) as i64 as u64 + self.fraction;
        self.fraction = parts & ((1 << self.bits) - 1);
        parts >> self.bits
    }
}

/// A crowd beside those who come anyway: two Poisson processes, of which the sooner one is next. Neither
/// remembers, so both are drawn anew each time.
#[derive(Debug)]
struct Crowd {
    rate_hz: f64,
    from_s: f64,
    decay_s: f64,
    /// In the whole crowd, on the average.
    viewers: f64,
}

impl Crowd {
    fn gap_ns(&self, at: u64, random: &mut Xoshiro256PlusPlus) -> f64 {
        let usual_s = random.sample::<f64, _>(Exp1) / self.rate_hz;
        usual_s.min(self.crowd_gap_s(seconds(at), random)) * 1e9
    }

    /// A unit exponential is used up by those of the crowd who are still to come: infinite where they do
    /// not suffice.
    fn crowd_gap_s(&self, now_s: f64, random: &mut Xoshiro256PlusPlus) -> f64 {
        let until_s = (self.from_s - now_s).max(0.0);
        let since_s = (now_s - self.from_s).max(0.0);
        let left = self.viewers * (-since_s / self.decay_s).exp();
        let drawn: f64 = random.sample(Exp1);
        if drawn < left {
            until_s - self.decay_s * (-drawn / left).ln_1p()
        } else {
            f64::INFINITY
        }
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
        let steps = rates_hz.iter().map(|rate| {
            end_s += length_s;
            (*rate, end_s)
        });
        Self {
            steps: steps.collect(),
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
