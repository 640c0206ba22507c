//! How wrong RGAP's global time is, and whether its bounds say so: real exchanges over UDP and by
//! shared memory, and an exact truth.
//!
//! One machine has one oscillator, so the second one is made up: the client's clock is a known
//! function of the server's ([`Oscillator`]). The truth is then exact at any instant, also at one that
//! has not come yet, so ages cost no waiting. What is real is the exchange: its delays, their asymmetry
//! and their noise. What is not: the paths of a network, and an oscillator's own wander.

mod ages;
mod coverage;
mod first;
mod memory;
mod oscillator;
mod peer;

use serde::{Deserialize, Serialize};

pub use ages::Ages;
pub use coverage::{Case, Coverage};
pub use first::First;
pub use oscillator::Oscillator;
pub use peer::By;

use crate::{Error, Machine, Progress};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Synchronisations for the coverage of the bounds.
    pub synchronisations: u32,
    /// Made-up oscillators that they are spread over, each 5 s at least.
    pub oscillators: u32,
    /// The greatest skew of one, in parts per billion.
    pub skew_ppb: u32,
    /// The greatest wander, in parts per billion; the clock is told twice that.
    pub wander_ppb: u32,
    /// The greatest age that a bound is held against, in nanoseconds.
    pub age_ns: u64,
    /// How long the oscillator of 11.25 ppm is followed, in nanoseconds: more than 62 s give the error
    /// of the correction over 60 s.
    pub follow_ns: u64,
    /// Pairs of first synchronisations, with the caps and by the published rule alone.
    pub firsts: u32,
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            synchronisations: 10_000,
            oscillators: 20,
            skew_ppb: 50_000,
            wander_ppb: 100,
            age_ns: 60_000_000_000,
            follow_ns: 75_000_000_000,
            firsts: 500,
            seed: 1,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub machine: Machine,
    /// Whether truth is inside the bounds.
    pub coverage: By<Coverage>,
    /// The errors at the ages that the issue names, at 11.25 ppm.
    pub ages: By<Ages>,
    /// The first synchronisation beside the published rule.
    pub first: First,
}

/// Measures. Takes about five seconds per oscillator, and [`Options::follow_ns`].
///
/// # Errors
/// If there is no UDP over the loopback here, or nobody answers.
pub fn run(options: &Options, progress: &mut Progress<'_>) -> Result<Outcome, Error> {
    let of = 3_u64;
    peer::beside(|peers| {
        progress(0, of);
        let first = first::measure(peers, options)?;
        progress(1, of);
        let coverage = coverage::measure(peers, options)?;
        progress(2, of);
        let ages = ages::measure(peers, options)?;
        progress(of, of);
        Ok(Outcome {
            machine: Machine::look()?,
            coverage,
            ages,
            first,
        })
    })
}
