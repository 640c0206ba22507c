use proptest::prelude::*;

use super::*;

const TREES: [Topology; 4] = [
    Topology::Flat,
    Topology::TwoLevel { groups: None },
    Topology::Binomial,
    Topology::KAry { children: 3 },
];

/// Every synchronisation takes `t`, in 6 messages and with a round trip of 10.
fn constant(topology: Topology, nodes: u64, t: u64) -> Once {
    once(topology, nodes, &mut || Synchronisation {
        ns: t,
        messages: 6,
        round_trip_ns: 10,
    })
}

fn round_trips(ns: &[u64], exchanges: u32) -> Times {
    Times::RoundTrips {
        ns: ns.to_vec(),
        exchanges,
    }
}

#[test]
fn sizes_are_1_2_5() {
    let nodes = to_a_million();
    assert_eq!(nodes[..5], [2, 5, 10, 20, 50]);
    assert_eq!((nodes.len(), nodes[17]), (18, 1_000_000));
}

#[test]
fn flat_is_one_after_the_other() {
    let flat = constant(Topology::Flat, 1_000, 7);
    assert_eq!((flat.total_ns, flat.messages), (999 * 7, 999 * 6));
    assert_eq!((flat.busiest, flat.round_trips_ns), (999 * 6, 10));
}

#[test]
fn a_binomial_tree_takes_the_logarithm() {
    for (nodes, rounds) in [
        (2, 1),
        (3, 2),
        (4, 2),
        (5, 3),
        (1024, 10),
        (1025, 11),
        (1_000_000, 20),
    ] {
        let tree = constant(Topology::Binomial, nodes, 7);
        assert_eq!(tree.total_ns, rounds * 7, "{nodes}");
        assert_eq!(
            (tree.messages, tree.busiest),
            ((nodes - 1) * 6, rounds * 6),
            "{nodes}"
        );
    }
}

/// Head number i (from 1) is ready after i, and then serves its group.
#[test]
fn two_levels_take_the_slowest_group() {
    for (nodes, groups) in [
        (2, 1),
        (10, 3),
        (101, 10),
        (1000, 1),
        (1000, 999),
        (977, 31),
    ] {
        let members = nodes - 1 - groups;
        let size = |head: u64| members / groups + u64::from(head <= members % groups);
        let slowest = (1..=groups).map(|head| head + size(head)).max();
        let two = constant(
            Topology::TwoLevel {
                groups: Some(groups),
            },
            nodes,
            7,
        );
        assert_eq!(
            Some(two.total_ns),
            slowest.map(|rounds| rounds * 7),
            "{nodes} {groups}"
        );
        assert_eq!(two.messages, (nodes - 1) * 6);
    }
}

/// The last child of the last child, in a tree that is full.
#[test]
fn a_full_k_ary_tree_takes_k_per_level() {
    for (children, depth) in [(1, 9), (2, 10), (3, 7), (8, 4)] {
        let nodes = (0..=depth).map(|level| u64::pow(children, level)).sum();
        let tree = constant(Topology::KAry { children }, nodes, 7);
        assert_eq!(tree.total_ns, u64::from(depth) * children * 7);
        assert_eq!(tree.round_trips_ns, u64::from(depth) * 10);
        assert_eq!(Topology::KAry { children }.depth(nodes), depth);
    }
}

#[test]
fn nonsense_is_refused() {
    let good = Options::new(round_trips(&[10], 5));
    for options in [
        Options {
            nodes: vec![1],
            ..good.clone()
        },
        Options {
            repetitions: 0,
            ..good.clone()
        },
        Options {
            times: round_trips(&[], 5),
            ..good.clone()
        },
        Options {
            times: round_trips(&[10], 0),
            ..good.clone()
        },
        Options {
            times: round_trips(&[u64::MAX / 1_000], 1),
            ..good.clone()
        },
        Options {
            topologies: vec![Topology::KAry { children: 0 }],
            ..good.clone()
        },
        Options {
            topologies: vec![Topology::TwoLevel { groups: Some(0) }],
            ..good
        },
    ] {
        assert!(run(&options, &mut |_, _| ()).is_err(), "{options:?}");
    }
}

