//! RGAP along trees: bounds add up, strata count, reasons are handed on.

use proptest::prelude::*;
use ullage_clock::Reasons;
use ullage_clock::rgap::double::{Path, Tree};
use ullage_clock::rgap::{Drift, Rules};

const SECOND: u64 = 1_000_000_000;
const RULES: Rules = Rules {
    patience_ns: 100 * SECOND,
    ..Rules::PUBLISHED
};

fn path() -> impl Strategy<Value = Path> {
    let delay = || prop_oneof![Just(0), 0..2_000_u64, 0..200_000_u64, 0..5_000_000_u64];
    (delay(), delay(), 0..200_u64).prop_map(|(least_ns, jitter_ns, lost)| Path {
        least_ns,
        jitter_ns,
        lost,
        ..Path::default()
    })
}

/// Any tree of up to seven machines with paths of any asymmetry, and clocks within ρ of each other.
fn tree() -> impl Strategy<Value = Tree> {
    let node = (
        any::<prop::sample::Index>(),
        path(),
        path(),
        -49_000..49_000_i64,
        0..250_i64,
    );
    (proptest::collection::vec(node, 1..7), any::<u64>()).prop_map(|(nodes, seed)| {
        let parents: Vec<_> = nodes
            .iter()
            .enumerate()
            .map(|(number, (parent, there, back, ..))| (parent.index(number + 1), [*there, *back]))
            .collect();
        let tree = Tree::new(&parents, seed);
        for (number, (.., skew, wander)) in nodes.iter().enumerate() {
            let world = tree.machine(number + 1);
            world.step((1 << 40) * i64::try_from(number).expect("small"));
            world.skew(*skew);
            world.wander(*wander, 20 * SECOND);
        }
        tree
    })
}

/// Every machine learns from its parent, from the root on.
fn synchronise(tree: &mut Tree, many: usize) {
    for number in 1..many {
        let outcome = tree.synchronise(number, RULES, &Drift::USUAL);
        outcome.expect("synchronised");
    }
}

fn chain(paths: &[[Path; 2]]) -> Tree {
    let parents: Vec<_> = paths.iter().copied().enumerate().collect();
    Tree::new(&parents, 1)
}

