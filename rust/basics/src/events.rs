//! Events until a limit, by threads that share it: sysbench's loop (`src/sysbench.c`), with what that
//! does for each event, as it is a good part of a small one: whether there is time, when it began, when
//! it ended, the stop-watch with its lock, and the histogram.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::histogram::Histogram;
use crate::random::Random;

/// When all is done.
#[derive(Clone, Copy)]
pub enum Limit {
    Time(Duration),
    /// Of all threads together: each takes the next.
    Events(u64),
    /// The same, but each thread has its part of them from the start.
    Parts(u64),
}

impl Limit {
    pub fn time(seconds: u32) -> Self {
        Self::Time(Duration::from_secs(seconds.into()))
    }

    pub fn in_parts(self) -> Self {
        match self {
            Self::Events(events) => Self::Parts(events),
            other => other,
        }
    }

    /// Of this thread.
    fn part(self, number: u32, threads: u32) -> u64 {
        match self {
            Self::Parts(events) => {
                let (each, over) = (events / u64::from(threads), events % u64::from(threads));
                each + u64::from(u64::from(number) < over)
            }
            Self::Time(_) | Self::Events(_) => u64::MAX,
        }
    }
}

/// What a thread does. The request is drawn before the event's time begins.
pub trait Worker {
    type Request;

    fn request(&mut self) -> Self::Request;

    /// Returns what it has found.
    fn event(&mut self, request: Self::Request) -> u64;

    /// After its last event.
    fn end(&mut self) {}
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Done {
    pub events: u64,
    /// From when all threads were there until the last has ended.
    pub seconds: f64,
    /// Of all events together; the mean is this, divided by their number.
    pub busy_s: f64,
    pub longest_s: f64,
    /// So long or shorter are 95 % of the events.
    pub p95_s: f64,
    /// What the events have found, to be held against what they must find: primes, bytes.
    pub result: u64,
    /// `fileio`: so many of the events were flushes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flushes: Option<u64>,
    /// `fileio`: so much of the result was written; the rest was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<u64>,
}

/// What all threads share.
struct Shared {
    limit: Limit,
    taken: AtomicU64,
    ready: Barrier,
    histogram: Histogram,
}

/// Of one thread.
struct Part {
    watch: Watch,
    result: u64,
    began: Instant,
    ended: Instant,
}

#[derive(Clone, Copy, Default)]
struct Watch {
    events: u64,
    sum: Duration,
    longest: Duration,
}

/// Starts the threads and lets each do events until the limit; `worker` makes what a thread does.
pub fn run<W: Worker>(threads: u32, limit: Limit, worker: impl Fn(u32) -> W + Sync) -> Done {
    let shared = Shared {
        limit,
        taken: AtomicU64::new(0),
        ready: Barrier::new(threads as usize),
        histogram: Histogram::new(),
    };
    let (shared, worker) = (&shared, &worker);
    let parts: Vec<Part> = thread::scope(|scope| {
        let start = |number| {
            scope.spawn(move || {
                let mut worker = worker(number);
                let random = Random::new(!0, number);
                shared.ready.wait();
                work(shared, limit.part(number, threads), random, &mut worker)
            })
        };
        let all: Vec<_> = (0..threads).map(start).collect();
        // A panic in a thread ends the program: `panic = "abort"`.
        all.into_iter()
            .filter_map(|thread| thread.join().ok())
            .collect()
    });
    sum(&parts, shared.histogram.percentile_s(95.0))
}

/// By the workers' own readings: the main thread may wait for a core while they work.
fn sum(parts: &[Part], p95_s: f64) -> Done {
    let began = parts.iter().map(|part| part.began).min();
    let ended = parts.iter().map(|part| part.ended).max();
    let time = ended.zip(began).map(|(ended, began)| ended - began);
    let mut done = Done {
        seconds: time.unwrap_or_default().as_secs_f64(),
        p95_s,
        ..Done::default()
    };
    for part in parts {
        done.events += part.watch.events;
        done.busy_s += part.watch.sum.as_secs_f64();
        done.longest_s = done.longest_s.max(part.watch.longest.as_secs_f64());
        done.result = done.result.wrapping_add(part.result);
    }
    done
}

/// One thread.
fn work(shared: &Shared, events: u64, mut random: Random, worker: &mut impl Worker) -> Part {
    let watch = Mutex::new(Watch::default());
    let (mut left, mut result) = (events, 0_u64);
    let began = Instant::now();
    while more(shared, began) && left > 0 {
        left -= 1;
        let request = worker.request();
        let before = Instant::now();
        result = result.wrapping_add(worker.event(request));
        let took = stop(&watch, before);
        shared
            .histogram
            .add(took.as_secs_f64() * 1000.0, &mut random);
    }
    worker.end();
    Part {
        watch: watch.into_inner().unwrap_or_else(PoisonError::into_inner),
        result,
        began,
        ended: Instant::now(),
    }
}

fn more(shared: &Shared, began: Instant) -> bool {
    match shared.limit {
        Limit::Time(time) => began.elapsed() < time,
        Limit::Events(events) => shared.taken.fetch_add(1, Ordering::Relaxed) < events,
        Limit::Parts(_) => true,
    }
}

/// Nobody else asks for the lock. sysbench's reports might, so it has one, and an event of a
/// microsecond would be too cheap without.
fn stop(watch: &Mutex<Watch>, before: Instant) -> Duration {
    let mut watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
    let took = before.elapsed();
    watch.events += 1;
    watch.sum += took;
    watch.longest = watch.longest.max(took);
    took
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Same(u64);

    impl Worker for Same {
        type Request = u64;

        fn request(&mut self) -> u64 {
            self.0
        }

        fn event(&mut self, request: u64) -> u64 {
            request
        }
    }

    #[test]
    fn so_many_events_are_done_by_all_threads_together() {
        for limit in [Limit::Events(100), Limit::Parts(100)] {
            let done = run(3, limit, |_| Same(2));
            assert_eq!((done.events, done.result), (100, 200));
            assert!(done.seconds >= done.longest_s && done.busy_s <= 3.0 * done.seconds + 1e-6);
        }
    }

    #[test]
    fn parts_are_equal_but_for_one() {
        let part = |number| Limit::Events(100).in_parts().part(number, 3);
        assert_eq!([part(0), part(1), part(2)], [34, 33, 33]);
    }

    #[test]
    fn it_lasts_as_long_as_asked() {
        let done = run(2, Limit::time(1), |_| Same(1));
        assert!(done.seconds >= 1.0 && done.events == done.result);
    }
}