#[test]
fn options_are_read_as_written() {
    let text = r#"{"times": {"kind": "round-trips", "ns": [5, 6], "exchanges": 2},
        "topologies": [{"kind": "flat"}, {"kind": "two-level"}, {"kind": "k-ary", "children": 2}]}"#;
    let options: Options = serde_json::from_str(text).expect("options");
    assert_eq!(options.topologies[1], Topology::TwoLevel { groups: None });
    assert_eq!(
        (options.repetitions, options.times),
        (15, round_trips(&[5, 6], 2))
    );
}

/// What is drawn has the mean and the least value of what was measured.
#[test]
fn draws_are_of_the_measured_ones() {
    let times = round_trips(&[100, 200, 600], 4);
    let options = Options {
        nodes: vec![10_001],
        topologies: vec![Topology::Flat],
        ..Options::new(times)
    };
    let outcome = run(&options, &mut |_, _| ()).expect("outcome");
    let point = &outcome.points[0];
    // 40,000 draws of mean 300 and standard deviation 216: ±5 of the sum's 43,200.
    let off = (point.total_ns.median - 12_000_000.0).abs();
    assert!(off > 0.0 && off < 5.0 * 43_200.0, "{point:?}");
    // A node all of whose round trips are 600 is one in 81.
    assert!((point.bound_ns.low - 300.0).abs() < 1e-9, "{point:?}");
    assert!(outcome.points.len() == 1 && !outcome.capped);
}

proptest! {
    #[test]
    fn the_server_comes_first_and_the_depth_is_the_longest_way(nodes in 2_u64..3_000, tree in 0..4_usize) {
        let topology = TREES[tree];
        let mut depths = vec![0; usize::try_from(nodes).expect("small")];
        for number in 1..depths.len() {
            let server = topology.server(number, nodes);
            prop_assert!(server < number);
            depths[number] = depths[server] + 1;
        }
        prop_assert_eq!(depths.into_iter().max(), Some(topology.depth(nodes)));
    }

    /// Between all the fastest and all the slowest, and nothing is lost.
    #[test]
    fn times_stay_within_what_was_measured(
        ns in prop::collection::vec(1_u64..10_000, 1..50),
        exchanges in 1_u32..30,
        nodes in 2_u64..500,
        tree in 0..4_usize,
        seed in any::<u64>(),
    ) {
        let (least, most) = (*ns.iter().min().expect("some"), *ns.iter().max().expect("some"));
        let options = Options {
            nodes: vec![nodes],
            topologies: vec![TREES[tree]],
            repetitions: 7,
            seed,
            ..Options::new(round_trips(&ns, exchanges))
        };
        let outcome = run(&options, &mut |_, _| ()).expect("outcome");
        let point = &outcome.points[0];
        let times = |t: u64| constant(TREES[tree], nodes, t * u64::from(exchanges)).total_ns;
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        {
            prop_assert!(point.total_ns.low >= times(least) as f64);
            prop_assert!(point.total_ns.high <= times(most) as f64);
            let messages = 2 * u64::from(exchanges) * (nodes - 1);
            prop_assert!((point.messages.median - messages as f64).abs() < 0.5);
            let depth = f64::from(point.depth);
            prop_assert!(point.bound_ns.high <= depth * most as f64 / 2.0);
            prop_assert!(point.bound_ns.low >= depth * least as f64 / 2.0);
        }
        prop_assert_eq!(&run(&options, &mut |_, _| ()).expect("again"), &outcome);
    }

    #[test]
    fn whole_synchronisations_are_drawn_as_they_are(nodes in 2_u64..200) {
        let measured = vec![
            Synchronisation { ns: 10, messages: 4, round_trip_ns: 1 },
            Synchronisation { ns: 1_000, messages: 400, round_trip_ns: 100 },
        ];
        let times = Times::Synchronisations { measured };
        let options = Options {
            nodes: vec![nodes],
            topologies: vec![Topology::Flat],
            repetitions: 1,
            ..Options::new(times)
        };
        let point = run(&options, &mut |_, _| ()).expect("outcome").points.remove(0);
        // Of k short ones and the rest long, messages and time tell the same k.
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let clients = (nodes - 1) as f64;
        let long = (point.messages.median - 4.0 * clients) / 396.0;
        prop_assert!((point.total_ns.median - (10.0 * clients + 990.0 * long)).abs() < 1e-6);
    }
}
