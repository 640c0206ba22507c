//! What another core has passed on, against a read that follows.

use std::hint::spin_loop;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::{Options, deadline};
use crate::ecp::usable;
use crate::machine::go;
use crate::probe::Visit;
use crate::{Absent, Error, Probe};

/// What was found of one clock across cores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Across {
    pub clock: Probe,
    pub how: String,
    /// Cores that took part: each compares with what the next one publishes.
    pub cores: u64,
    /// Comparisons with a value that was new since the last one.
    pub comparisons: u64,
    /// Comparisons with the same value once more, since the other core had published no other.
    pub repeated: u64,
    /// Own reads that are less than the value seen before.
    pub backward: u64,
    /// Own reads that equal it.
    pub equal: u64,
    /// The furthest that one was back, in ticks of the clock.
    pub worst_ticks: u64,
    /// The same in nanoseconds, rounded up.
    pub worst_ns: u64,
    /// The cap came first: there are fewer comparisons than asked for.
    pub capped: bool,
}

/// Comparisons of each core in a batch, repeated ones as well: some tens of milliseconds.
const BATCH: u64 = 500_000;
const LEAST: u64 = 1_000;

pub fn run(
    options: &Options,
    cpus: &[u32],
    absent: &mut Vec<Absent>,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Across>, Error> {
    if cpus.len() < 2 {
        absent.push(Absent::new("across", "this thread may use one core only"));
        return Ok(Vec::new());
    }
    let clocks = usable(&options.clocks, absent);
    let cores = cpus.len() as u64;
    let mut comparisons: Vec<(Across, f64)> = clocks
        .iter()
        .map(|(clock, tick)| (nothing(*clock, cores), *tick))
        .collect();
    let deadline = deadline(options);
    let lacks = |across: &Across| options.comparisons.saturating_sub(across.comparisons);
    // In turn, so that all have the same conditions.
    while comparisons.iter().any(|(across, _)| lacks(across) > 0) && Instant::now() < deadline {
        for (across, _) in &mut comparisons {
            let reads = lacks(across).div_ceil(cores).clamp(LEAST, BATCH);
            add(across, &across.clock.with(Batch { cpus, reads })?);
        }
        let done = comparisons
            .iter()
            .map(|(across, _)| across.comparisons.min(options.comparisons));
        progress(done.sum());
    }
    let finish = |(mut across, tick): (Across, f64)| {
        across.capped = lacks(&across) > 0;
        across.worst_ns = nanoseconds(across.worst_ticks, tick);
        across
    };
    Ok(comparisons.into_iter().map(finish).collect())
}

fn nothing(clock: Probe, cores: u64) -> Across {
    Across {
        clock,
        how: clock.how().into(),
        cores,
        comparisons: 0,
        repeated: 0,
        backward: 0,
        equal: 0,
        worst_ticks: 0,
        worst_ns: 0,
        capped: false,
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounded up"
)]
fn nanoseconds(ticks: u64, tick: f64) -> u64 {
    (ticks as f64 * tick).ceil() as u64
}

/// What one core counts.
#[derive(Default)]
struct Counts {
    comparisons: u64,
    repeated: u64,
    backward: u64,
    equal: u64,
    worst: u64,
}

impl Counts {
    #[inline]
    fn take(&mut self, other: u64, fresh: bool, own: u64) {
        self.comparisons += u64::from(fresh);
        self.repeated += u64::from(!fresh);
        self.equal += u64::from(own == other);
        if own < other {
            self.backward += 1;
            self.worst = self.worst.max(other - own);
        }
    }
}

fn add(across: &mut Across, counts: &[Counts]) {
    for core in counts {
        across.comparisons += core.comparisons;
        across.repeated += core.repeated;
        across.backward += core.backward;
        across.equal += core.equal;
        across.worst_ticks = across.worst_ticks.max(core.worst);
    }
}

/// One value in a line of cache of its own.
#[derive(Default)]
#[repr(align(128))]
struct Slot(AtomicU64);

/// A thread on every core, each publishing what it reads and comparing with the next one's.
struct Batch<'a> {
    cpus: &'a [u32],
    reads: u64,
}

impl Visit for Batch<'_> {
    type Outcome = Result<Vec<Counts>, Error>;

    fn visit(self, read: impl Fn() -> u64 + Copy + Send + Sync) -> Self::Outcome {
        let slots: Vec<Slot> = self.cpus.iter().map(|_| Slot::default()).collect();
        let waiting = AtomicUsize::new(slots.len());
        let core = |number: usize| {
            let pinned = go(self.cpus[number]);
            waiting.fetch_sub(1, Ordering::AcqRel);
            pinned?;
            while waiting.load(Ordering::Acquire) > 0 {
                spin_loop();
            }
            let (own, next) = (&slots[number].0, &slots[(number + 1) % slots.len()].0);
            Ok(compare(own, next, self.reads, read))
        };
        let core = &core;
        thread::scope(|scope| {
            let numbers = 0..self.cpus.len();
            let threads: Vec<_> = numbers
                .map(|number| scope.spawn(move || core(number)))
                .collect();
            let joined = threads.into_iter().map(ScopedJoinHandle::join);
            joined
                .map(|counts| counts.unwrap_or_else(|panic| resume_unwind(panic)))
                .collect()
        })
    }
}

/// How often a core looks for a new value of the other's before it takes the old one again.
const PATIENCE: u32 = 100;

/// Nothing but the acquiring load stands between the other's value and the own read.
fn compare(own: &AtomicU64, other: &AtomicU64, count: u64, read: impl Fn() -> u64) -> Counts {
    let (mut counts, mut last) = (Counts::default(), 0);
    for _ in 0..count {
        let mut theirs = other.load(Ordering::Acquire);
        for _ in 0..PATIENCE {
            if theirs != last {
                break;
            }
            theirs = other.load(Ordering::Acquire);
        }
        let now = read();
        counts.take(theirs, theirs != last, now);
        last = theirs;
        own.store(now, Ordering::Release);
    }
    counts
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_clock_that_is_behind_is_seen() {
        let (own, other) = (AtomicU64::new(0), AtomicU64::new(10));
        let next = Cell::new(7);
        let counts = compare(&own, &other, 6, || next.replace(next.get() + 1));
        assert_eq!((counts.comparisons, counts.repeated), (1, 5));
        assert_eq!((counts.backward, counts.equal, counts.worst), (3, 1, 3));
        assert_eq!(own.into_inner(), 12);
    }
}
