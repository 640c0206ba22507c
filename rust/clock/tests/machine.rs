//! The clock on the machine that the tests run on. Nothing here depends on how fast it is.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

#[cfg_attr(unix, path = "machine_cores/linux.rs")]
#[cfg_attr(windows, path = "machine_cores/windows.rs")]
mod cores;

use cores::{allowed, pin};
use ullage_clock::{Clock, Raw, Reasons, Rvec, Scale, Shared, Source};

#[test]
fn the_promise_is_readable() {
    let clock = Clock::get();
    println!("{}{:?}", clock.promise(), clock.facts());
    assert!(clock.promise().to_string().contains("strictly increasing"));
}

/// A million reads in every thread, more threads than cores, each moved every thousand reads.
#[test]
fn strictly_increasing_on_all_cores_under_forced_migration() {
    let clock = Clock::get();
    let cpus = allowed();
    thread::scope(|scope| {
        for first in 0..=cpus.len() {
            let cpus = &cpus;
            scope.spawn(move || {
                let mut last = 0;
                for number in 0..1_000_000 {
                    if number % 1_000 == 0 {
                        pin(cpus[(first + number / 1_000) % cpus.len()]);
                    }
                    let ns = if number % 7 == 0 {
                        clock.ordered()
                    } else {
                        clock.now()
                    };
                    assert!(ns > last, "{ns} after {last}");
                    last = ns;
                }
                let promised = clock.promise().reasons;
                let news = clock.stamp().reasons.without(promised);
                assert!(!news.any(Reasons::STEPPED | Reasons::UNMEASURED), "{news}");
            });
        }
    });
}

#[test]
#[cfg(target_arch = "x86_64")]
fn migrations_are_noticed() {
    let cpus = allowed();
    if Clock::get().promise().source == Source::MonotonicRaw || cpus.len() < 2 {
        eprintln!("skipped: a counter and two cores are needed");
        return;
    }
    for paired in [false, true] {
        let counter = ullage_clock::Tsc::new(paired).expect("tsc");
        let scale = Scale::of(&Clock::get().rate()).expect("scale");
        let bridging = ullage_clock::Bridging::Counter;
        let shared = Shared::new(&counter, scale, bridging, 1_000_000, None);
        let cpus = &cpus;
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut rvec = Rvec::new();
                for number in 0..1_000 {
                    pin(cpus[number % cpus.len()]);
                    rvec.read(&counter, &shared);
                }
                assert!(rvec.folds().1 >= 999, "{:?}", rvec.folds());
            });
        });
    }
}

/// Every thread reads what another has published, then the clock: it must not be earlier.
#[test]
fn ordered_reads_never_go_back_beyond_the_bound() {
    let clock = Clock::get();
    let Some(bound) = clock.promise().ordered_ns else {
        eprintln!("skipped: {}", clock.promise());
        return;
    };
    let newest = AtomicU64::new(0);
    let cpus = allowed();
    let (worst, count) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for cpu in &cpus {
            let (newest, worst, count) = (&newest, &worst, &count);
            scope.spawn(move || {
                pin(*cpu);
                for _ in 0..1_000_000 {
                    let latest = newest.load(Ordering::Acquire);
                    let ns = clock.ordered();
                    if ns <= latest {
                        count.fetch_add(1, Ordering::Relaxed);
                        worst.fetch_max(latest - ns, Ordering::Relaxed);
                    }
                    newest.store(ns, Ordering::Release);
                }
            });
        }
    });
    println!("back: {count:?} times, at most {worst:?} ns, bound {bound} ns");
    assert!(worst.into_inner() <= bound);
}

/// The rate changes all the time, and nobody's time goes back.
#[test]
fn strict_and_ordered_while_the_rate_is_refined() {
    let clock = Clock::get();
    let Some(bound) = clock.promise().ordered_ns else {
        return;
    };
    let (newest, over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in allowed() {
            scope.spawn(|| {
                let mut last = 0;
                while !over.load(Ordering::Relaxed) {
                    let latest = newest.load(Ordering::Acquire);
                    let ns = clock.ordered();
                    assert!(
                        ns > last && ns + bound >= latest,
                        "{ns} after {last} and {latest}"
                    );
                    newest.store(ns, Ordering::Release);
                    last = clock.now();
                    assert!(last > ns);
                }
            });
        }
        for _ in 0..50 {
            clock.refine();
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(!clock.check().any(Reasons::STEPPED));
}

/// The fallback is the same clock, dearer.
#[test]
fn the_kernels_clock_serves_as_counter() {
    let shared = Shared::new(
        &Raw,
        Scale::NANOSECONDS,
        ullage_clock::Bridging::Counter,
        0,
        None,
    );
    let (mut rvec, mut last) = (Rvec::new(), 0);
    for _ in 0..100_000 {
        let before = Raw::ns();
        let ns = rvec.read(&Raw, &shared);
        assert!(ns > last && ns >= before);
        last = ns;
    }
    assert_eq!((rvec.reasons(), rvec.folds().1), (Reasons::NONE, 0));
}
