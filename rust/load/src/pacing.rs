//! When events are due. Open loop: at instants fixed beforehand, whatever became of those before; an
//! event is timed from when it was due, so that what had to wait is not left out ("coordinated
//! omission"). Closed loop: when the one before has ended.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;

use crate::times::{Distribution, Times};

/// A rate or a number of seconds, for clap.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if number > 0.0 && number < 1e9 => Ok(number),
        _ => Err("a number above 0 and below 1e9".into()),
    }
}

/// How the instants of an open loop lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Spacing {
    /// All the same time apart.
    Constant,
    /// At random, as many independent users make them: exponential times apart.
    Poisson,
}

/// The instants at which events are due, as times since the start; without end.
pub struct Schedule {
    spacing: Spacing,
    gap_s: f64,
    random: SmallRng,
    done: u64,
    at_s: f64,
}

impl Schedule {
    /// rate: events per second, above 0. The same seed gives the same instants.
    pub fn new(rate: f64, spacing: Spacing, seed: u64) -> Self {
        Self {
            spacing,
            gap_s: 1.0 / rate,
            random: SmallRng::seed_from_u64(seed),
            done: 0,
            at_s: 0.0,
        }
    }
}

impl Iterator for Schedule {
    type Item = Duration;

    #[allow(clippy::cast_precision_loss)]
    fn next(&mut self) -> Option<Duration> {
        self.at_s = match self.spacing {
            // A product, not a sum: rounding must not make the rate drift.
            Spacing::Constant => self.done as f64 * self.gap_s,
            Spacing::Poisson => {
                let share: f64 = self.random.random();
                self.at_s - (1.0 - share).ln() * self.gap_s
            }
        };
        self.done += 1;
        Duration::try_from_secs_f64(self.at_s).ok()
    }
}

/// A schedule that threads share: whoever is free takes the next event.
pub struct Pacer {
    start: Instant,
    length: Duration,
    schedule: Mutex<Schedule>,
}

impl Pacer {
    pub fn new(start: Instant, length: Duration, schedule: Schedule) -> Self {
        Self {
            start,
            length,
            schedule: Mutex::new(schedule),
        }
    }

    /// When the next event is due; None: there is none before the end.
    pub fn next(&self) -> Option<Instant> {
        let mut schedule = self.schedule.lock().expect("no thread panics with it");
        let at = schedule.next().filter(|at| *at < self.length)?;
        Some(self.start + at)
    }
}

/// How late the generator itself was: events that somebody was waiting to start, and that started
/// later than they were due. What was late because all threads were still busy is `behind`: that is
/// the other side's doing, and part of the event's time.
pub struct Lateness {
    woken: Times,
    behind: u64,
}

impl Lateness {
    pub fn new() -> Self {
        Self {
            woken: Times::new(),
            behind: 0,
        }
    }

    /// Sleep until an event is due, and note how late the waking was.
    pub fn wait(&mut self, due: Instant) {
        let now = Instant::now();
        if now < due {
            std::thread::sleep(due - now);
            self.late(due.elapsed());
        } else {
            self.behind += 1;
        }
    }

    /// Note an event that starts so long after it was due, where somebody else did the waiting.
    pub fn late(&mut self, time: Duration) {
        self.woken.record(time);
    }

    pub fn add(&mut self, other: &Self) {
        self.woken.add(&other.woken);
        self.behind += other.behind;
    }

    pub fn summary(&self) -> LatenessSummary {
        LatenessSummary {
            woken: self.woken.distribution(),
            behind: self.behind,
        }
    }

    /// None, or why the figures are not to be used: of one event in a hundred that was waited for,
    /// the generator was later than the limit.
    pub fn complaint(&self, limit_s: f64) -> Option<String> {
        let late = self.woken.quantile(0.99);
        (late > limit_s).then(|| {
            format!("the generator was {late:.6} s late in 1 % of its events, over {limit_s} s")
        })
    }
}

/// The lateness, for the report.
#[derive(Debug, Serialize)]
pub struct LatenessSummary {
    /// How late the events that were waited for started.
    pub woken: Option<Distribution>,
    /// Events that were due while nobody was free.
    pub behind: u64,
}

/// Let this thread, and those that it makes, sleep to the nanosecond: Linux rounds by 50 µs else.
pub fn exact_timers() {
    // A kernel without it is only later, which is measured.
    let _ = nix::sys::prctl::set_timerslack(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_above_zero_are_rates() {
        assert!(positive("0.5").is_ok());
        for bad in ["0", "-1", "nan", "inf", "1e9", "x", ""] {
            assert!(positive(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn constant_instants_lie_on_a_grid_without_drift() {
        let schedule = Schedule::new(3.0, Spacing::Constant, 1);
        let last = schedule.take(3_000_001).last().unwrap();
        assert_eq!(last, Duration::from_secs(1_000_000));
    }

    #[test]
    fn poisson_instants_have_the_rate_and_the_spread_of_a_poisson_process() {
        let rate = 1000.0;
        let count = 200_000;
        let at: Vec<f64> = Schedule::new(rate, Spacing::Poisson, 7)
            .take(count)
            .map(|at| at.as_secs_f64())
            .collect();
        let gaps: Vec<f64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        #[allow(clippy::cast_precision_loss)]
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        #[allow(clippy::cast_precision_loss)]
        let square = gaps.iter().map(|gap| gap * gap).sum::<f64>() / gaps.len() as f64;
        // Exponential: mean 1/rate, mean square 2/rate². Five standard errors of 200,000.
        assert!((mean * rate - 1.0).abs() < 5.0 / (2e5f64).sqrt());
        assert!((square * rate * rate / 2.0 - 1.0).abs() < 5.0 * 5f64.sqrt() / (2e5f64).sqrt());
    }

    #[test]
    fn a_seed_gives_its_instants_again_and_another_gives_others() {
        let take = |seed| -> Vec<Duration> {
            Schedule::new(10.0, Spacing::Poisson, seed)
                .take(20)
                .collect()
        };
        assert_eq!(take(3), take(3));
        assert_ne!(take(3), take(4));
    }

    #[test]
    fn a_pacer_ends_at_its_length_and_hands_each_instant_out_once() {
        let start = Instant::now();
        let schedule = Schedule::new(100.0, Spacing::Constant, 1);
        let pacer = Pacer::new(start, Duration::from_secs(1), schedule);
        let due: Vec<Instant> = std::iter::from_fn(|| pacer.next()).collect();
        assert_eq!(due.len(), 100);
        assert!(due.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn what_was_due_before_anybody_was_free_is_behind_not_late() {
        let mut lateness = Lateness::new();
        lateness.wait(Instant::now().checked_sub(Duration::from_secs(1)).unwrap());
        assert_eq!(lateness.summary().behind, 1);
        assert!(lateness.summary().woken.is_none());
        assert!(lateness.complaint(0.0).is_none());
        lateness.wait(Instant::now() + Duration::from_millis(1));
        assert!(lateness.complaint(0.0).is_some());
        assert!(lateness.complaint(1e6).is_none());
    }
}
