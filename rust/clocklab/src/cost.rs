//! What one read of each clock costs. A machine that others use too is not twice the
//! same, so only ratios within a round are compared, of rounds that interleave all clocks in random
//! order; the clock that is measured has its guards on.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use ullage_clock::Raw;

use crate::ecp::usable;
use crate::error::need;
use crate::machine::{Home, go};
use crate::probe::Visit;
use crate::{Absent, Error, Interval, Machine, Probe, Progress};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Rounds, each with all clocks, 1 or more; under six give no 95 % interval.
    pub rounds: u32,
    /// Reads of a clock in a round, 1 or more.
    pub reads: u32,
    pub clocks: Vec<Probe>,
    /// What the others are divided by.
    pub over: Vec<Probe>,
    /// Whether the thread is kept on one core. The clock's guards are on in either case.
    pub pinned: bool,
    /// Stops after so many seconds, and reports what it has.
    pub cap_s: u64,
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rounds: 101,
            reads: 100_000,
            clocks: Probe::ALL.to_vec(),
            over: vec![Probe::Counter, Probe::Monotonic, Probe::MonotonicRaw],
            pinned: true,
            cap_s: 600,
            seed: 1,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub machine: Machine,
    pub rounds: u64,
    /// Reads of a clock in a round.
    pub reads: u32,
    /// One for each clock.
    pub clocks: Vec<Cost>,
    /// What could not be measured.
    pub absent: Vec<Absent>,
    /// The cap came first: there are fewer rounds than asked for.
    pub capped: bool,
}

/// What a read of one clock costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    pub clock: Probe,
    pub how: String,
    /// Nanoseconds per read, over the rounds. Of this hour on this machine: compare ratios.
    pub ns: Interval,
    /// This clock's cost divided by another's, over the rounds.
    pub ratios: Vec<Ratio>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The clock divided by.
    pub over: Probe,
    /// The ratio of the same round, over the rounds.
    pub ratio: Interval,
}

/// Measures: 6 s with all defaults.
///
/// # Errors
/// An option out of range, or a thread that may not be pinned.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Outcome, Error> {
    need(options.rounds > 0, "rounds", "1 or more")?;
    need(options.reads > 0, "reads", "1 or more")?;
    need(options.cap_s > 0, "cap_s", "1 or more")?;
    let machine = Machine::look()?;
    let _home = Home::remember()?;
    if options.pinned {
        go(machine.cpus[0])?;
    }
    let mut absent = Vec::new();
    let usable = usable(&options.clocks, &mut absent);
    let costs = rounds(options, usable.keys().copied().collect(), progress);
    let rounds = costs.values().map(Vec::len).min().unwrap_or(0) as u64;
    Ok(Outcome {
        machine,
        rounds,
        reads: options.reads,
        clocks: costs
            .keys()
            .filter_map(|clock| cost(*clock, options, &costs))
            .collect(),
        absent,
        capped: rounds < u64::from(options.rounds),
    })
}

/// Nanoseconds per read of each clock in each round.
type Costs = BTreeMap<Probe, Vec<f64>>;

fn rounds(options: &Options, mut clocks: Vec<Probe>, progress: &mut Progress) -> Costs {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(options.seed);
    let deadline = Instant::now() + Duration::from_secs(options.cap_s);
    let mut costs = Costs::new();
    for round in 1..=options.rounds {
        clocks.shuffle(&mut random);
        for clock in &clocks {
            let reads = options.reads;
            // Once more in front: the first reads pay for caches and for this round's fold.
            clock.with(Reads(reads.min(1_000)));
            let ns = clock.with(Reads(reads));
            costs.entry(*clock).or_default().push(ns);
        }
        progress(u64::from(round), u64::from(options.rounds));
        if Instant::now() >= deadline {
            break;
        }
    }
    costs
}

fn cost(clock: Probe, options: &Options, costs: &Costs) -> Option<Cost> {
    let own = &costs[&clock];
    let others = options
        .over
        .iter()
        .filter_map(|over| Some((*over, costs.get(over)?)));
    let ratios = others.filter_map(|(over, theirs)| {
        let mut ratios: Vec<f64> = own
            .iter()
            .zip(theirs)
            .map(|(own, their)| own / their)
            .collect();
        let ratio = Interval::of(&mut ratios)?;
        Some(Ratio { over, ratio })
    });
    Some(Cost {
        clock,
        how: clock.how().into(),
        ns: Interval::of(&mut own.clone())?,
        ratios: ratios.collect(),
    })
}

/// The nanoseconds of one read, out of so many in a row.
struct Reads(u32);

impl Visit for Reads {
    type Outcome = f64;

    #[expect(clippy::cast_precision_loss, reason = "far less than 2^53")]
    fn visit(self, read: impl Fn() -> u64 + Copy + Send + Sync) -> f64 {
        let start = Raw::ns();
        for _ in 0..self.0 {
            black_box(read());
        }
        (Raw::ns() - start) as f64 / f64::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "small whole numbers")]
    fn ratios_are_of_the_same_round() {
        let mut costs = Costs::new();
        costs.insert(Probe::Counter, vec![1.0, 10.0, 100.0]);
        costs.insert(Probe::Rvec, vec![2.0, 20.0, 300.0]);
        let cost = cost(Probe::Rvec, &Options::default(), &costs).expect("cost");
        assert_eq!(cost.ns.median, 20.0);
        assert_eq!(cost.ratios.len(), 1);
        let ratio = cost.ratios[0].ratio;
        assert_eq!((ratio.median, ratio.low, ratio.high), (2.0, 2.0, 3.0));
    }

    #[test]
    fn every_clock_costs_something() {
        let options = Options {
            rounds: 7,
            reads: 1_000,
            ..Options::default()
        };
        let mut steps = Vec::new();
        let outcome = run(&options, &mut |done, of| steps.push((done, of))).expect("outcome");
        assert_eq!(
            outcome.clocks.len() + outcome.absent.len(),
            Probe::ALL.len()
        );
        assert!(outcome.clocks.iter().all(|clock| clock.ns.low > 0.0));
        assert_eq!((steps.len(), steps[6]), (7, (7, 7)));
        assert!(!outcome.capped && outcome.rounds == 7);
    }

    #[test]
    fn nonsense_is_refused() {
        let options = Options {
            rounds: 0,
            ..Options::default()
        };
        assert!(run(&options, &mut |_, _| ()).is_err());
    }
}
