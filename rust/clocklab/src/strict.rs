//! Is the clock strict: does every value exceed the one before. In each thread, while another one
//! moves it from core to core; and across cores, for ordered reads of what another core has passed
//! on. Raw, unfenced reads of the counter stand beside the latter: they do go back, which shows that
//! the test can fail.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use ullage_clock::Clock;

use crate::error::need;
use crate::{Absent, Error, Machine, Period, Probe, Progress};

mod across;
mod alone;

pub use across::Across;
pub use alone::Alone;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Reads by RVEC under forced migration, of all threads together; 0 leaves it out.
    pub reads: u64,
    /// Threads that read, 1 or more; 0 for as many as there are cores.
    pub threads: u32,
    /// How long a thread is left where it is.
    pub period: Period,
    /// Comparisons of an ordered read with a new value of another core's, of all cores together, for
    /// each clock; 0 leaves it out.
    pub comparisons: u64,
    /// The clocks that are compared across cores.
    pub clocks: Vec<Probe>,
    /// Each of the two parts stops after so many seconds, and reports what it has.
    pub cap_s: u64,
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            reads: 1_000_000_000,
            threads: 0,
            period: Period::default(),
            comparisons: 100_000_000,
            clocks: vec![Probe::RvecOrdered, Probe::Counter],
            cap_s: 600,
            seed: 1,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub machine: Machine,
    /// The reads of each thread by itself.
    pub alone: Option<Alone>,
    /// Across cores, for each clock.
    pub across: Vec<Across>,
    /// By how much ordered values of two threads may go back, as promised; none if the clock does
    /// not promise anything.
    pub promised_ns: Option<u64>,
    /// What could not be measured.
    pub absent: Vec<Absent>,
}

/// Runs the test: a minute with all defaults on two quiet cores, more on busy ones.
///
/// # Errors
/// An option out of range, or a thread that may not be moved.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Outcome, Error> {
    check(options)?;
    let machine = Machine::look()?;
    let mut absent = Vec::new();
    let across = options.comparisons * options.clocks.len() as u64;
    let of = options.reads + across;
    let alone = (options.reads > 0)
        .then(|| {
            alone::run(options, &machine.cpus, &mut absent, &mut |done| {
                progress(done, of);
            })
        })
        .transpose()?;
    let across = if options.comparisons > 0 {
        let mut progress = |done| progress(options.reads + done, of);
        across::run(options, &machine.cpus, &mut absent, &mut progress)?
    } else {
        Vec::new()
    };
    Ok(Outcome {
        machine,
        alone,
        across,
        promised_ns: Clock::get().promise().ordered_ns,
        absent,
    })
}

/// More would take weeks.
const MOST: u64 = 1_000_000_000_000_000;

fn check(options: &Options) -> Result<(), Error> {
    need(options.reads <= MOST, "reads", "up to 10^15")?;
    need(options.comparisons <= MOST, "comparisons", "up to 10^15")?;
    need(options.threads <= 1024, "threads", "up to 1024")?;
    need(options.cap_s > 0, "cap_s", "1 or more")?;
    options.period.check()
}

fn deadline(options: &Options) -> Instant {
    Instant::now() + Duration::from_secs(options.cap_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused() {
        let empty = Period {
            least_ns: 5,
            most_ns: 4,
        };
        for options in [
            Options {
                cap_s: 0,
                ..Options::default()
            },
            Options {
                reads: u64::MAX,
                ..Options::default()
            },
            Options {
                comparisons: u64::MAX,
                ..Options::default()
            },
            Options {
                threads: 5_000,
                ..Options::default()
            },
            Options {
                period: empty,
                ..Options::default()
            },
        ] {
            assert!(run(&options, &mut |_, _| ()).is_err(), "{options:?}");
        }
    }
}
