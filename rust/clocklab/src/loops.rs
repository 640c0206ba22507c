//! How long loops of a known number of instructions take, by RVEC and, around the same
//! loop, by `CLOCK_MONOTONIC_RAW` and by a clock with an oscillator of its own, where there is one.

use std::path::Path;

use serde::{Deserialize, Serialize};
use ullage_clock::{Clock, Raw, Source};

use crate::error::need;
use crate::external::{Device, Surroundings, find};
use crate::machine::{Home, go};
use crate::work::PER_TURN;
use crate::{Absent, Error, External, Histogram, Machine, Progress, Summary};

mod rate;
mod samples;

pub use rate::Apart;
use rate::Meeting;
use samples::measure;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Instructions of each loop: multiples of 10.
    pub instructions: Vec<u64>,
    /// How often each loop is run, 1 to 10^7.
    pub samples: u32,
    /// How many durations are handed out as they came, the first ones; all are in the histograms.
    pub keep: u32,
    /// Bins of the histograms from a value to ten times as much, 1 to 1000.
    pub bins_per_decade: u32,
    /// Whether to look for an external clock.
    pub external: bool,
    /// Whether the thread is kept on one core.
    pub pinned: bool,
    /// Stops after so many seconds, and reports what it has.
    pub cap_s: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            instructions: vec![10_000, 100_000, 1_000_000],
            samples: 10_000,
            keep: 10_000,
            bins_per_decade: 50,
            external: true,
            pinned: true,
            cap_s: 600,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub machine: Machine,
    /// The clock beside RVEC, if there is one.
    pub external: Option<External>,
    /// How RVEC's rate differs from the external clock's, over the whole run.
    pub external_apart: Option<Apart>,
    /// What `CLOCK_MONOTONIC_RAW` is worth as a witness here.
    pub raw_is: String,
    /// How RVEC's rate differs from that of `CLOCK_MONOTONIC_RAW`, over the whole run.
    pub raw_apart: Option<Apart>,
    /// The loops, first an empty one: what the reads themselves take.
    pub loops: Vec<Loop>,
    /// What could not be measured.
    pub absent: Vec<Absent>,
    /// The cap came first: there are fewer samples than asked for.
    pub capped: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loop {
    /// How many instructions; not counted are the few that load its registers.
    pub instructions: u64,
    /// By [`Clock::now`], next to the loop.
    pub rvec: Timed,
    /// By `CLOCK_MONOTONIC_RAW`, around RVEC's reads.
    pub raw: Timed,
    /// By the external clock, around both.
    pub external: Option<Timed>,
}

/// The durations of one loop by one clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    pub durations: Summary,
    pub histogram: Histogram,
    /// The first of them in nanoseconds, in the order of time.
    pub first_ns: Vec<f64>,
}

/// Runs the loops: 6 s with all defaults.
///
/// # Errors
/// An option out of range, a thread that may not be pinned, or an external clock that fails.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Outcome, Error> {
    check(options)?;
    let machine = Machine::look()?;
    let _home = Home::remember()?;
    if options.pinned {
        go(machine.cpus[0])?;
    }
    let mut absent = Vec::new();
    let (external, mut device) = external(options, &machine, &mut absent).unzip();
    let begin = meetings(device.as_mut())?;
    let samples = measure(options, device.as_mut(), progress)?;
    let end = meetings(device.as_mut())?;
    let tick = device.as_ref().map_or(1.0, Device::ns_per_tick);
    Ok(Outcome {
        raw_is: raw_is(machine.clocksource.as_deref()),
        machine,
        external,
        external_apart: begin
            .1
            .zip(end.1)
            .and_then(|(begin, end)| Apart::between(begin, end, tick)),
        raw_apart: Apart::between(begin.0, end.0, 1.0),
        capped: samples[0].rvec.len() < options.samples as usize,
        loops: samples
            .into_iter()
            .filter_map(|samples| samples.finish(options, tick))
            .collect(),
        absent,
    })
}

fn external(
    options: &Options,
    machine: &Machine,
    absent: &mut Vec<Absent>,
) -> Option<(External, Device)> {
    if !options.external {
        return None;
    }
    let by_kernel = Clock::get().promise().source == Source::MonotonicRaw;
    let surroundings = Surroundings {
        dev: Path::new("/dev"),
        sys: Path::new("/sys"),
        virtual_machine: machine.virtual_machine,
        rvec_by: machine.clocksource.as_deref().filter(|_| by_kernel),
    };
    find(&surroundings)
        .map_err(|missing| absent.push(missing))
        .ok()
}

/// All durations are kept until the end.
const MOST: u32 = 10_000_000;

fn check(options: &Options) -> Result<(), Error> {
    let whole = |count: &u64| *count >= PER_TURN && count.is_multiple_of(PER_TURN);
    need(
        options.instructions.iter().all(whole),
        "instructions",
        "multiples of 10 from 10 on",
    )?;
    need(
        (1..=MOST).contains(&options.samples),
        "samples",
        "1 to 10^7",
    )?;
    need(
        (1..=1000).contains(&options.bins_per_decade),
        "bins_per_decade",
        "1 to 1000",
    )?;
    need(options.cap_s > 0, "cap_s", "1 or more")
}

/// RVEC meets `CLOCK_MONOTONIC_RAW` and the device.
fn meetings(device: Option<&mut Device>) -> Result<(Meeting, Option<Meeting>), Error> {
    let raw = Meeting::with(&mut || Ok(Raw::ns()))?;
    let external = device
        .map(|device| Meeting::with(&mut || device.read()))
        .transpose()?;
    Ok((raw, external))
}

/// What the kernel makes its clock of (the names of `drivers/clocksource` and `arch/*/kernel`).
fn raw_is(clocksource: Option<&str>) -> String {
    const BY_THE_COUNTER: [&str; 5] = [
        "tsc",
        "tsc-early",
        "kvm-clock",
        "hyperv_clocksource_tsc_page",
        "arch_sys_counter",
    ];
    match clocksource {
        Some(name) if BY_THE_COUNTER.contains(&name) => {
            format!("same counter, not independent (clock source {name})")
        }
        Some(name) => format!("clock source {name}"),
        None => "the kernel does not say its clock source".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_clock_is_no_witness_of_its_own_counter() {
        assert!(raw_is(Some("tsc")).starts_with("same counter, not independent"));
        assert_eq!(raw_is(Some("hpet")), "clock source hpet");
        assert!(raw_is(None).contains("does not say"));
    }

    #[test]
    fn nonsense_is_refused() {
        for instructions in [0, 5, 10_001] {
            let options = Options {
                instructions: vec![instructions],
                ..Options::default()
            };
            assert!(run(&options, &mut |_, _| ()).is_err());
        }
    }
}
