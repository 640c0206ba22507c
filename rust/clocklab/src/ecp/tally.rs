//! What is counted of one clock.

use serde::{Deserialize, Serialize};

use crate::machine::current_cpu;
use crate::{Probe, Summary};

/// The elapsed times of one clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Elapsed {
    pub clock: Probe,
    pub how: String,
    /// Durations of the additions alone; none if the thread moved itself in every iteration.
    pub durations: Option<Summary>,
    /// Durations of the additions and the thread's own move to another core.
    pub with_move: Option<Summary>,
    /// Durations that are zero: not precise.
    pub zero: u64,
    /// Durations that are negative.
    pub backward: u64,
    /// Successive reads of a run that were compared.
    pub steps: u64,
    /// Of these, how often a read equals the one before.
    pub equal_steps: u64,
    /// Of these, how often it is less.
    pub backward_steps: u64,
    /// How often the thread was on another core after an iteration than after the last one.
    pub migrations: u64,
}

/// What is counted while it runs.
#[derive(Default)]
pub struct Tally {
    last: Option<u64>,
    cpu: i32,
    durations: Vec<i64>,
    with_move: Vec<i64>,
    steps: u64,
    equal_steps: u64,
    backward_steps: u64,
    migrations: u64,
}

impl Tally {
    pub fn begin(&mut self) {
        (self.last, self.cpu) = (None, current_cpu());
    }

    /// Two reads, with the thread's own move in between or without.
    #[inline]
    pub fn take(&mut self, [first, second]: [u64; 2], moved: bool) {
        if let Some(last) = self.last {
            self.step(last, first);
        }
        self.step(first, second);
        self.last = Some(second);
        let duration = second.wrapping_sub(first).cast_signed();
        if moved {
            self.with_move.push(duration);
        } else {
            self.durations.push(duration);
        }
        let cpu = current_cpu();
        self.migrations += u64::from(cpu != self.cpu);
        self.cpu = cpu;
    }

    fn step(&mut self, before: u64, after: u64) {
        self.steps += 1;
        self.equal_steps += u64::from(after == before);
        self.backward_steps += u64::from(after < before);
    }

    pub fn elapsed(mut self, clock: Probe, ns_per_tick: f64) -> Elapsed {
        let all = || self.durations.iter().chain(&self.with_move);
        let zero = all().filter(|duration| **duration == 0).count() as u64;
        let backward = all().filter(|duration| **duration < 0).count() as u64;
        Elapsed {
            clock,
            how: clock.how().into(),
            durations: Summary::of(&mut self.durations, ns_per_tick),
            with_move: Summary::of(&mut self.with_move, ns_per_tick),
            zero,
            backward,
            steps: self.steps,
            equal_steps: self.equal_steps,
            backward_steps: self.backward_steps,
            migrations: self.migrations,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted() {
        let mut tally = Tally::default();
        tally.begin();
        tally.take([10, 12], false);
        tally.take([12, 12], false);
        tally.take([11, 9], true);
        assert_eq!(
            (tally.steps, tally.equal_steps, tally.backward_steps),
            (5, 2, 2)
        );
        let elapsed = tally.elapsed(Probe::Rvec, 1.0);
        assert_eq!((elapsed.zero, elapsed.backward), (1, 1));
        assert_eq!(
            (
                elapsed.durations.expect("two").count,
                elapsed.with_move.expect("one").count
            ),
            (2, 1)
        );
    }
}
