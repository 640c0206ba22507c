//! What each policy does in a story that is told for it, and what is said of settings that cannot be.

use serde_json::{Value, json};
use ullage_elastic::policy::NAMES;
use ullage_elastic::{Action, Allocation, AnyPolicy, Config, Event, Machine};

const SECOND: u64 = 1_000_000_000;

struct Story {
    machine: Machine<AnyPolicy>,
}

impl Story {
    fn of(config: Config, policy: Value) -> Self {
        let policy = AnyPolicy::try_from(policy).unwrap();
        let machine = Machine::new(config, policy).unwrap();
        Self { machine }
    }

    fn then(&mut self, at_s: u64, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        let handled = self.machine.handle(at_s * SECOND, event, &mut actions);
        handled.unwrap();
        actions
    }

    fn request(&mut self, at_s: u64, client: u64) -> Vec<Action> {
        self.then(at_s, Event::Request { client })
    }

    fn ready(&mut self, at_s: u64, node: u32) -> Vec<Action> {
        self.then(at_s, Event::NodeReady { node })
    }

    fn finished(&mut self, at_s: u64, client: u64) -> Vec<Action> {
        self.then(at_s, Event::Finished { client })
    }

    fn wake_s(&self) -> Option<u64> {
        self.machine.wake_at().map(|at| at / SECOND)
    }
}

fn redirect(client: u64, node: u32) -> Action {
    Action::Redirect { client, node }
}

fn wait(client: u64) -> Action {
    Action::Wait { client }
}

fn allocate(node: u32) -> Action {
    Action::Allocate { node }
}

fn release(node: u32) -> Action {
    Action::Release { node }
}

#[test]
fn elastic_movie_allocates_for_the_first_and_releases_after_the_last() {
    let mut story = Story::of(Config::new(2), json!({"name": "elastic-movie"}));
    assert_eq!(story.request(0, 1), [wait(1), allocate(0)]);
    assert_eq!(story.request(1, 2), [wait(2)]);
    assert_eq!(story.request(2, 3), [wait(3)]);
    assert_eq!(
        story.ready(5, 0),
        [redirect(1, 0), redirect(2, 0), allocate(1)]
    );
    assert_eq!(story.ready(9, 1), [redirect(3, 1)]);
    assert_eq!(story.finished(10, 1), []);
    assert_eq!(story.finished(11, 2), [release(0)]);
    assert_eq!(story.request(12, 4), [redirect(4, 1)]);
    assert_eq!(story.wake_s(), None);
}

#[test]
fn elastic_movie_keeps_a_node_that_came_too_late_or_not() {
    for (unused, after) in [("keep", vec![]), ("release", vec![release(0)])] {
        let policy = json!({"name": "elastic-movie", "unused": unused});
        let mut story = Story::of(Config::new(2), policy);
        story.request(0, 1);
        story.then(1, Event::TimedOut { client: 1 });
        assert_eq!(story.ready(2, 0), after);
    }
}

#[test]
fn one_node_per_need_and_one_per_request() {
    let allocated = |allocation| {
        let config = Config {
            allocation,
            ..Config::new(2)
        };
        let mut story = Story::of(config, json!({"name": "elastic-movie"}));
        let actions = (0..4).flat_map(|client| story.request(0, client));
        actions
            .filter(|action| matches!(action, Action::Allocate { .. }))
            .count()
    };
    assert_eq!(allocated(Allocation::OneAtATime), 1);
    assert_eq!(allocated(Allocation::OnePerNeed), 2);
    assert_eq!(allocated(Allocation::OnePerRequest), 4);
}

#[test]
fn spare_nodes_stand_ready_and_no_more_than_those() {
    let config = Config {
        allocation: Allocation::OnePerNeed,
        ..Config::new(1)
    };
    let mut story = Story::of(config, json!({"name": "spare", "nodes": 2}));
    assert_eq!(story.then(0, Event::Tick), [allocate(0), allocate(1)]);
    assert_eq!((story.ready(1, 0), story.ready(1, 1)), (vec![], vec![]));
    assert_eq!(story.request(2, 1), [redirect(1, 1), allocate(2)]);
    assert_eq!(story.ready(3, 2), []);
    assert_eq!(story.finished(4, 1), [release(1)]);
}

#[test]
fn hysteresis_releases_what_has_been_idle_for_long() {
    let mut story = Story::of(Config::new(1), json!({"name": "hysteresis", "idle_s": 30}));
    story.request(0, 1);
    story.ready(1, 0);
    assert_eq!((story.finished(10, 1), story.wake_s()), (vec![], Some(40)));
    assert_eq!(story.request(39, 2), [redirect(2, 0)]);
    assert_eq!((story.finished(50, 2), story.wake_s()), (vec![], Some(80)));
    assert_eq!(story.then(79, Event::Tick), []);
    assert_eq!(story.then(80, Event::Tick), [release(0)]);
}

#[test]
fn threshold_keeps_the_use_in_a_band_and_looks_away_after_each_change() {
    let config = Config {
        allocation: Allocation::OnePerNeed,
        min_nodes: 1,
        ..Config::new(4)
    };
    let fields = json!({"name": "threshold", "up": 0.7, "down": 0.3, "cooldown_s": 20});
    let mut story = Story::of(config, fields);
    assert_eq!(story.then(0, Event::Tick), [allocate(0)]);
    story.ready(1, 0);
    assert_eq!(story.request(2, 1), [redirect(1, 0)]);
    assert_eq!(story.request(3, 2), [redirect(2, 0)]);
    assert_eq!(story.request(4, 3), [redirect(3, 0), allocate(1)]);
    for client in 4..7 {
        story.request(5, client);
    }
    story.ready(6, 1);
    assert_eq!(
        (story.wake_s(), story.then(23, Event::Tick)),
        (Some(24), vec![])
    );
    assert_eq!(story.then(24, Event::Tick), [allocate(2)]);
    story.ready(25, 2);
    for client in 1..7 {
        assert_eq!(story.finished(30, client), []);
    }
    assert_eq!(story.then(44, Event::Tick), [release(0)]);
    assert_eq!(story.then(64, Event::Tick), [release(1)]);
    assert_eq!(
        (story.then(90, Event::Tick), story.wake_s()),
        (vec![], None)
    );
}

