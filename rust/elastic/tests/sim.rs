//! What holds of every simulation, whatever goes wrong in it; and what single settings do.

#![expect(
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "counts far below 2^53, and times that follow exactly"
)]

use std::ops::ControlFlow;

use proptest::prelude::*;
use serde_json::{Value, json};
use sim_kit::{fixed, with};
use ullage_elastic::log::{FORMAT, Line, Record, replay};
use ullage_elastic::sim::{End, Error, Observer, Outcome, Spec, run, run_with};
use ullage_elastic::{Action, Event};

mod sim_kit;

fn simulate(changes: Value) -> Outcome {
    run(&with(changes)).expect("it runs")
}

fn times() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..200_u32).prop_map(|s| fixed(f64::from(s))),
        (1..200_u32).prop_map(|mean_s| json!({"kind": "exponential", "mean_s": mean_s})),
        (1..50_u32).prop_map(|low| json!({"kind": "uniform", "low_s": low, "high_s": 2 * low})),
        (1..90_u32).prop_map(|s| json!({"kind": "empirical", "values_s": [0, s, 3 * s]})),
    ]
}

fn arrivals() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"kind": "poisson", "rate_hz": 0.5})),
        Just(json!({"kind": "uniform", "rate_hz": 2.0})),
        Just(json!({"kind": "trace", "at_s": [0, 0, 0, 1, 1.5, 90, 90, 400]})),
        Just(
            json!({"kind": "flash-crowd", "rate_hz": 0.1, "peak_hz": 5.0,
            "from_s": 100, "decay_s": 20})
        ),
        Just(json!({"kind": "surge", "rate_hz": 0.1, "peak_hz": 5.0, "from_s": 100, "for_s": 50})),
        Just(json!({"kind": "profile", "rates_hz": [0.0, 1.0], "step_s": 60})),
    ]
}

fn policies() -> impl Strategy<Value = Value> {
    let names = [
        "elastic-movie",
        "spare",
        "hysteresis",
        "threshold",
        "predictor",
    ];
    prop::sample::select(names.to_vec()).prop_map(|name| json!({"name": name}))
}

fn applications() -> impl Strategy<Value = Value> {
    let allocation = ["one_at_a_time", "one_per_need", "one_per_request"];
    let allocation = prop::sample::select(allocation.to_vec());
    let most = prop::option::of(1..6_u32);
    let waiting = prop::option::of(0..10_u32);
    (1..6_u32, most, allocation, waiting).prop_map(|(room, most, allocation, waiting)| {
        json!({"room": room, "max_nodes": most, "allocation": allocation, "waiting_room": waiting})
    })
}

/// Everything goes wrong now and then.
fn failures() -> impl Strategy<Value = Value> {
    let lifetime = prop::option::of(times().prop_filter("lives", |time| *time != fixed(0.0)));
    (0..3_u32, 0..3_u32, 0..4_u32, lifetime).prop_map(|(never, error, retries, lifetime)| {
        json!({
            "never_ready": 0.3 * f64::from(never),
            "error": 0.3 * f64::from(error),
            "retries": retries,
            "lifetime": lifetime,
        })
    })
}

fn specs() -> impl Strategy<Value = Spec> {
    let hosts = prop::option::of((1..4_u32, 1..4_u32).prop_map(|(count, nodes_each)| {
        json!({"count": count, "nodes_each": nodes_each, "first_image": fixed(20.0)})
    }));
    let viewers = (arrivals(), times(), times(), prop::option::of(times()));
    let nodes = (
        applications(),
        policies(),
        failures(),
        hosts,
        times(),
        times(),
    );
    (viewers, nodes, 0..300_u64, any::<u32>()).prop_map(|(viewers, nodes, sessions, seed)| {
        let (arrivals, watch, patience, reconnect) = viewers;
        let (application, policy, failures, hosts, allocation, release) = nodes;
        with(json!({
            "application": application, "policy": policy, "arrivals": arrivals,
            "sessions": sessions, "watch": watch, "patience": patience, "reconnect": reconnect,
            "allocation": {
                "rows": [{"stages": [{"name": "boot", "time": allocation}]}],
                "slow_down": [{"concurrent": 1, "factor": 1.0}, {"concurrent": 3, "factor": 2.0}],
                // More than any fixed time, its slow-down and the image: else patience is needed.
                "gives_up_s": 450.0,
            },
            "release": release, "failures": failures, "hosts": hosts, "seed": seed, "points": 20,
        }))
    })
}

