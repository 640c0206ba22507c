//! Lengths of time: fixed, drawn from a distribution, or from what was measured.

use rand::{Rng, RngCore, SeedableRng};
use rand_distr::{Distribution, Exp1, Gamma, LogNormal, Normal, Pareto, Weibull};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use super::error::SpecError;
use crate::units::{MOST_S, NS, ns, seconds, whole};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Time {
    Fixed {
        s: f64,
    },
    /// Memoryless.
    Exponential {
        mean_s: f64,
    },
    /// Anything between two bounds.
    Uniform {
        low_s: f64,
        high_s: f64,
    },
    /// Drawn again while it is negative, which moves the mean up where the deviation is large.
    Normal {
        mean_s: f64,
        sd_s: f64,
    },
    /// By mean and deviation of the time itself, not of its logarithm.
    LogNormal {
        mean_s: f64,
        sd_s: f64,
    },
    /// By mean and deviation.
    Gamma {
        mean_s: f64,
        sd_s: f64,
    },
    Weibull {
        scale_s: f64,
        shape: f64,
    },
    /// Long tails; above `shape` 1 the mean is finite.
    Pareto {
        least_s: f64,
        shape: f64,
    },
    /// One of these, all alike.
    Empirical {
        values_s: Vec<f64>,
    },
    /// These, one after another, and then from the first again: what happened, as it happened.
    InTurn {
        values_s: Vec<f64>,
    },
}

impl Time {
    /// # Errors
    /// Names the field.
    pub(super) fn check(&self) -> Result<(), SpecError> {
        match self {
            Self::Fixed { s } => length("s", *s),
            Self::Exponential { mean_s } => length("mean_s", *mean_s),
            Self::Uniform { low_s, high_s } => {
                length("low_s", *low_s)?;
                length("high_s", *high_s)?;
                need(low_s <= high_s, "high_s", *high_s, "low_s or more")
            }
            Self::Normal { mean_s, sd_s } => {
                length("mean_s", *mean_s)?;
                length("sd_s", *sd_s)
            }
            Self::LogNormal { mean_s, sd_s } | Self::Gamma { mean_s, sd_s } => {
                positive("mean_s", *mean_s)?;
                positive("sd_s", *sd_s)
            }
            Self::Weibull { scale_s, shape } => {
                positive("scale_s", *scale_s)?;
                positive("shape", *shape)
            }
            Self::Pareto { least_s, shape } => {
                positive("least_s", *least_s)?;
                positive("shape", *shape)
            }
            Self::Empirical { values_s } | Self::InTurn { values_s } => {
                if values_s.is_empty() {
                    return Err(SpecError::new(
                        "values_s",
                        "is empty: give one value or more",
                    ));
                }
                let mut values = values_s.iter().enumerate();
                values.try_for_each(|(i, value)| length(&format!("values_s[{i}]"), *value))
            }
        }
    }

    /// The least that it can be.
    pub(super) fn least_s(&self) -> f64 {
        match self {
            Self::Fixed { s: least }
            | Self::Uniform { low_s: least, .. }
            | Self::Pareto { least_s: least, .. } => *least,
            Self::Normal { mean_s, sd_s } if *sd_s == 0.0 => *mean_s,
            Self::Exponential { .. }
            | Self::Normal { .. }
            | Self::LogNormal { .. }
            | Self::Gamma { .. }
            | Self::Weibull { .. } => 0.0,
            Self::Empirical { values_s } | Self::InTurn { values_s } => {
                values_s.iter().copied().fold(f64::INFINITY, f64::min)
            }
        }
    }

    /// The mean, or less.
    #[expect(clippy::cast_precision_loss, reason = "a number of values")]
    pub(super) fn least_mean_s(&self) -> f64 {
        match self {
            Self::Fixed { s: mean }
            | Self::Exponential { mean_s: mean }
            | Self::Normal { mean_s: mean, .. }
            | Self::LogNormal { mean_s: mean, .. }
            | Self::Gamma { mean_s: mean, .. }
            | Self::Pareto { least_s: mean, .. } => *mean,
            Self::Uniform { low_s, high_s } => low_s.midpoint(*high_s),
            // Gamma(1 + 1/shape) is nowhere less than this.
            Self::Weibull { scale_s, .. } => 0.88 * scale_s,
            Self::Empirical { values_s } | Self::InTurn { values_s } => {
                values_s.iter().sum::<f64>() / values_s.len() as f64
            }
        }
    }
}

/// A length of time: finite, not negative, not absurd.
pub(super) fn length(field: &str, s: f64) -> Result<(), SpecError> {
    let fits = (0.0..=MOST_S).contains(&s);
    need(fits, field, s, "0 to 1e9 seconds")
}

/// More than 0.
pub(super) fn positive(field: &str, value: f64) -> Result<(), SpecError> {
    let fits = value > 0.0 && value <= MOST_S;
    need(fits, field, value, "more than 0, at most 1e9")
}

/// Refuses a field unless it holds.
pub(super) fn need(holds: bool, field: &str, value: f64, allowed: &str) -> Result<(), SpecError> {
    let error = || {
        SpecError::new(
            field,
            format!("{value} is not allowed; it must be {allowed}"),
        )
    };
    holds.then_some(()).ok_or_else(error)
}