fn quiet(there_ns: u64, back_ns: u64) -> [Path; 2] {
    [there_ns, back_ns].map(|least_ns| Path {
        least_ns,
        ..Path::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Inside of the hard bound at every level, after each round and long after it; no level knows
    /// better than the one above it, and each is one further from the root.
    #[test]
    fn the_truth_is_inside_at_every_level(
        mut tree in tree(),
        waits in proptest::collection::vec(0..30 * SECOND, 1..5),
    ) {
        let many = tree.machines();
        let mut rounds = 0;
        for wait in waits {
            synchronise(&mut tree, many);
            rounds += 1;
            for wait in [0, wait] {
                tree.pass(wait);
                for number in 1..many {
                    let (reading, standing) = tree.reading(number);
                    let off = reading.ns.abs_diff(tree.truth());
                    prop_assert!(off <= reading.hard_ns, "{number}, round {rounds}: {off} off, {reading:?}");
                    prop_assert!(reading.bound_ns <= reading.hard_ns);
                    let above = tree.reading(tree.parent(number)).1;
                    prop_assert_eq!(standing.stratum, above.stratum + 1);
                    prop_assert_eq!(standing.reasons, Reasons::NONE);
                    // It asked before, and its parent's bound has grown since by ρ as well as its own.
                    prop_assert!(wait > 0 || rounds > 1 || standing.hard_ns >= above.hard_ns);
                }
            }
        }
    }

    /// Whatever happened above is known below after the next synchronisation, however often it was
    /// synchronised before, and is over once the one above has synchronised again.
    #[test]
    fn adrift_above_is_adrift_below(mut tree in tree(), struck: prop::sample::Index, step in 1..1_i64 << 50) {
        let many = tree.machines();
        synchronise(&mut tree, many);
        tree.pass(SECOND);
        let struck = 1 + struck.index(many - 1);
        tree.machine(struck).step(step);
        tree.happen(struck, Reasons::SUSPENDED | Reasons::ADRIFT);
        let below = |tree: &Tree, mut number: usize| {
            while number > struck {
                number = tree.parent(number);
            }
            number == struck
        };
        for number in 1..many {
            if below(&tree, number) && number != struck {
                tree.synchronise(number, RULES, &Drift::USUAL).expect("nothing is known, so nothing contradicts");
                let (reading, standing) = tree.reading(number);
                prop_assert_eq!((reading.bound_ns, reading.hard_ns), (u64::MAX, u64::MAX));
                prop_assert!(standing.reasons.any(Reasons::ADRIFT) && standing.reasons.any(Reasons::SUSPENDED));
            }
        }
        for number in struck..many {
            if below(&tree, number) {
                tree.synchronise(number, RULES, &Drift::USUAL).expect("synchronised");
                let (reading, standing) = tree.reading(number);
                prop_assert!(!standing.reasons.any(Reasons::ADRIFT) && standing.reasons.any(Reasons::SUSPENDED));
                let off = reading.ns.abs_diff(tree.truth());
                prop_assert!(off <= reading.hard_ns, "{off} off, {reading:?}");
            }
        }
    }
}

/// By hand: 5 us, 20 us and 1 us are half round trips, all of them on one way, so that errors add up
/// as far as the bounds do, but for roundings and ρ.
#[test]
fn bounds_add_up() {
    let mut tree = chain(&[quiet(10_000, 0), quiet(40_000, 0), quiet(2_000, 0)]);
    let mut bounds = Vec::new();
    for number in 1..4 {
        tree.synchronise(number, RULES, &Drift::USUAL)
            .expect("synchronised");
        let (reading, standing) = tree.reading(number);
        let off = reading.ns - tree.truth();
        assert_eq!(usize::from(standing.stratum), number);
        assert!(
            off <= reading.hard_ns && reading.hard_ns - off < 1_000,
            "{off} {reading:?}"
        );
        bounds.push(reading.hard_ns);
    }
    for (bound, sum) in bounds.iter().zip([5_000, 25_000, 26_000]) {
        assert!((sum..sum + 1_000).contains(bound), "{bounds:?}");
    }
    // It asks a machine that knows nothing: neither does it then.
    let mut tree = chain(&[quiet(5, 5), quiet(5, 5)]);
    tree.synchronise(2, RULES, &Drift::USUAL).expect("answered");
    assert_eq!(tree.reading(2).0.hard_ns, u64::MAX);
}

/// The statistical bound adds up too: 99.9 % along a chain of four, each of which knows its rate.
#[test]
fn the_truth_is_inside_of_the_statistical_bound_down_a_chain() {
    let path = Path {
        least_ns: 5_000,
        jitter_ns: 500,
        ..Path::default()
    };
    let (mut readings, mut outside) = (0, 0);
    for seed in 0..300 {
        let parents: Vec<_> = (0..4).map(|number| (number, [path; 2])).collect();
        let mut tree = Tree::new(&parents, seed);
        for number in 1..5 {
            let world = tree.machine(number);
            world.skew(i64::try_from(number * 9_000).expect("small") - 20_000);
            world.wander(200, SECOND * (number as u64 + seed % 60 + 1));
        }
        for _ in 0..3 {
            synchronise(&mut tree, 5);
            tree.pass(5 * SECOND);
        }
        for wait in [0, 1_000, SECOND, 10 * SECOND] {
            tree.pass(wait);
            for number in 1..5 {
                let (reading, _) = tree.reading(number);
                readings += 1;
                outside += i32::from(reading.ns.abs_diff(tree.truth()) > reading.bound_ns);
            }
        }
    }
    assert!(outside * 1_000 <= readings, "{outside} of {readings}");
}