/// Writes the log that the front would.
struct Logged(Vec<u8>);

impl Observer for Logged {
    fn saw(&mut self, at: u64, event: Event, actions: &[Action]) {
        let actions = actions.iter().map(|action| Record::Action(*action));
        for record in std::iter::once(Record::Event(event)).chain(actions) {
            let line = Line { at_ns: at, record };
            line.write(&mut self.0).expect("memory");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn every_session_has_one_end_and_every_node_too(spec in specs()) {
        let outcome = run(&spec).expect("it runs");
        let viewers = outcome.viewers;
        let ends = viewers.finished + viewers.blocked + viewers.turned_away + viewers.cut;
        prop_assert_eq!(viewers.requests, ends + viewers.unserved);
        prop_assert_eq!(viewers.at_once + viewers.waited, viewers.finished + viewers.cut);
        prop_assert!(viewers.lost >= viewers.reconnected);
        // Who lost his node was served, and each is counted once; who was cut is one of them.
        prop_assert!(viewers.cut <= viewers.affected && viewers.affected <= viewers.lost);
        prop_assert!(viewers.affected <= viewers.at_once + viewers.waited);
        let records = outcome.records.expect("they were asked for");
        prop_assert_eq!(records.len() as u64, viewers.requests);
        let count = |end| records.iter().filter(|record| record.end == end).count() as u64;
        prop_assert_eq!(count(End::Finished), viewers.finished);
        prop_assert_eq!(count(End::Blocked), viewers.blocked);
        prop_assert_eq!(count(End::Cut), viewers.cut);
        for record in &records {
            let served = record.served_s.unwrap_or(record.asked_s);
            prop_assert!(record.asked_s <= served && served <= outcome.ended_s);
            prop_assert!(record.ended_s.is_none_or(|ended| served <= ended));
        }
        // All that were offered make the demand, until the last of them would be gone.
        let ends = records.iter().map(|record| record.asked_s + record.watch_s);
        let last = ends.fold(0.0, f64::max);
        let followed = outcome.elasticity.map_or(0.0, |it| it.until_s);
        prop_assert!((followed - last).abs() <= 1e-6, "{} {}", followed, last);
        let nodes = outcome.nodes;
        prop_assert!(nodes.ready + nodes.failed <= nodes.asked);
        prop_assert!(nodes.died + nodes.released <= nodes.ready);
        prop_assert_eq!(outcome.decisions.allocate, nodes.asked);
        let most = spec.application.max_nodes.unwrap_or(u32::MAX);
        prop_assert!(outcome.whole.most_nodes <= u64::from(most));
        let room = outcome.whole.ready.most * u64::from(spec.application.room);
        prop_assert!(outcome.whole.watching.most <= room);
    }

    #[test]
    fn the_same_specification_gives_the_same_outcome(spec in specs()) {
        prop_assert_eq!(run(&spec), run(&spec));
    }

    /// What the simulator tells the machine, the front's machine takes too, and answers alike.
    #[test]
    fn its_log_is_one_of_the_front(spec in specs()) {
        let policy = spec.policy.written().clone();
        let begin = Record::Begin { format: FORMAT, config: spec.application, policy };
        let mut log = Logged(Vec::new());
        Line { at_ns: 0, record: begin }.write(&mut log.0).expect("memory");
        let outcome = run_with(&spec, &mut |_| ControlFlow::Continue(()), &mut log).expect("it runs");
        let replayed = replay(&*log.0, spec.application, spec.policy.written());
        let replayed = replayed.expect("a good log");
        prop_assert_eq!(replayed.events, outcome.events);
        prop_assert_eq!(replayed.unwritten, []);
        prop_assert_eq!(replayed.machine.view().waiting, outcome.viewers.unserved);
    }

    /// A curve's mean is the whole's: nothing is lost where steps are joined.
    #[test]
    fn curves_have_the_area_of_the_whole(spec in specs()) {
        let outcome = run(&spec).expect("it runs");
        let curves = outcome.curves.expect("they were asked for");
        prop_assert!(curves.watching.len() <= 20);
        let last = outcome.ended_s - curves.step_s * (curves.ready.len().max(1) - 1) as f64;
        let area = |curve: &[f64]| {
            let (whole, rest) = curve.split_at(curve.len().saturating_sub(1));
            whole.iter().sum::<f64>() * curves.step_s + rest.iter().sum::<f64>() * last
        };
        for (curve, level) in [
            (&curves.watching, outcome.whole.watching),
            (&curves.waiting, outcome.whole.waiting),
            (&curves.ready, outcome.whole.ready),
        ] {
            let expected = level.mean * outcome.ended_s;
            prop_assert!((area(curve) - expected).abs() <= 1e-6 * (1.0 + expected));
        }
        let most = curves.watching_most.iter().max().copied();
        prop_assert_eq!(most.unwrap_or(0), outcome.whole.watching.most);
    }
}

/// By hand: two viewers, a node with room for both that takes 30 s to come.
#[test]
fn a_small_run_is_as_it_must_be() {
    let outcome = simulate(json!({
        "arrivals": {"kind": "trace", "at_s": [10, 20, 500]},
        "sessions": null,
        "application": {"room": 2},
        "patience": fixed(25.0),
    }));
    let records = outcome.records.expect("they were asked for");
    let ends: Vec<_> = records
        .iter()
        .map(|it| (it.served_s, it.ended_s, it.end))
        .collect();
    // The node asked for at 10 comes at 40. The first had patience until 35, the second until 45.
    assert_eq!(ends[0], (None, Some(35.0), End::Blocked));
    assert_eq!(ends[1], (Some(40.0), Some(220.0), End::Finished));
    assert_eq!(ends[2], (None, Some(525.0), End::Blocked));
    assert_eq!(outcome.wait.mean_s, Some(20.0));
    assert_eq!(outcome.blocked, Some(2.0 / 3.0));
    let nodes = outcome.node_records.expect("they were asked for");
    let node = nodes[0];
    let its = (node.asked_s, node.ready_s, node.release_s, node.gone_s);
    assert_eq!(its, (10.0, Some(40.0), Some(220.0), Some(225.0)));
}

/// Who is served in the last instant of its patience is served.
#[test]
fn patience_may_end_when_the_node_comes() {
    let outcome = simulate(json!({"patience": fixed(30.0), "sessions": 1}));
    assert_eq!((outcome.viewers.waited, outcome.viewers.blocked), (1, 0));
    let outcome = simulate(json!({"patience": fixed(0.0), "sessions": 1}));
    assert_eq!((outcome.viewers.waited, outcome.viewers.blocked), (0, 1));
}

#[test]
fn viewers_of_a_dead_node_come_again_or_are_cut() {
    let failures = json!({"lifetime": fixed(60.0)});
    let outcome = simulate(json!({"failures": failures}));
    assert!(outcome.nodes.died > 0 && outcome.viewers.cut == outcome.viewers.lost);
    // 180 s in pieces of at most 60 s: everybody loses three nodes at least.
    let outcome = simulate(json!({
        "failures": failures, "reconnect": fixed(1.0), "patience": null,
    }));
    let viewers = outcome.viewers;
    assert_eq!((viewers.finished, viewers.cut), (40, 0));
    assert!(viewers.lost >= 80 && viewers.lost == viewers.reconnected);
}

#[test]
fn nodes_that_never_come_are_given_up() {
    let allocation = json!({
        "rows": [{"stages": [{"name": "boot", "time": fixed(30.0)}]}],
        "gives_up_s": 100.0,
    });
    let failures = json!({"never_ready": 1.0});
    let outcome = simulate(json!({"allocation": allocation, "failures": failures}));
    assert_eq!(outcome.viewers.blocked, 40);
    assert_eq!(
        (outcome.nodes.ready, outcome.nodes.given_up),
        (0, outcome.nodes.failed)
    );
    let nodes = outcome.node_records.expect("they were asked for");
    assert!(
        nodes
            .iter()
            .all(|node| node.gone_s.is_none_or(|gone| gone == node.asked_s + 100.0))
    );
}

#[test]
fn errors_of_the_provider_are_tried_again_as_often_as_allowed() {
    let failures = json!({"error": 1.0, "retries": 3, "error_after": fixed(2.0),
        "retry_after": fixed(5.0)});
    let outcome = simulate(json!({"failures": failures, "sessions": 1, "patience": fixed(26.0)}));
    // Errors at 2, 9, 16 and 23 s, when the node has failed; another one errs once more before 26 s.
    assert_eq!((outcome.nodes.failed, outcome.nodes.errors), (1, 5));
    assert_eq!(outcome.viewers.blocked, 1);
}

#[test]
fn full_hosts_refuse() {
    let hosts = json!({"count": 1, "nodes_each": 1});
    let outcome = simulate(json!({"hosts": hosts, "application": {"room": 1}}));
    assert!(outcome.nodes.no_host > 0);
    assert_eq!(outcome.whole.ready.most, 1);
}

/// The first node on each host copies the image; they come one after the other.
#[test]
fn the_first_node_of_a_host_takes_longer() {
    let hosts = json!({"count": 2, "nodes_each": 9, "first_image": fixed(100.0)});
    let outcome = simulate(json!({"hosts": hosts, "patience": null, "application": {"room": 1}}));
    let nodes = outcome.node_records.expect("they were asked for");
    let took = |i: usize| nodes[i].ready_s.expect("ready") - nodes[i].asked_s;
    let took: Vec<_> = (0..4).map(took).map(f64::round).collect();
    assert_eq!(took, [130.0, 130.0, 30.0, 30.0]);
}

/// Three at the same time are twice as slow; of the table, the row that is reached.
#[test]
fn many_at_a_time_are_slower() {
    let times = |rows: Value, slow_down: Value| {
        let outcome = simulate(json!({
            "application": {"room": 1, "allocation": "one_per_need"},
            "arrivals": {"kind": "trace", "at_s": [0, 0, 0]},
            "patience": null,
            "allocation": {"rows": rows, "slow_down": slow_down},
        }));
        let nodes = outcome.node_records.expect("they were asked for");
        nodes
            .iter()
            .map(|node| node.ready_s.expect("ready"))
            .collect::<Vec<_>>()
    };
    let row = |concurrent: u32, s: f64| json!({"concurrent": concurrent, "stages": [{"name": "boot", "time": fixed(s)}]});
    let slow_down = json!([{"concurrent": 1, "factor": 1.0}, {"concurrent": 3, "factor": 2.0}]);
    assert_eq!(times(json!([row(1, 30.0)]), slow_down), [30.0, 45.0, 60.0]);
    let rows = json!([row(1, 30.0), row(3, 70.0)]);
    assert_eq!(times(rows, json!([])), [30.0, 30.0, 70.0]);
}

/// Two policies meet the same viewers.
#[test]
fn arrivals_do_not_depend_on_what_is_decided() {
    let watch = json!({"kind": "exponential", "mean_s": 100});
    let request_times = |policy: &str| {
        let outcome =
            simulate(json!({"policy": {"name": policy}, "watch": watch, "patience": null}));
        let records = outcome.records.expect("they were asked for");
        let times = records.iter().map(|it| {
            let watched = it.ended_s.expect("ended") - it.served_s.expect("served");
            (it.asked_s, (watched * 1e6).round())
        });
        times.collect::<Vec<_>>()
    };
    assert_eq!(request_times("elastic-movie"), request_times("spare"));
}

#[test]
fn it_can_be_followed_and_stopped() {
    let spec = with(json!({"sessions": 200_000, "records": false}));
    let mut parts = Vec::new();
    let ended = run_with(
        &spec,
        &mut |progress| {
            parts.push(progress.part);
            if parts.len() < 3 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        },
        &mut (),
    );
    assert_eq!(ended, Err(Error::Cancelled));
    assert!(parts.len() == 3 && parts.is_sorted() && parts[2] < 1.0);
}