#[test]
fn the_predictor_allocates_before_it_is_asked() {
    let config = Config {
        allocation: Allocation::OnePerNeed,
        ..Config::new(10)
    };
    let fields = json!({"name": "predictor", "every_s": 1, "horizon_s": 20});
    let mut story = Story::of(config, fields);
    story.then(0, Event::Tick);
    assert_eq!(story.request(0, 0), [wait(0), allocate(0)]);
    story.ready(0, 0);
    let mut ahead = 0;
    for second in 1..10 {
        let coming = story.request(second, second);
        assert_eq!(coming[0], redirect(second, 0));
        ahead += coming.len() - 1;
    }
    // One more each second: in 20 s there will be 30.
    assert!((1..=3).contains(&ahead), "{ahead}");
    let nodes: Vec<_> = story.machine.nodes().map(|node| node.node).collect();
    for node in &nodes[1..] {
        story.ready(10, *node);
    }
    for client in 0..10 {
        story.finished(10, client);
    }
    while let Some(at) = story.wake_s() {
        assert!(at < 1000, "it forgets the viewers of long ago");
        story.then(at, Event::Tick);
        let leaving: Vec<_> = story.machine.nodes().collect();
        for node in leaving {
            if node.state == ullage_elastic::NodeState::Leaving {
                story.then(at, Event::Released { node: node.node });
            }
        }
    }
    assert_eq!(story.machine.view().ready, 0);
}

#[test]
fn a_failed_node_loses_its_viewers_and_they_come_again() {
    let mut story = Story::of(Config::new(2), json!({"name": "elastic-movie"}));
    story.request(0, 1);
    story.request(0, 2);
    story.ready(1, 0);
    // It sees before anybody that its node is dead.
    assert_eq!(story.request(2, 1), [redirect(1, 0)]);
    let lost = [2, 1].map(|client| Action::Lost { client, node: 0 });
    assert_eq!(story.then(3, Event::NodeFailed { node: 0 }), lost);
    assert_eq!(story.request(4, 2), [wait(2), allocate(1)]);
    // The allocation fails: the next is tried.
    assert_eq!(story.then(5, Event::NodeFailed { node: 1 }), [allocate(2)]);
}

fn refusal(policy: Value) -> String {
    AnyPolicy::try_from(policy).unwrap_err().to_string()
}

#[test]
fn bad_settings_are_named_with_what_is_allowed() {
    let names = NAMES.join(", ");
    let mut sorted = NAMES.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted, NAMES, "each once, in the order of the alphabet");
    let near = format!("name is \"spair\"; allowed: {names} (did you mean spare?)");
    assert_eq!(refusal(json!({"name": "spair"})), near);
    assert_eq!(
        refusal(json!({"nodes": 3})),
        format!("name is null; allowed: {names}")
    );
    assert_eq!(
        refusal(json!("spare")),
        "policy is \"spare\"; allowed: fields with their values"
    );
    assert_eq!(
        refusal(json!({"name": "spare", "node": 3})),
        "node is no field here; allowed: name, nodes (did you mean nodes?)"
    );
    assert_eq!(
        refusal(json!({"name": "spare", "nodes": -1})),
        "nodes is -1; allowed: a whole number from 0 to 1000000"
    );
    assert_eq!(
        refusal(json!({"name": "hysteresis", "idle_s": "1 min"})),
        "idle_s is \"1 min\"; allowed: a number from 0 to 1000000"
    );
    assert_eq!(
        refusal(json!({"name": "elastic-movie", "unused": "retain"})),
        "unused is \"retain\"; allowed: keep, release"
    );
    assert_eq!(
        refusal(json!({"name": "threshold", "down": 0.8})),
        "down is 0.8; allowed: a number below up, which is 0.8"
    );
}

#[test]
fn bad_configurations_are_named_with_what_is_allowed() {
    let refusal = |config: Value| Config::try_from(config).unwrap_err().to_string();
    assert_eq!(
        refusal(json!({})),
        "room is missing; allowed: a whole number from 0 to 1000000"
    );
    assert_eq!(
        refusal(json!({"room": 1, "min_nodes": 3, "max_nodes": 2})),
        "min_nodes is 3; allowed: 0 to max_nodes, which is 2"
    );
    assert_eq!(
        refusal(json!({"room": 1, "allocation": "one_per_ned"})),
        "allocation is \"one_per_ned\"; allowed: one_at_a_time, one_per_need, one_per_request \
         (did you mean one_per_need?)"
    );
    let config = Config {
        max_nodes: Some(3),
        ..Config::new(40)
    };
    let written = serde_json::to_value(config).unwrap();
    assert_eq!(Config::try_from(written).unwrap(), config);
    let refused = Config {
        room: 1_000_001,
        ..config
    };
    let policy = AnyPolicy::try_from(json!({"name": "spare"})).unwrap();
    assert_eq!(Machine::new(refused, policy).unwrap_err().field, "room");
}
