//! The machine beside a model that is as plain as can be, over random events, possible and not.

mod machine_model;

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};
use ullage_elastic::log::{self, Line, Record};
use ullage_elastic::policy::NAMES;
use ullage_elastic::{
    Action, Allocation, AnyPolicy, ClientId, Config, Event, Machine, NodeState, Placement,
    Whereabouts, Why,
};

use machine_model::Model;

const SECOND: u64 = 1_000_000_000;

/// A machine, the model, and the log.
struct Run {
    machine: Machine<AnyPolicy>,
    model: Model,
    log: Vec<u8>,
    at: u64,
}

impl Run {
    fn new(config: Config, policy: &Value) -> Self {
        let any = AnyPolicy::try_from(policy.clone()).unwrap();
        let mut run = Self {
            model: Model::new(config, any.name()),
            machine: Machine::new(config, any).unwrap(),
            log: Vec::new(),
            at: 0,
        };
        let format = log::FORMAT;
        let policy = policy.clone();
        run.note(Record::Begin {
            format,
            config,
            policy,
        });
        run
    }

    fn note(&mut self, record: Record) {
        let at_ns = self.at;
        Line { at_ns, record }.write(&mut self.log).unwrap();
    }

    /// Both are told; what the machine does must be what the model allows.
    fn step(&mut self, event: Event) -> Vec<Action> {
        let (before, mut actions) = (self.machine.snapshot(), Vec::new());
        let done = self.machine.handle(self.at, event, &mut actions);
        assert_eq!(
            done.is_ok(),
            self.model.possible(event),
            "{event:?}: {done:?}"
        );
        if done.is_err() {
            assert_eq!(self.machine.snapshot(), before);
            assert_eq!(actions, []);
            return actions;
        }
        self.note(Record::Event(event));
        let mut lost = self.model.happen(event);
        for action in &actions {
            self.model.act(event, *action, &mut lost);
            self.note(Record::Action(*action));
        }
        assert_eq!(lost, BTreeSet::new(), "lost without a word");
        self.model.check();
        self.model.agrees_with(&self.machine);
        actions
    }

    /// All nodes come, all viewers finish; somebody who still waits then would wait for ever.
    fn drain(&mut self) {
        for _ in 0..10_000 {
            let nodes = self.model.nodes.iter();
            let mut events: Vec<_> = nodes
                .flat_map(|(node, (state, seats))| match state {
                    NodeState::Coming => vec![Event::NodeReady { node: *node }],
                    NodeState::Leaving => vec![Event::Released { node: *node }],
                    NodeState::Ready => {
                        let end = |client: &ClientId| Event::Finished { client: *client };
                        seats.iter().map(end).collect()
                    }
                })
                .collect();
            if events.is_empty() && self.model.waiting.is_empty() {
                return;
            }
            if let Some(at) = self.machine.wake_at() {
                self.at = self.at.max(at);
                events.push(Event::Tick);
            }
            assert!(
                !events.is_empty(),
                "somebody waits, and nothing will happen"
            );
            for event in events {
                self.step(event);
            }
        }
        panic!("it never ends");
    }
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let (client, node) = (0_u64..12, 0_u32..12);
    let event = prop_oneof![
        6 => client.clone().prop_map(|client| Event::Request { client }),
        4 => client.clone().prop_map(|client| Event::Finished { client }),
        2 => client.prop_map(|client| Event::TimedOut { client }),
        6 => node.clone().prop_map(|node| Event::NodeReady { node }),
        1 => node.clone().prop_map(|node| Event::NodeFailed { node }),
        4 => node.prop_map(|node| Event::Released { node }),
        2 => Just(Event::Tick),
    ];
    let pause = prop_oneof![Just(0), 0..100 * SECOND];
    prop::collection::vec((pause, event), 1..150)
}

fn configs() -> impl Strategy<Value = Config> {
    let allocations = vec![
        Allocation::OneAtATime,
        Allocation::OnePerNeed,
        Allocation::OnePerRequest,
    ];
    let placements = vec![Placement::Fullest, Placement::Emptiest];
    (
        1_u32..4,
        prop::option::of(1_u32..6),
        0_u32..3,
        prop::sample::select(allocations),
        prop::sample::select(placements),
        prop::option::of(0_u32..4),
    )
        .prop_map(
            |(room, max_nodes, min_nodes, allocation, placement, waiting_room)| Config {
                room,
                max_nodes,
                min_nodes: min_nodes.min(max_nodes.unwrap_or(u32::MAX)),
                allocation,
                placement,
                waiting_room,
            },
        )
}

