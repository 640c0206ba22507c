//! Whether truth is inside the bounds: the hard one always, the statistical one in 99.9 %.

use std::thread;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use ullage_clock::Clock;
use ullage_clock::rgap::{Drift, Fix, Global};

use super::peer::{By, Peers};
use super::{Options, Oscillator};
use crate::Error;
use crate::stats::Summary;

/// How long each oscillator is followed.
const EPOCH_NS: u64 = 5_000_000_000;
/// A rate is estimated over at least this.
const BASELINE_NS: u64 = 1_000_000_000;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// Right after one synchronisation.
    pub now: Case,
    /// After one synchronisation, at random ages: no rate is known.
    pub once: Case,
    /// After two, 1 to 5 s apart, at random ages after the second.
    pub rated: Case,
    /// Synchronisations in which nobody had to be woken up, so that the statistical bound could be
    /// less than the hard one.
    pub awake: u64,
}

/// Errors and bounds, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// How far off the global time was, without sign.
    pub error: Summary,
    pub bound: Summary,
    pub hard: Summary,
    /// How often truth was outside of the statistical bound.
    pub outside_bound: u64,
    /// And of the hard one.
    pub outside_hard: u64,
    /// The median of the statistical bound ÷ the 99.9 % quantile of the error.
    pub tightness: f64,
}

/// One look at a global clock: how wrong, and what was said; in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Look {
    error: u64,
    bound: u64,
    hard: u64,
}

/// What was seen of one way.
#[derive(Default)]
struct Samples {
    /// Fixes of the present oscillator, with their instants in true nanoseconds.
    fixes: Vec<(u64, Fix)>,
    now: Vec<Look>,
    once: Vec<Look>,
    rated: Vec<Look>,
    awake: u64,
}

pub(super) fn measure(peers: &mut Peers<'_>, options: &Options) -> Result<By<Coverage>, Error> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(options.seed);
    let repetitions = options
        .synchronisations
        .div_ceil(options.oscillators.max(1));
    let pause = Duration::from_nanos(EPOCH_NS / u64::from(repetitions.max(1)));
    let mut samples = By {
        udp: Samples::default(),
        memory: Samples::default(),
    };
    for _ in 0..options.oscillators {
        let start = Clock::get().ordered();
        let (skew, wander) = (options.skew_ppb, options.wander_ppb);
        let oscillator = Oscillator::any(start, skew, wander, &mut random);
        for _ in 0..repetitions {
            let By { udp, memory } = peers.once(&oscillator)?;
            for (samples, (true_ns, outcome)) in
                [(&mut samples.udp, udp), (&mut samples.memory, memory)]
            {
                samples.awake += u64::from(outcome.best.standing().awake);
                samples.fixes.push((true_ns, outcome.fix));
            }
            thread::sleep(pause);
        }
        for samples in [&mut samples.udp, &mut samples.memory] {
            judge(samples, &oscillator, options, &mut random)?;
        }
    }
    samples.map_each(|samples| {
        Ok(Coverage {
            now: case(&samples.now)?,
            once: case(&samples.once)?,
            rated: case(&samples.rated)?,
            awake: samples.awake,
        })
    })
}

/// Holds what was learned of one oscillator against it.
fn judge(
    samples: &mut Samples,
    oscillator: &Oscillator,
    options: &Options,
    random: &mut impl Rng,
) -> Result<(), Error> {
    let drift = Drift {
        wander_ppb: 2 * options.wander_ppb,
        baseline_ns: BASELINE_NS,
        ..Drift::USUAL
    };
    let fixes = std::mem::take(&mut samples.fixes);
    for (true_ns, fix) in &fixes {
        let age = random.random_range(0..=options.age_ns);
        let global = Global::once(fix, &drift);
        samples.now.push(look(&global, oscillator, *true_ns));
        samples.once.push(look(&global, oscillator, *true_ns + age));
        let before = |it: &&(u64, Fix)| it.0 + BASELINE_NS + 10_000_000 < *true_ns;
        let earlier = fixes.iter().filter(before).count();
        if earlier > 0 {
            let (_, first) = fixes[random.random_range(0..earlier)];
            let global = Global::fit(&[first, *fix], &drift).map_err(contradiction)?;
            samples
                .rated
                .push(look(&global, oscillator, *true_ns + age));
        }
    }
    Ok(())
}

fn contradiction(it: ullage_clock::rgap::Contradiction) -> Error {
    Error::system("fit a rate", std::io::Error::other(it))
}

fn look(global: &Global, oscillator: &Oscillator, true_ns: u64) -> Look {
    let reading = global.at(oscillator.at(true_ns));
    Look {
        error: reading.ns.abs_diff(true_ns),
        bound: reading.bound_ns,
        hard: reading.hard_ns,
    }
}

fn case(looks: &[Look]) -> Result<Case, Error> {
    let summary = |of: &dyn Fn(&Look) -> u64| {
        let mut numbers: Vec<i64> = looks.iter().map(|it| of(it).cast_signed()).collect();
        Summary::of(&mut numbers, 1.0).ok_or(Error::Option {
            name: "synchronisations",
            allowed: "enough for two of an oscillator to be a second apart",
        })
    };
    let (error, bound) = (summary(&|it| it.error)?, summary(&|it| it.bound)?);
    let outside = |of: &dyn Fn(&Look) -> u64| {
        let out = looks.iter().filter(|it| it.error > of(it));
        out.count() as u64
    };
    Ok(Case {
        tightness: bound.p50_ns / error.p999_ns,
        outside_bound: outside(&|it| it.bound),
        outside_hard: outside(&|it| it.hard),
        hard: summary(&|it| it.hard)?,
        error,
        bound,
    })
}
