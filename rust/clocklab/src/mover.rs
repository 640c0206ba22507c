//! Forced migration: another thread puts threads on other cores while they run.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::unistd::Pid;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::error::{Error, need};
use crate::machine::put;

/// How long a thread is left where it is: evenly distributed in this range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Period {
    /// At least, in nanoseconds.
    pub least_ns: u64,
    /// At most, in nanoseconds, but for what the mover itself waits for a core.
    pub most_ns: u64,
}

impl Default for Period {
    fn default() -> Self {
        Self {
            least_ns: 50_000,
            most_ns: 1_000_000,
        }
    }
}

/// The mover notices the end only when it has waited.
const LONGEST_NS: u64 = 1_000_000_000;

impl Period {
    pub(crate) fn check(self) -> Result<(), Error> {
        let longest = self.most_ns <= LONGEST_NS;
        let right = 0 < self.least_ns && self.least_ns <= self.most_ns && longest;
        need(right, "period", "from 1 ns to 1 s")
    }
}

/// Does `work` while another thread moves `threads` in turn, each to a core that it was not put on
/// last. Returns what came of it, and how often a thread was moved.
pub fn while_moving<T>(
    threads: &[Pid],
    cpus: &[u32],
    period: Period,
    seed: u64,
    work: impl FnOnce() -> T,
) -> Result<(T, u64), Error> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let moving = scope.spawn(|| keep_moving(threads, cpus, period, seed, &over));
        let stop = Stop(&over);
        let outcome = work();
        drop(stop);
        let moves = moving.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        Ok((outcome, moves))
    })
}

/// Says that it is over, also when the work panics.
pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn keep_moving(
    threads: &[Pid],
    cpus: &[u32],
    period: Period,
    seed: u64,
    over: &AtomicBool,
) -> Result<u64, Error> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut places = vec![0; threads.len()];
    let mut moves = 0;
    while !over.load(Ordering::Relaxed) {
        for (thread, place) in threads.iter().zip(&mut places) {
            *place = other(*place, cpus.len(), &mut random);
            put(*thread, cpus[*place])?;
            moves += 1;
        }
        let wait = random.random_range(period.least_ns..=period.most_ns);
        thread::sleep(Duration::from_nanos(wait));
    }
    Ok(moves)
}

/// One of `count` places that is not this one; there must be two.
fn other(place: usize, count: usize, random: &mut impl Rng) -> usize {
    (place + random.random_range(1..count)) % count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_never_stays() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut visits = [0; 3];
        let mut place = 0;
        for _ in 0..300 {
            let next = other(place, 3, &mut random);
            assert_ne!(next, place);
            visits[next] += 1;
            place = next;
        }
        assert!(visits.iter().all(|times| *times > 50), "{visits:?}");
    }

    #[test]
    fn a_period_is_a_range() {
        assert!(Period::default().check().is_ok());
        let empty = Period {
            least_ns: 2,
            most_ns: 1,
        };
        assert!(empty.check().is_err());
    }
}
