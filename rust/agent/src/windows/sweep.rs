//! `sweep`: ends what ended programs have left behind, so that no trial runs beside an earlier one.

use std::time::{Duration, Instant};

use super::children::Children;
use super::sys;
use crate::protocol::{Code, Failure};

/// What is killed is gone within milliseconds, unless it is stuck in the kernel.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);

/// Kills what is left in the jobs of ended programs, and waits until it is gone; how many there were.
pub fn sweep(children: &Children) -> Result<usize, Failure> {
    let failed =
        |error: std::io::Error| Failure::new(Code::Io, format!("sweep: {}", sys::text(&error)));
    let jobs = children.take_ended();
    let mut killed = 0;
    for job in &jobs {
        killed += job.pids().map_err(failed)?.len();
        job.kill().map_err(failed)?;
    }
    let began = Instant::now();
    for job in &jobs {
        while !job.pids().map_err(failed)?.is_empty() {
            if began.elapsed() > PATIENCE {
                let seconds = PATIENCE.as_secs();
                let message = format!("sweep: killed processes have not ended within {seconds} s");
                return Err(Failure::new(Code::Io, message));
            }
            std::thread::sleep(PAUSE);
        }
    }
    Ok(killed)
}