/// Every policy of the list, each with some of its fields as it lets them be.
fn policies() -> impl Strategy<Value = Value> {
    let value = prop_oneof![0.0..1.0_f64, (0..100_u32).prop_map(f64::from)];
    let change = (any::<prop::sample::Index>(), value);
    let changes = prop::collection::vec(change, 0..4);
    (prop::sample::select(NAMES), changes).prop_map(|(name, changes)| {
        let fields = allowed(&json!({"name": name, "no such field": 0}));
        let mut policy = json!({"name": name});
        for (which, value) in changes {
            set(&mut policy, &fields[which.index(fields.len())], value);
        }
        policy
    })
}

/// What the refusal of a policy says is allowed.
fn allowed(policy: &Value) -> Vec<String> {
    let refused = AnyPolicy::try_from(policy.clone()).unwrap_err();
    refused.allowed.split(", ").map(String::from).collect()
}

/// To the number, to it as a whole one, or to a word that the field knows; else it stays.
fn set(policy: &mut Value, field: &str, value: f64) {
    let with = |value: Value| {
        let mut changed = policy.clone();
        changed[field] = value;
        changed
    };
    let words = allowed(&with(json!(["no value"])));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Both are meant.
    let whole = value as usize;
    let values = [
        json!(value),
        json!(whole),
        json!(words[whole % words.len()]),
    ];
    let mut candidates = values.into_iter().map(with);
    if let Some(changed) =
        candidates.find(|candidate| AnyPolicy::try_from(candidate.clone()).is_ok())
    {
        *policy = changed;
    }
}

proptest! {
    #[test]
    fn it_does_only_what_a_plain_model_allows(
        config in configs(), policy in policies(), events in events(),
    ) {
        let mut run = Run::new(config, &policy);
        run.step(Event::Tick);
        for (pause, event) in events {
            run.at += pause;
            run.step(event);
        }
        run.drain();
    }

    #[test]
    fn after_a_replay_it_is_the_same_and_goes_on_alike(
        config in configs(), policy in policies(), events in events(), at in any::<prop::sample::Index>(),
    ) {
        let mut run = Run::new(config, &policy);
        for (pause, event) in &events {
            run.at += pause;
            run.step(*event);
        }
        let replayed = log::replay(run.log.as_slice(), config, &policy).unwrap();
        prop_assert_eq!(replayed.machine.snapshot(), run.machine.snapshot());
        prop_assert_eq!(replayed.machine.policy(), run.machine.policy());
        prop_assert_eq!(replayed.whole, run.log.len() as u64);
        prop_assert_eq!(replayed.unwritten.as_slice(), &[]);
        let mut again = Run { machine: replayed.machine, log: Vec::new(), model: run.model.clone(), ..run };
        again.drain();

        // Cut anywhere: what was written is there, and what should follow is told.
        let cut = at.index(run.log.len());
        let replayed = log::replay(&run.log[..cut], config, &policy).unwrap();
        let mut whole = run.log[..usize::try_from(replayed.whole).unwrap()].to_vec();
        for action in &replayed.unwritten {
            let record = Record::Action(*action);
            Line { at_ns: replayed.at_ns, record }.write(&mut whole).unwrap();
        }
        prop_assert!(run.log.starts_with(&whole));
    }

    #[test]
    fn small_ids_are_found_as_any_are(
        config in configs(), policy in policies(), events in events(),
    ) {
        let any = AnyPolicy::try_from(policy).unwrap();
        let mut hashed = Machine::new(config, any.clone()).unwrap();
        let mut dense = Machine::dense(config, any).unwrap();
        let (mut at, mut some, mut same) = (0, Vec::new(), Vec::new());
        for (pause, event) in events {
            at += pause;
            prop_assert_eq!(hashed.handle(at, event, &mut some), dense.handle(at, event, &mut same));
        }
        prop_assert_eq!(some, same);
        prop_assert_eq!(hashed.snapshot(), dense.snapshot());
    }

    #[test]
    fn where_no_node_can_serve_everybody_is_turned_away(
        policy in policies(), events in events(), room in 0_u32..2,
    ) {
        let max_nodes = (room > 0).then_some(0);
        let mut run = Run::new(Config { max_nodes, ..Config::new(room) }, &policy);
        for (pause, event) in events {
            run.at += pause;
            let actions = run.step(event);
            if let Event::Request { client } = event {
                let why = Why::NoNodes;
                prop_assert_eq!(actions, [Action::TurnAway { client, why }]);
            }
        }
    }
}

#[test]
fn time_never_goes_back() {
    let policy = AnyPolicy::try_from(json!({"name": "elastic-movie"})).unwrap();
    let mut machine = Machine::new(Config::new(1), policy).unwrap();
    let mut actions = Vec::new();
    machine.handle(5, Event::Tick, &mut actions).unwrap();
    let early = machine.handle(4, Event::Request { client: 1 }, &mut actions);
    assert_eq!(
        early.unwrap_err().to_string(),
        "4 ns is before the last event, at 5 ns"
    );
    assert_eq!(machine.whereabouts(1), Whereabouts::Unknown);
    assert_eq!(machine.policy().name(), "elastic-movie");
}
