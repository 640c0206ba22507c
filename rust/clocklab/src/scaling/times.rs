//! How long a synchronisation takes: measured ones, or made of measured exchanges.

use rand::Rng;
use rand::distr::{Distribution, Uniform};
use serde::{Deserialize, Serialize};

use crate::error::{Error, need};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Times {
    /// Single exchanges; a synchronisation is so many of them, and its bound comes from the
    /// shortest.
    RoundTrips {
        /// From request to answer, in nanoseconds.
        ns: Vec<u64>,
        /// In a synchronisation, 1 or more; two messages each.
        exchanges: u32,
    },
    /// Whole synchronisations, drawn as they are.
    Synchronisations {
        /// One for each.
        measured: Vec<Synchronisation>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Synchronisation {
    pub ns: u64,
    /// Messages in both directions.
    pub messages: u64,
    /// The shortest round trip: its bound is half of it.
    pub round_trip_ns: u64,
}

pub struct Source<'a> {
    times: &'a Times,
    index: Uniform<u32>,
}

impl<'a> Source<'a> {
    /// `most_nodes`: of so many, the sum of all times must fit.
    pub fn new(times: &'a Times, most_nodes: u64) -> Result<Self, Error> {
        let (count, longest) = match times {
            Times::RoundTrips { ns, exchanges } => {
                need(*exchanges > 0, "exchanges", "1 or more")?;
                let longest = ns.iter().max().copied().unwrap_or(0);
                (ns.len(), longest.checked_mul(u64::from(*exchanges)))
            }
            Times::Synchronisations { measured } => {
                let largest =
                    |sync: &Synchronisation| sync.ns.max(sync.messages).max(sync.round_trip_ns);
                (
                    measured.len(),
                    Some(measured.iter().map(largest).max().unwrap_or(0)),
                )
            }
        };
        // Twice, since both ends count a message.
        let sum = longest.and_then(|longest| longest.checked_mul(most_nodes.checked_mul(2)?));
        need(
            sum.is_some(),
            "times",
            "no more than centuries for all nodes",
        )?;
        let uniform = u32::try_from(count)
            .ok()
            .and_then(|count| Uniform::new(0, count).ok());
        let index = uniform.ok_or(Error::Option {
            name: "times",
            allowed: "1 to 2^32 - 1 measured ones",
        })?;
        Ok(Self { times, index })
    }

    /// Each with the same probability, exactly.
    #[inline]
    pub fn draw(&self, random: &mut impl Rng) -> Synchronisation {
        match self.times {
            Times::RoundTrips { ns, exchanges } => {
                let (mut sum, mut least) = (0, u64::MAX);
                for _ in 0..*exchanges {
                    let round_trip_ns = ns[self.index.sample(random) as usize];
                    sum += round_trip_ns;
                    least = least.min(round_trip_ns);
                }
                Synchronisation {
                    ns: sum,
                    messages: 2 * u64::from(*exchanges),
                    round_trip_ns: least,
                }
            }
            Times::Synchronisations { measured } => measured[self.index.sample(random) as usize],
        }
    }
}
