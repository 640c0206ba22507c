//! Events until a limit, by threads that share it.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

/// When all is done.
#[derive(Clone, Copy)]
pub struct Limit {
    time: Duration,
    events: u64,
}

impl Limit {
    pub fn time(seconds: u32) -> Self {
        let time = Duration::from_secs(seconds.into());
        Self {
            time,
            events: u64::MAX,
        }
    }

    pub fn events(events: u64) -> Self {
        Self {
            time: Duration::MAX,
            events,
        }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Done {
    pub events: u64,
    /// From when all threads were there until the last event ended.
    pub seconds: f64,
    /// Of all events together; the mean is this, divided by their number.
    pub busy_s: f64,
    pub longest_s: f64,
    /// What the events have found, to be held against what they must find: primes, bytes.
    pub result: u64,
}

/// Starts the threads and lets each do events until the limit; `worker` makes a thread's event, which
/// returns what it has found.
pub fn run<Event: FnMut() -> u64>(
    threads: u32,
    limit: Limit,
    worker: impl Fn(u32) -> Event + Sync,
) -> Done {
    let taken = AtomicU64::new(0);
    let ready = Barrier::new(threads as usize + 1);
    thread::scope(|scope| {
        let (worker, taken, ready) = (&worker, &taken, &ready);
        let all: Vec<_> = (0..threads)
            .map(|number| {
                scope.spawn(move || {
                    let mut event = worker(number);
                    ready.wait();
                    work(limit, taken, &mut event)
                })
            })
            .collect();
        ready.wait();
        let (mut sum, mut first, mut last) = (Done::default(), None, None);
        for thread in all {
            // A panic in a thread ends the program: `panic = "abort"`.
            let Ok((done, began, ended)) = thread.join() else {
                continue;
            };
            // By the workers' own readings: this thread may wait for a core while they work.
            first = Some(first.map_or(began, |first: Instant| first.min(began)));
            last = last.max(Some(ended));
            sum.events += done.events;
            sum.busy_s += done.busy_s;
            sum.longest_s = sum.longest_s.max(done.longest_s);
            sum.result = sum.result.wrapping_add(done.result);
        }
        let time = last.zip(first).map(|(last, first)| last - first);
        sum.seconds = time.unwrap_or_default().as_secs_f64();
        sum
    })
}

/// One thread, from when to when: each event is timed, as sysbench does.
fn work(
    limit: Limit,
    taken: &AtomicU64,
    event: &mut impl FnMut() -> u64,
) -> (Done, Instant, Instant) {
    let began = Instant::now();
    let (mut done, mut busy, mut longest) = (Done::default(), Duration::ZERO, Duration::ZERO);
    let mut before = began;
    while taken.fetch_add(1, Ordering::Relaxed) < limit.events && before - began < limit.time {
        done.result = done.result.wrapping_add(event());
        done.events += 1;
        let now = Instant::now();
        let took = now - before;
        busy += took;
        longest = longest.max(took);
        before = now;
    }
    done.busy_s = busy.as_secs_f64();
    done.longest_s = longest.as_secs_f64();
    (done, began, before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_events_are_done_by_all_threads_together() {
        let done = run(3, Limit::events(100), |_| || 2);
        assert_eq!((done.events, done.result), (100, 200));
        assert!(done.seconds >= done.longest_s && done.busy_s <= 3.0 * done.seconds + 1e-6);
    }

    #[test]
    fn it_lasts_as_long_as_asked() {
        let done = run(2, Limit::time(1), |_| || 1);
        assert!(done.seconds >= 1.0 && done.events == done.result);
    }
}
