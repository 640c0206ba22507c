//! One thread's values, under forced migration.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::{Pid, gettid};
use serde::{Deserialize, Serialize};
use ullage_clock::Clock;

use super::{Options, deadline};
use crate::machine::current_cpu;
use crate::mover::{Stop, while_moving};
use crate::{Absent, Error};

/// What was found in threads by themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alone {
    pub threads: u64,
    /// Reads by RVEC, each compared with the one before in its thread.
    pub reads: u64,
    /// Of these, ordered ones: every 64th.
    pub ordered: u64,
    /// Values that are less than the one before. Must be 0.
    pub backward: u64,
    /// Values that equal the one before. Must be 0.
    pub equal: u64,
    /// How often a thread was put on a core.
    pub moves: u64,
    /// How often a thread found itself on another core than 64 reads before.
    pub migrations: u64,
    /// How often the threads changed cores as the kernel counts it, where it does
    /// (`/proc/thread-self/sched`).
    pub kernel_migrations: Option<u64>,
    /// How long it took.
    pub elapsed_ns: u64,
    /// The cap came first: there are fewer reads than asked for.
    pub capped: bool,
}

/// Reads between two looks at the core; the last one is ordered.
const BATCH: u64 = 64;
/// Batches between two looks at whether it is over: about 0.1 ms.
const BATCHES: u64 = 64;
const LOOK: Duration = Duration::from_millis(100);

pub fn run(
    options: &Options,
    cpus: &[u32],
    absent: &mut Vec<Absent>,
    progress: &mut dyn FnMut(u64),
) -> Result<Alone, Error> {
    if cpus.len() < 2 {
        absent.push(Absent::new(
            "forced migration",
            "this thread may use one core only",
        ));
    }
    let threads = match options.threads {
        0 => cpus.len() as u64,
        threads => u64::from(threads),
    };
    // Whole rounds, so at least as many as asked for.
    let rounds = options.reads.div_ceil(threads * BATCH * BATCHES);
    let (start, deadline) = (Instant::now(), deadline(options));
    let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let total = Mutex::new(Alone::default());
    let moves = thread::scope(|scope| {
        // Stays until the mover has ended too: a thread that is gone cannot be moved.
        let _stop = Stop(&over);
        let (send_id, thread_ids) = mpsc::channel();
        for _ in 0..threads {
            let (send_id, over, done, total) = (send_id.clone(), &over, &done, &total);
            scope.spawn(move || {
                // Nobody listens any more only when it is over.
                let _ = send_id.send(gettid());
                drop(send_id);
                let reads = thread_reads(rounds, over, done);
                add(&mut total.lock().expect("no thread panics with it"), &reads);
            });
        }
        drop(send_id);
        let ids: Vec<Pid> = thread_ids.iter().collect();
        let mut wait = || {
            let enough = rounds * threads * BATCH * BATCHES;
            while done.load(Ordering::Relaxed) < enough && Instant::now() < deadline {
                thread::sleep(LOOK);
                progress(done.load(Ordering::Relaxed).min(options.reads));
            }
        };
        if cpus.len() < 2 {
            wait();
            return Ok(0);
        }
        while_moving(&ids, cpus, options.period, options.seed, wait).map(|((), moves)| moves)
    })?;
    let mut total = total.into_inner().expect("no thread panics with it");
    total.moves = moves;
    total.elapsed_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    total.capped = total.reads < options.reads;
    Ok(total)
}

/// The reads of one thread, until it has made them or it is over. Stays until it is over, since the
/// mover knows no thread that has gone.
fn thread_reads(rounds: u64, over: &AtomicBool, done: &AtomicU64) -> Alone {
    let clock = Clock::get();
    let (mut steps, mut cpu, mut migrations) = (Steps::after(clock.now()), current_cpu(), 0);
    let (mut batches, before) = (0, kernel_migrations());
    for _ in 0..rounds {
        if over.load(Ordering::Relaxed) {
            break;
        }
        for _ in 0..BATCHES {
            for _ in 1..BATCH {
                steps.take(clock.now());
            }
            steps.take(clock.ordered());
            let now = current_cpu();
            migrations += u64::from(now != cpu);
            cpu = now;
        }
        batches += BATCHES;
        done.fetch_add(BATCHES * BATCH, Ordering::Relaxed);
    }
    let kernel_migrations = before.and_then(|before| Some(kernel_migrations()? - before));
    while !over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(1));
    }
    Alone {
        threads: 1,
        reads: batches * BATCH,
        ordered: batches,
        backward: steps.backward,
        equal: steps.equal,
        migrations,
        kernel_migrations,
        ..Alone::default()
    }
}

/// Values, each compared with the one before.
struct Steps {
    last: u64,
    backward: u64,
    equal: u64,
}

impl Steps {
    fn after(last: u64) -> Self {
        Self {
            last,
            backward: 0,
            equal: 0,
        }
    }

    #[inline]
    fn take(&mut self, value: u64) {
        self.backward += u64::from(value < self.last);
        self.equal += u64::from(value == self.last);
        self.last = value;
    }
}

/// How often the calling thread has changed cores, as the kernel counts it.
fn kernel_migrations() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/sched").ok()?;
    let line = text
        .lines()
        .find(|line| line.starts_with("se.nr_migrations"))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn add(total: &mut Alone, thread: &Alone) {
    let first = total.threads == 0;
    let kernel = total.kernel_migrations.zip(thread.kernel_migrations);
    total.kernel_migrations = if first {
        thread.kernel_migrations
    } else {
        kernel.map(|(sum, own)| sum + own)
    };
    total.threads += 1;
    total.reads += thread.reads;
    total.ordered += thread.ordered;
    total.backward += thread.backward;
    total.equal += thread.equal;
    total.migrations += thread.migrations;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_kernel_does_not_count_is_not_added() {
        let counted = Alone {
            kernel_migrations: Some(3),
            ..Alone::default()
        };
        let mut total = Alone::default();
        add(&mut total, &counted);
        add(&mut total, &counted);
        assert_eq!((total.threads, total.kernel_migrations), (2, Some(6)));
        add(&mut total, &Alone::default());
        assert_eq!(total.kernel_migrations, None);
    }

    proptest! {
        #[test]
        fn steps_are_those_of_the_pairs(values in prop::collection::vec(0_u64..20, 1..100)) {
            let mut steps = Steps::after(values[0]);
            values[1..].iter().for_each(|value| steps.take(*value));
            let pairs = || values.windows(2);
            let backward = pairs().filter(|pair| pair[1] < pair[0]).count() as u64;
            let equal = pairs().filter(|pair| pair[1] == pair[0]).count() as u64;
            prop_assert_eq!((steps.backward, steps.equal), (backward, equal));
        }
    }
}
