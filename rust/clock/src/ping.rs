//! Measures how far the counters of the cores are apart: two pinned threads pass a cache line back
//! and forth, and each writes down its counter.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Counter, Offset, Synchrony, sys};

/// After so many, more do not narrow the interval much.
const ROUNDS: u64 = 3_000;
/// How long one core may take: on a busy machine, it takes turns with others.
const PATIENCE: Duration = Duration::from_millis(200);
/// Spins before the other one is given a chance to run.
const SPINS: u32 = 20_000;

/// What passes between the two. On a cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Ball {
    /// The number of the exchange, by the one who asks.
    ping: AtomicU64,
    /// The same, by the one who answers, after `theirs`.
    pong: AtomicU64,
    theirs: AtomicU64,
    ready: AtomicBool,
    over: AtomicBool,
}

/// Compares every allowed core with the first one; none if nothing can be said at all. Takes about
/// a millisecond a core, and never more than 200 ms a core.
pub fn synchrony<C: Counter + Sync>(counter: &C) -> Option<Synchrony> {
    let cpus = sys::allowed_cpus().ok()?;
    let (first, others) = cpus.split_first()?;
    let mut all = Synchrony::alone(*first);
    for other in others {
        let (offset, rounds) = compare(counter, *first, *other);
        all.add(*other, offset, rounds);
    }
    Some(all)
}

/// What (counter of `other` − counter of `first`) is, and from how many exchanges.
fn compare<C: Counter + Sync>(counter: &C, first: u32, other: u32) -> (Offset, u32) {
    let ball = Ball::default();
    thread::scope(|scope| {
        let answering =
            thread::Builder::new().spawn_scoped(scope, || answer(counter, &ball, other));
        if answering.is_err() {
            return (Offset::UNKNOWN, 0);
        }
        let asking = thread::Builder::new().spawn_scoped(scope, || ask(counter, &ball, first));
        let result = asking.ok().and_then(|thread| thread.join().ok());
        ball.over.store(true, Ordering::Release);
        result.unwrap_or((Offset::UNKNOWN, 0))
    })
}

fn ask<C: Counter>(counter: &C, ball: &Ball, cpu: u32) -> (Offset, u32) {
    let mut offset = Offset::UNKNOWN;
    let mut rounds = 0;
    let deadline = Instant::now() + PATIENCE;
    let late = || Instant::now() >= deadline;
    if sys::pin(cpu).is_err() || !wait(late, || ball.ready.load(Ordering::Acquire)) {
        return (offset, 0);
    }
    for round in 1..=ROUNDS {
        let sent = counter.read_ordered();
        ball.ping.store(round, Ordering::Release);
        if !wait(late, || ball.pong.load(Ordering::Acquire) == round) {
            break;
        }
        let received = counter.read_ordered();
        let theirs = ball.theirs.load(Ordering::Relaxed);
        offset.learn(sent.ticks, theirs, received.ticks);
        rounds += 1;
    }
    (offset, rounds)
}

fn answer<C: Counter>(counter: &C, ball: &Ball, cpu: u32) {
    if sys::pin(cpu).is_err() {
        return;
    }
    ball.ready.store(true, Ordering::Release);
    let over = || ball.over.load(Ordering::Acquire);
    let mut round = 1;
    while wait(over, || ball.ping.load(Ordering::Acquire) == round) {
        let sample = counter.read_ordered();
        ball.theirs.store(sample.ticks, Ordering::Relaxed);
        ball.pong.store(round, Ordering::Release);
        round += 1;
    }
}

/// Spins until `done`; false if `enough` came first.
fn wait(enough: impl Fn() -> bool, done: impl Fn() -> bool) -> bool {
    loop {
        for _ in 0..SPINS {
            if done() {
                return true;
            }
            core::hint::spin_loop();
        }
        if enough() {
            return false;
        }
        thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NO_CPU, Raw, Sample};

    /// The kernel's clock, wrong by 10 ms on core 1.
    struct Apart;

    impl Counter for Apart {
        fn read(&self) -> Sample {
            let cpu = crate::CpuId::Getcpu.current();
            let wrong = if cpu == 1 { 10_000_000 } else { 0 };
            Sample {
                ticks: Raw::ns() + wrong,
                cpu,
            }
        }

        fn read_ordered(&self) -> Sample {
            self.read()
        }

        fn bridge_ns(&self) -> u64 {
            Raw::ns()
        }

        fn paired(&self) -> bool {
            false
        }
    }

    #[test]
    fn clocks_that_agree_are_never_apart() {
        let all = synchrony(&Raw).expect("cores");
        let allowed = sys::allowed_cpus().expect("allowed").len();
        assert_eq!(
            all.cpus.count() + all.missed,
            u32::try_from(allowed).expect("u32")
        );
        assert_eq!(all.apart, 0, "{all:?}");
        assert!(!all.cpus.has(NO_CPU));
    }

    #[test]
    fn clocks_that_are_apart_are_noticed() {
        if sys::allowed_cpus().expect("allowed").get(..2) != Some(&[0, 1]) {
            std::eprintln!("skipped: cores 0 and 1 are needed");
            return;
        }
        let (offset, rounds) = compare(&Apart, 0, 1);
        assert!(rounds < 100 || offset.apart() > 0, "{offset:?}");
        assert!(
            offset.lowest <= 10_000_000 && offset.highest >= 10_000_000,
            "{offset:?}"
        );
    }
}
