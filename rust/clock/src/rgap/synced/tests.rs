use std::boxed::Box;

use super::*;
use crate::rgap::{Counts, Exchange, Stop};

/// A process of its own, as it were: the other tests read [`Clock::get`].
fn process(test: impl FnOnce(Synced) + Send + 'static) {
    let run = || test(Synced::new(Box::leak(Box::new(Clock::start(None)))));
    std::thread::spawn(run).join().expect("as it should be");
}

fn outcome(synced: &Synced, ahead_ns: u64) -> Outcome {
    let t1 = synced.clock.ordered();
    let there = t1 + 500 + ahead_ns;
    let best = Exchange::new([t1, there, there, t1 + 1_000], Standing::ROOT, 0);
    let best = best.expect("possible");
    Outcome {
        best,
        fix: best.fix(0),
        stop: Stop::Alike,
        counts: Counts::default(),
        took_ns: 1_000,
    }
}

fn learn(synced: &Synced) {
    let disruptions = synced.disruptions();
    let outcome = outcome(synced, 7_000);
    let learned = synced.learn(&outcome, &Drift::USUAL, disruptions);
    learned.expect("agree");
}

#[test]
fn what_the_cores_may_be_apart_is_in_every_bound() {
    process(|synced| {
        synced.lead();
        let apart_ns = synced.clock.promise().apart_ns();
        let (now, (_, standing)) = (synced.now(), synced.serve());
        for bound_ns in [now.global.hard_ns, now.global.bound_ns] {
            assert!((apart_ns..apart_ns + 10).contains(&bound_ns), "{now:?}");
        }
        assert!(standing.hard_ns >= apart_ns && standing.bound_ns >= apart_ns);
    });
}

#[test]
fn no_correction_beyond_a_disruption() {
    process(|synced| {
        let early = synced.now().local_ns;
        learn(&synced);
        learn(&synced);
        let bounds = |at: u64| {
            synced
                .correction(&Drift::USUAL)
                .expect("two")
                .at(at)
                .hard_ns
        };
        let late = || synced.clock.ordered() + 1_000_000;
        assert!(bounds(early) < u64::MAX && bounds(late()) < u64::MAX);
        synced.clock.sleep();
        assert!(bounds(early) < u64::MAX && bounds(late()) == u64::MAX);
        learn(&synced);
        learn(&synced);
        assert!(bounds(early) == u64::MAX && bounds(late()) < u64::MAX);
        assert!(synced.now().global.hard_ns < u64::MAX);
    });
}
