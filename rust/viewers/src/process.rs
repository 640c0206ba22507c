//! A shard as a process: told what to do on standard input, and telling on standard output.
//!
//! The parent sends an [`Order`]; `ready` is the answer. Then it sends the instant of the start, and
//! gets what was [`Statistics`]. Each is a line of JSON. The end of the input ends the run.

use std::fs::OpenOptions;
use std::io::{self, BufRead};
use std::path::PathBuf;
use std::process::ExitCode;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::arrivals::schedule;
use crate::config::{Config, Timing};
use crate::shard::{ENDINGS, Part, Shard};
use crate::sys;
use ullage_common::failure::{self, Failure, print_json};
use ullage_common::shared_clock::{SharedClock, boot_id};
use ullage_common::signals;

pub const READY: &str = "ready\n";

#[derive(Deserialize, Serialize)]
pub struct Order {
    pub config: Config,
    pub index: u32,
    pub of: u32,
    pub records: Option<PathBuf>,
    pub clock: SharedClock,
}

#[derive(Deserialize, Serialize)]
pub struct Start {
    pub at_ns: u64,
}

pub fn command() -> Result<ExitCode, Failure> {
    // Else its name would be `exe`, by which it was started.
    let _ = nix::sys::prctl::set_name(c"viewers");
    let signals = signals::descriptor(&ENDINGS)?;
    let Some(order) = read_message::<Order>()? else {
        return Ok(ExitCode::from(failure::INTERRUPTED));
    };
    share(&order.clock)?;
    let cpu = order.config.timing.cpus.iter().cycle();
    settle(
        &order.config.timing,
        cpu.skip(order.index as usize).take(1).next().copied(),
    )?;
    let schedule = schedule(&order.config.arrivals)?;
    let create = |path: &PathBuf| {
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        file.map_err(|error| Failure::new(&path.display().to_string(), error))
    };
    let records = order.records.as_ref().map(create).transpose()?;
    ullage_common::print(READY.trim_end()).map_err(Failure::output)?;
    let Some(Start { at_ns }) = read_message()? else {
        return Ok(ExitCode::from(failure::INTERRUPTED));
    };
    let part = Part {
        index: order.index,
        of: order.of,
        start_ns: at_ns,
    };
    let statistics = Shard::new(&order.config, &part, schedule, records)
        .and_then(|shard| shard.run(&signals))
        .map_err(|error| Failure::new("the event loop", error))?;
    print_json(&statistics)?;
    Ok(ExitCode::SUCCESS)
}

/// The next line of the input; none at its end.
fn read_message<T: for<'de> Deserialize<'de>>() -> Result<Option<T>, Failure> {
    let mut line = String::new();
    let count = io::stdin().lock().read_line(&mut line);
    match count.map_err(|error| Failure::new("orders", error))? {
        0 => Ok(None),
        _ => serde_json::from_str(&line).map_err(|error| Failure::new("orders", error)),
    }
}

/// Goes over to another process's clock.
pub fn share(clock: &SharedClock) -> Result<(), Failure> {
    if clock.adopt() {
        return Ok(());
    }
    Err(Failure::input(
        "`clock` is not of a process on this kernel that reads the same counter".into(),
    ))
}

pub fn own_clock() -> SharedClock {
    SharedClock::own(boot_id().unwrap_or_default())
}

/// Sets its CPU, the accuracy of its sleeps, and its priority.
fn settle(timing: &Timing, cpu: Option<u16>) -> Result<(), Failure> {
    // A kernel without it wakes us later, which is measured.
    let _ = nix::sys::prctl::set_timerslack(1);
    // Nobody watches when the parent is gone.
    let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM);
    if let Some(cpu) = cpu {
        let mut set = CpuSet::new();
        set.set(usize::from(cpu))
            .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
            .map_err(|error| Failure::input(format!("`timing.cpus`: CPU {cpu}: {error}")))?;
    }
    if timing.realtime {
        sys::realtime().map_err(|error| {
            Failure::input(format!(
                "`timing.realtime` needs root or CAP_SYS_NICE: {error}"
            ))
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_shared_on_one_kernel_only() {
        let clock = own_clock();
        share(&clock).expect("one's own");
        let strange = |boot_id: &str, line: &str| SharedClock {
            boot_id: boot_id.into(),
            line: line.into(),
        };
        for bad in [
            strange("", &clock.line),
            strange(&clock.boot_id, ""),
            strange(&clock.boot_id, "xy"),
            strange(&clock.boot_id, &clock.line[1..]),
            strange(&clock.boot_id, "ééé"),
        ] {
            assert!(share(&bad).is_err(), "{bad:?}");
        }
    }
}
