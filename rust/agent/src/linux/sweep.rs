//! `sweep`: ends what ended programs have left behind, so that no trial runs beside an earlier one.

use std::collections::HashSet;
use std::time::Duration;

use super::children::Children;
use super::descendants;
use super::sys;
use crate::protocol::{Code, Failure};

/// What is killed is gone within milliseconds, unless it is stuck in the kernel.
const PATIENCE: Duration = Duration::from_secs(5);

/// Kills the strays and waits until they are reaped; how many there were.
pub fn sweep(children: &Children) -> Result<usize, Failure> {
    let mut killed = HashSet::new();
    let round = || {
        let left = children.kill_strays()?;
        killed.extend(left.iter().filter(|stray| !stray.ended).map(|it| it.pid));
        Ok(left.is_empty())
    };
    match descendants::until_gone(Some(PATIENCE), round) {
        Ok(true) => Ok(killed.len()),
        Ok(false) => Err(Failure::new(
            Code::Io,
            format!(
                "sweep: killed processes have not ended within {} s",
                PATIENCE.as_secs()
            ),
        )),
        Err(error) => Err(Failure::new(
            Code::Io,
            format!("sweep: /proc: {}", sys::text(&error)),
        )),
    }
}
