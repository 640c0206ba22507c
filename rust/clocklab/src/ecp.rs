//! The ECP test: is elapsed time precise, that is, is even the shortest piece of work
//! told to take time. Two reads with fifteen additions in between, 5,000 times in a run, 100 runs;
//! with the thread on one core, moving itself, and moved by another thread.

use std::collections::BTreeMap;
use std::hint::black_box;

use nix::unistd::gettid;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::error::need;
use crate::machine::{Home, go};
use crate::mover::while_moving;
use crate::probe::Visit;
use crate::work::{ADDITIONS, WORK, additions};
use crate::{Absent, Error, Machine, Period, Probe, Progress};

mod tally;

pub use tally::Elapsed;
use tally::Tally;

/// Where the thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// On one core.
    Pinned,
    /// It moves itself, between the two reads, every [`Options::move_every`] iterations.
    MovesItself,
    /// Another thread moves it at any moment.
    IsMoved,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Pairs of reads in a run, 1 or more.
    pub iterations: u32,
    /// Runs of each clock, 1 or more.
    pub runs: u32,
    pub clocks: Vec<Probe>,
    /// Which placements.
    pub placements: Vec<Placement>,
    /// A thread that moves itself does so in every so manieth iteration, 1 or more.
    pub move_every: u32,
    /// How long it is left alone where another thread moves it.
    pub period: Period,
    /// Seed of the order of the clocks and the moves.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            iterations: 5_000,
            runs: 100,
            clocks: vec![
                Probe::Rvec,
                Probe::RvecOrdered,
                Probe::Counter,
                Probe::Rdtscp,
                Probe::Monotonic,
                Probe::MonotonicRaw,
            ],
            placements: vec![
                Placement::Pinned,
                Placement::MovesItself,
                Placement::IsMoved,
            ],
            move_every: 50,
            period: Period {
                least_ns: 20_000,
                most_ns: 200_000,
            },
            seed: 1,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub machine: Machine,
    /// Additions between two reads.
    pub additions: u32,
    /// The instructions that they are.
    pub work: String,
    /// Pairs of reads in a run.
    pub iterations: u32,
    /// Runs of each clock.
    pub runs: u32,
    /// A part for each placement.
    pub placements: Vec<Placed>,
    /// What could not be measured.
    pub absent: Vec<Absent>,
}

/// What was found in one placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Placed {
    pub placement: Placement,
    /// How often the other thread moved this one, in all runs of all clocks.
    pub moves: u64,
    /// One for each clock.
    pub clocks: Vec<Elapsed>,
}

/// Runs the test: 2 s with all defaults.
///
/// # Errors
/// An option out of range, or a thread that may not be moved.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Outcome, Error> {
    check(options)?;
    let machine = Machine::look()?;
    let _home = Home::remember()?;
    let mut absent = Vec::new();
    let clocks = usable(&options.clocks, &mut absent);
    let mut placements = Vec::new();
    let of = u64::from(options.runs) * options.placements.len() as u64;
    for (number, placement) in options.placements.iter().enumerate() {
        if *placement != Placement::Pinned && machine.cpus.len() < 2 {
            let name = format!("{placement:?}");
            absent.push(Absent::new(name, "this thread may use one core only"));
            continue;
        }
        let before = u64::from(options.runs) * number as u64;
        let mut progress = |done| progress(before + done, of);
        go(machine.cpus[0])?;
        let stage = Stage {
            options,
            placement: *placement,
            clocks: &clocks,
            cpus: &machine.cpus,
        };
        placements.push(stage.run(&mut progress)?);
    }
    Ok(Outcome {
        machine,
        additions: ADDITIONS,
        work: WORK.into(),
        iterations: options.iterations,
        runs: options.runs,
        placements,
        absent,
    })
}

/// All durations are kept until the end: 8 bytes each, of each clock.
const MOST: u64 = 100_000_000;

fn check(options: &Options) -> Result<(), Error> {
    let pairs = u64::from(options.iterations) * u64::from(options.runs);
    need(
        (1..=MOST).contains(&pairs),
        "iterations × runs",
        "1 to 10^8",
    )?;
    need(options.move_every > 0, "move_every", "1 or more")?;
    options.period.check()
}

/// The clocks that can be read here, each once.
pub fn usable(clocks: &[Probe], absent: &mut Vec<Absent>) -> BTreeMap<Probe, f64> {
    let mut usable = BTreeMap::new();
    for probe in clocks {
        match probe.ns_per_tick() {
            Ok(tick) => {
                usable.insert(*probe, tick);
            }
            Err(why) => absent.push(Absent::new(probe.how(), why)),
        }
    }
    usable
}

/// One placement.
struct Stage<'a> {
    options: &'a Options,
    placement: Placement,
    clocks: &'a BTreeMap<Probe, f64>,
    cpus: &'a [u32],
}

impl Stage<'_> {
    fn run(&self, progress: &mut dyn FnMut(u64)) -> Result<Placed, Error> {
        let (tallies, moves) = if self.placement == Placement::IsMoved {
            let (period, seed) = (self.options.period, self.options.seed);
            while_moving(&[gettid()], self.cpus, period, seed, || self.runs(progress))?
        } else {
            (self.runs(progress), 0)
        };
        let clocks = tallies?.into_iter();
        Ok(Placed {
            placement: self.placement,
            moves,
            clocks: clocks
                .map(|(probe, tally)| tally.elapsed(probe, self.clocks[&probe]))
                .collect(),
        })
    }

    /// All clocks in every run, in random order, so that a bad second does not hit one of them.
    fn runs(&self, progress: &mut dyn FnMut(u64)) -> Result<BTreeMap<Probe, Tally>, Error> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.options.seed);
        let mut order: Vec<Probe> = self.clocks.keys().copied().collect();
        let mut tallies: BTreeMap<Probe, Tally> = BTreeMap::new();
        for run in 1..=self.options.runs {
            order.shuffle(&mut random);
            for probe in &order {
                let tally = tallies.entry(*probe).or_default();
                probe.with(Run { stage: self, tally })?;
            }
            progress(u64::from(run));
        }
        Ok(tallies)
    }
}

/// One run of one clock.
struct Run<'a> {
    stage: &'a Stage<'a>,
    tally: &'a mut Tally,
}

impl Visit for Run<'_> {
    type Outcome = Result<(), Error>;

    fn visit(self, read: impl Fn() -> u64 + Copy + Send + Sync) -> Result<(), Error> {
        let Self { stage, tally } = self;
        let options = stage.options;
        let moves_itself = stage.placement == Placement::MovesItself;
        tally.begin();
        for number in 1..=options.iterations {
            if moves_itself && number % options.move_every == 0 {
                let next = stage.cpus[(number / options.move_every) as usize % stage.cpus.len()];
                let first = read();
                let sum = additions(0, 1);
                go(next)?;
                let second = read();
                black_box(sum);
                tally.take([first, second], true);
            } else {
                let first = read();
                let sum = additions(0, 1);
                let second = read();
                black_box(sum);
                tally.take([first, second], false);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused() {
        for options in [
            Options {
                iterations: 0,
                ..Options::default()
            },
            Options {
                runs: 0,
                ..Options::default()
            },
            Options {
                move_every: 0,
                ..Options::default()
            },
        ] {
            assert!(run(&options, &mut |_, _| ()).is_err());
        }
        assert!(serde_json::from_str::<Options>(r#"{"rums": 3}"#).is_err());
    }
}
