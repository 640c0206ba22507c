//! The units on the machine that the tests run on, with few repetitions. Nothing here depends on how
//! fast it is.

use std::panic::catch_unwind;
use std::time::{Duration, Instant};

use ullage_clock::Clock;
use ullage_clocklab::{Probe, accuracy, ecp, loops, strict};

fn quiet(_: u64, _: u64) {}

#[test]
fn elapsed_times_of_the_clock_are_precise_wherever_the_thread_runs() {
    let options = ecp::Options {
        iterations: 1_000,
        runs: 5,
        ..ecp::Options::default()
    };
    let outcome = ecp::run(&options, &mut quiet).expect("outcome");
    assert_eq!(outcome.additions, 15);
    let pinned_only = outcome.machine.cpus.len() < 2;
    assert_eq!(outcome.placements.len(), if pinned_only { 1 } else { 3 });
    for placed in &outcome.placements {
        for clock in &placed.clocks {
            let whole = clock.durations.as_ref().expect("durations").count;
            let moved = clock.with_move.as_ref().map_or(0, |moved| moved.count);
            assert_eq!((whole + moved, clock.steps), (5_000, 5 * 1_999));
            let own = placed.placement == ecp::Placement::MovesItself;
            assert_eq!(moved, if own { 100 } else { 0 });
            assert!(!own || clock.migrations >= 90, "{clock:?}");
            if matches!(clock.clock, Probe::Rvec | Probe::RvecOrdered) {
                assert_eq!((clock.zero, clock.backward), (0, 0), "{clock:?}");
                assert_eq!((clock.equal_steps, clock.backward_steps), (0, 0));
                assert!(clock.durations.as_ref().is_some_and(|it| it.min_ns >= 1.0));
            }
        }
    }
    let text = serde_json::to_string(&outcome).expect("json");
    let again: ecp::Outcome = serde_json::from_str(&text).expect("the same");
    assert_eq!(again.placements.len(), outcome.placements.len());
}

#[test]
fn values_are_strict_under_forced_migration_and_ordered_across_cores() {
    let options = strict::Options {
        reads: 3_000_000,
        comparisons: 20_000,
        ..strict::Options::default()
    };
    let mut steps = Vec::new();
    let mut progress = |done, of| steps.push((done, of));
    let outcome = strict::run(&options, &mut progress).expect("outcome");
    let alone = outcome.alone.expect("reads");
    assert!(alone.reads >= 3_000_000 && !alone.capped, "{alone:?}");
    assert_eq!((alone.backward, alone.equal), (0, 0), "{alone:?}");
    assert!(
        steps.is_sorted() && steps.iter().all(|(done, of)| done <= of),
        "{steps:?}"
    );
    if outcome.machine.cpus.len() < 2 {
        assert_eq!(outcome.absent[0].what, "across");
        return;
    }
    assert!(alone.moves > 0, "{alone:?}");
    for across in &outcome.across {
        assert!(across.comparisons >= 20_000, "{across:?}");
        if across.clock == Probe::RvecOrdered
            && let Some(bound) = Clock::get().promise().ordered_ns
        {
            assert!(across.worst_ns <= bound, "{across:?}");
        }
    }
}

#[test]
fn a_cap_stops_the_reads() {
    let options = strict::Options {
        comparisons: 0,
        cap_s: 1,
        ..strict::Options::default()
    };
    let alone = strict::run(&options, &mut quiet).expect("outcome").alone;
    let alone = alone.expect("reads");
    assert!(alone.capped && alone.reads < 1_000_000_000, "{alone:?}");
    assert_eq!((alone.backward, alone.equal), (0, 0));
}

/// Nobody is left behind who reads or moves.
#[test]
fn a_progress_that_panics_ends_all() {
    let options = strict::Options {
        comparisons: 0,
        cap_s: 60,
        ..strict::Options::default()
    };
    let start = Instant::now();
    let panics = || strict::run(&options, &mut |_, _| panic!("enough"));
    assert!(catch_unwind(panics).is_err());
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "it ran on to the cap"
    );
}

#[test]
fn loops_are_timed_by_all_clocks_that_there_are() {
    let options = loops::Options {
        samples: 200,
        keep: 50,
        ..loops::Options::default()
    };
    let outcome = loops::run(&options, &mut quiet).expect("outcome");
    let counts: Vec<u64> = outcome
        .loops
        .iter()
        .map(|timing| timing.instructions)
        .collect();
    assert_eq!(counts, [0, 10_000, 100_000, 1_000_000]);
    assert_ne!(outcome.external.is_some(), outcome.absent.len() == 1);
    for timing in &outcome.loops {
        let clocks = [
            Some(&timing.rvec),
            Some(&timing.raw),
            timing.external.as_ref(),
        ];
        for timed in clocks.into_iter().flatten() {
            assert_eq!((timed.durations.count, timed.first_ns.len()), (200, 50));
            let binned: u64 = timed.histogram.bins.iter().map(|bin| bin.count).sum();
            assert_eq!(binned + timed.histogram.under, 200);
        }
        // No processor ends a chain of additions at more than 8 in a nanosecond.
        let fastest = timing.rvec.durations.min_ns;
        assert!(
            fastest >= 1.0 && u64_of(fastest) >= timing.instructions / 10,
            "{fastest}"
        );
        // The outer clock sees more.
        assert!(timing.raw.durations.p50_ns >= timing.rvec.durations.p50_ns);
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time in nanoseconds"
)]
fn u64_of(ns: f64) -> u64 {
    ns as u64
}

/// Real exchanges, both ways, few of them: truth is inside of every hard bound.
#[test]
fn no_hard_bound_is_wrong() {
    let options = accuracy::Options {
        synchronisations: 40,
        oscillators: 1,
        follow_ns: 300_000_000,
        firsts: 4,
        ..accuracy::Options::default()
    };
    let accuracy_outcome = accuracy::run(&options, &mut |_, _| ()).expect("accuracy");
    for coverage in [
        &accuracy_outcome.coverage.udp,
        &accuracy_outcome.coverage.memory,
    ] {
        for case in [&coverage.now, &coverage.once, &coverage.rated] {
            assert!(case.error.count > 0);
            assert_eq!(case.outside_hard, 0, "{case:?}");
        }
    }
    assert!(
        accuracy_outcome.ages.udp.at_once.is_some()
            && accuracy_outcome.ages.memory.rated_10_s.is_none()
    );
    assert_eq!(
        accuracy_outcome.first.capped_ns.len(),
        accuracy_outcome.first.published_ns.len()
    );
}
