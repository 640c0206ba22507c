//! The errors at the ages that clocks.md measured others at, at its skew of 11.25 ppm.

use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use ullage_clock::Clock;
use ullage_clock::rgap::{Contradiction, Correction, Drift, Fix, Global};

use super::peer::{By, Peers};
use super::{Options, Oscillator};
use crate::Error;
use crate::stats::Summary;

const SKEW_PPB: i64 = 11_250;
const SECOND: u64 = 1_000_000_000;
/// Between two synchronisations.
const PAUSE: Duration = Duration::from_millis(20);
/// Instants that a correction is held against.
const PLACES: u64 = 16;

/// Errors without sign, in nanoseconds; none where the oscillator was not followed for long enough.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ages {
    /// Right after one synchronisation.
    pub at_once: Option<Summary>,
    /// 10 s after it.
    pub one_shot_10_s: Option<Summary>,
    /// 10 s after the second of two that were 10 s apart.
    pub rated_10_s: Option<Summary>,
    /// How long these two took together.
    pub traffic: Option<Summary>,
    /// Between two that were 60 s apart, the worst of 16 places, corrected afterwards.
    pub corrected_60_s: Option<Summary>,
}

struct Sample {
    true_ns: u64,
    took_ns: u64,
    fix: Fix,
}

pub(super) fn measure(peers: &mut Peers<'_>, options: &Options) -> Result<By<Ages>, Error> {
    let start = Clock::get().ordered();
    let oscillator = Oscillator::steady(start, SKEW_PPB);
    let mut samples = By {
        udp: Vec::new(),
        memory: Vec::new(),
    };
    while Clock::get().ordered() - start < options.follow_ns {
        let By { udp, memory } = peers.once(&oscillator)?;
        for (samples, (true_ns, outcome)) in
            [(&mut samples.udp, udp), (&mut samples.memory, memory)]
        {
            samples.push(Sample {
                true_ns,
                took_ns: outcome.took_ns,
                fix: outcome.fix,
            });
        }
        thread::sleep(PAUSE);
    }
    samples.map_each(|samples| judge(&samples, &oscillator))
}

fn judge(samples: &[Sample], oscillator: &Oscillator) -> Result<Ages, Error> {
    let all = || samples.iter();
    let at_once = all().map(|it| off(&Global::once(&it.fix, &DRIFT), oscillator, it.true_ns));
    let one_shot = all().map(|it| {
        off(
            &Global::once(&it.fix, &DRIFT),
            oscillator,
            it.true_ns + 10 * SECOND,
        )
    });
    let rated = pairs(samples, 10 * SECOND).map(|[first, last]| {
        let global = Global::fit(&[first.fix, last.fix], &DRIFT)?;
        Ok(off(&global, oscillator, last.true_ns + 10 * SECOND))
    });
    let traffic = pairs(samples, 10 * SECOND).map(|[first, last]| first.took_ns + last.took_ns);
    let corrected = pairs(samples, 60 * SECOND).map(|[first, last]| {
        let correction = Correction::new(&first.fix, &last.fix, &DRIFT)?;
        let step = (last.true_ns - first.true_ns) / PLACES;
        let places = (0..=PLACES).map(|place| first.true_ns + place * step);
        let errors = places.map(|place| correction.at(oscillator.at(place)).ns.abs_diff(place));
        Ok(errors.max().unwrap_or(0))
    });
    Ok(Ages {
        at_once: summary(at_once.collect()),
        one_shot_10_s: summary(one_shot.collect()),
        rated_10_s: summary(whole(rated)?),
        traffic: summary(traffic.collect()),
        corrected_60_s: summary(whole(corrected)?),
    })
}

const DRIFT: Drift = Drift::USUAL;

fn off(global: &Global, oscillator: &Oscillator, true_ns: u64) -> u64 {
    global.at(oscillator.at(true_ns)).ns.abs_diff(true_ns)
}

/// Each with the first that is at least so much later.
fn pairs(samples: &[Sample], apart_ns: u64) -> impl Iterator<Item = [&Sample; 2]> {
    samples.iter().filter_map(move |first| {
        let later = samples.partition_point(|it| it.true_ns < first.true_ns + apart_ns);
        samples.get(later).map(|last| [first, last])
    })
}

fn whole(errors: impl Iterator<Item = Result<u64, Contradiction>>) -> Result<Vec<u64>, Error> {
    let errors: Result<Vec<u64>, Contradiction> = errors.collect();
    errors.map_err(|it| Error::system("fit a rate", std::io::Error::other(it)))
}

fn summary(numbers: Vec<u64>) -> Option<Summary> {
    let mut numbers: Vec<i64> = numbers.into_iter().map(u64::cast_signed).collect();
    Summary::of(&mut numbers, 1.0)
}
