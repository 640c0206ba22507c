//! `sweep`: ends what ended programs have left behind, so that no trial runs beside an earlier one.

use std::time::Instant;

use super::children::Children;
use super::ending::{PATIENCE, PAUSE};
use super::sys;
use crate::protocol::{Code, Failure};

/// Kills what is left in the jobs of ended programs until it is gone; how many there were. What does not
/// go is there for the next sweep.
pub fn sweep(children: &Children) -> Result<usize, Failure> {
    let mut jobs = children.take_ended();
    let killed = jobs.iter().filter_map(|job| job.pids().ok());
    let killed = killed.map(|pids| pids.len()).sum();
    let began = Instant::now();
    loop {
        let mut wrong = None;
        // Again each time: who was being born when the others were killed may have come since.
        jobs.retain(|job| match job.kill().and_then(|()| job.pids()) {
            Ok(pids) => !pids.is_empty(),
            Err(error) => {
                wrong = Some(sys::text(&error));
                true
            }
        });
        if jobs.is_empty() {
            return Ok(killed);
        }
        if began.elapsed() > PATIENCE {
            children.put_back(jobs);
            let seconds = PATIENCE.as_secs();
            let late = format!("killed processes have not ended within {seconds} s");
            let message = format!("sweep: {}", wrong.unwrap_or(late));
            return Err(Failure::new(Code::Io, message));
        }
        std::thread::sleep(PAUSE);
    }
}