/// A [`Time`] that is ready to be drawn from, with random numbers of its own: what else is drawn in a
/// run does not change what is drawn here.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    way: Way,
    random: Xoshiro256PlusPlus,
}

#[derive(Clone, Debug)]
enum Way {
    Fixed(u64),
    Exponential(f64),
    Uniform(f64, f64),
    Normal(Normal<f64>),
    LogNormal(LogNormal<f64>),
    Gamma(Gamma<f64>),
    Weibull(Weibull<f64>),
    Pareto(Pareto<f64>),
    Empirical(Vec<u64>),
    /// The values, and the place of the next one.
    InTurn(Vec<u64>, usize),
}

impl Draw {
    /// # Errors
    /// Names the field.
    pub(super) fn new(time: &Time, random: Xoshiro256PlusPlus) -> Result<Self, SpecError> {
        time.check()?;
        let way = match time {
            Time::Fixed { s } => Way::Fixed(ns(*s)),
            Time::Exponential { mean_s } => Way::Exponential(mean_s * NS),
            Time::Uniform { low_s, high_s } => Way::Uniform(*low_s, *high_s - *low_s),
            Time::Normal { mean_s, sd_s } => {
                Way::Normal(distribution(Normal::new(*mean_s, *sd_s))?)
            }
            Time::LogNormal { mean_s, sd_s } => Way::LogNormal(distribution(
                LogNormal::from_mean_cv(*mean_s, sd_s / mean_s),
            )?),
            Time::Gamma { mean_s, sd_s } => {
                let shape = (mean_s / sd_s).powi(2);
                Way::Gamma(distribution(Gamma::new(shape, mean_s / shape))?)
            }
            Time::Weibull { scale_s, shape } => {
                Way::Weibull(distribution(Weibull::new(*scale_s, *shape))?)
            }
            Time::Pareto { least_s, shape } => {
                Way::Pareto(distribution(Pareto::new(*least_s, *shape))?)
            }
            Time::Empirical { values_s } => {
                Way::Empirical(values_s.iter().map(|value| ns(*value)).collect())
            }
            Time::InTurn { values_s } => {
                Way::InTurn(values_s.iter().map(|value| ns(*value)).collect(), 0)
            }
        };
        Ok(Self { way, random })
    }

    /// One length, in nanoseconds.
    #[inline]
    pub(super) fn ns(&mut self) -> u64 {
        match &mut self.way {
            Way::Fixed(ns) => *ns,
            Way::Exponential(mean_ns) => whole(self.random.sample::<f64, _>(Exp1) * *mean_ns),
            Way::Empirical(all) => all[self.random.random_range(0..all.len())],
            Way::InTurn(all, next) => {
                let now = *next;
                *next = (now + 1) % all.len();
                all[now]
            }
            _ => ns(self.drawn_s()),
        }
    }

    /// Many lengths, in nanoseconds.
    pub(super) fn fill(&mut self, all: &mut [u64]) {
        match self.way {
            Way::Fixed(ns) => all.fill(ns),
            Way::Exponential(mean_ns) => {
                // Not behind a pointer, it stays in registers.
                let mut random = self.random.clone();
                all.fill_with(|| whole(random.sample::<f64, _>(Exp1) * mean_ns));
                self.random = random;
            }
            _ => all.fill_with(|| self.ns()),
        }
    }

    /// The one length that belongs to a number, however often and whenever it is asked for.
    pub(super) fn ns_of(&mut self, number: u64) -> u64 {
        match &self.way {
            Way::Fixed(ns) => return *ns,
            Way::InTurn(all, _) => {
                let place = number % all.len() as u64;
                return all[usize::try_from(place).unwrap_or(0)];
            }
            _ => {}
        }
        let before = self.random.clone();
        let own = self.random.next_u64() ^ number;
        self.random = Xoshiro256PlusPlus::seed_from_u64(own);
        let ns = self.ns();
        self.random = before;
        ns
    }

    fn drawn_s(&mut self) -> f64 {
        let random = &mut self.random;
        match &self.way {
            Way::Uniform(low, width) => low + width * random.random::<f64>(),
            Way::Normal(normal) => loop {
                let drawn = normal.sample(random);
                if drawn >= 0.0 {
                    return drawn;
                }
            },
            Way::LogNormal(it) => it.sample(random),
            Way::Gamma(it) => it.sample(random),
            Way::Weibull(it) => it.sample(random),
            Way::Pareto(it) => it.sample(random),
            Way::Fixed(_) | Way::Exponential(_) | Way::Empirical(_) | Way::InTurn(..) => {
                seconds(self.ns())
            }
        }
    }
}

/// What passes the check and cannot be drawn from all the same.
fn distribution<T, E: std::fmt::Display>(tried: Result<T, E>) -> Result<T, SpecError> {
    tried.map_err(|error| SpecError::new("", format!("cannot be drawn from: {error}")))
}

#[cfg(test)]
#[path = "time_tests.rs"]
mod tests;
