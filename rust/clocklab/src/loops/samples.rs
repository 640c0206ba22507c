//! The loops as they are run.

use std::time::{Duration, Instant};

use ullage_clock::{Clock, Raw};

use super::{Loop, Options, Timed};
use crate::external::Device;
use crate::work::{PER_TURN, turns};
use crate::{Error, Histogram, Progress, Summary};

/// The durations of one loop, in ticks of each clock.
pub struct Samples {
    turns: u64,
    pub rvec: Vec<i64>,
    raw: Vec<i64>,
    external: Option<Vec<i64>>,
}

/// All loops in turn, so that a bad second does not hit one of them.
pub fn measure(
    options: &Options,
    mut device: Option<&mut Device>,
    progress: &mut Progress,
) -> Result<Vec<Samples>, Error> {
    let deadline = Instant::now() + Duration::from_secs(options.cap_s);
    let mut all: Vec<Samples> = [0]
        .iter()
        .chain(&options.instructions)
        .map(|instructions| Samples {
            turns: instructions / PER_TURN,
            rvec: Vec::new(),
            raw: Vec::new(),
            external: device.is_some().then(Vec::new),
        })
        .collect();
    for number in 1..=options.samples {
        for samples in &mut all {
            samples.take(device.as_deref_mut())?;
        }
        if number % 100 == 0 || number == options.samples {
            progress(u64::from(number), u64::from(options.samples));
        }
        if Instant::now() >= deadline {
            break;
        }
    }
    Ok(all)
}

impl Samples {
    /// Runs the loop once: the dearest reads outside, RVEC's next to the loop.
    fn take(&mut self, mut device: Option<&mut Device>) -> Result<(), Error> {
        let clock = Clock::get();
        let mut outer = || device.as_mut().map(|device| device.read()).transpose();
        let before = outer()?;
        let raw = Raw::ns();
        let rvec = clock.now();
        if self.turns > 0 {
            turns(self.turns);
        }
        let rvec = clock.now().wrapping_sub(rvec);
        let raw = Raw::ns().wrapping_sub(raw);
        let after = outer()?;
        self.rvec.push(rvec.cast_signed());
        self.raw.push(raw.cast_signed());
        if let (Some(all), Some(before), Some(after)) = (&mut self.external, before, after) {
            all.push(after.wrapping_sub(before).cast_signed());
        }
        Ok(())
    }

    /// None if nothing was measured.
    pub fn finish(self, options: &Options, tick: f64) -> Option<Loop> {
        Some(Loop {
            instructions: self.turns * PER_TURN,
            rvec: Timed::of(self.rvec, options, 1.0)?,
            raw: Timed::of(self.raw, options, 1.0)?,
            external: self.external.and_then(|all| Timed::of(all, options, tick)),
        })
    }
}

impl Timed {
    #[expect(clippy::cast_precision_loss, reason = "far less than 2^53")]
    fn of(mut ticks: Vec<i64>, options: &Options, ns_per_tick: f64) -> Option<Self> {
        let ns = || ticks.iter().map(|ticks| *ticks as f64 * ns_per_tick);
        let first_ns = ns().take(options.keep as usize).collect();
        let histogram = Histogram::of(ns(), options.bins_per_decade);
        Some(Self {
            durations: Summary::of(&mut ticks, ns_per_tick)?,
            histogram,
            first_ns,
        })
    }
}
