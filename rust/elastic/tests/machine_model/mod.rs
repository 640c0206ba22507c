//! The machine as plain as can be: what is known outside it, from its actions alone.

use std::collections::{BTreeMap, BTreeSet};

use ullage_elastic::{
    Action, Allocation, AnyPolicy, ClientId, Config, Event, Machine, NodeId, NodeState, Placement,
    Whereabouts, Why,
};

/// These see to it that what those who wait are owed comes; others may go by something else.
const SERVE_WHO_WAITS: [&str; 4] = ["elastic-movie", "hysteresis", "predictor", "spare"];
/// And these wish for nothing beyond it.
const FORESEE_NOTHING: [&str; 2] = ["elastic-movie", "hysteresis"];

/// What is known outside the machine, from its actions alone.
#[derive(Clone, Debug)]
pub struct Model {
    config: Config,
    policy: String,
    pub nodes: BTreeMap<NodeId, (NodeState, BTreeSet<ClientId>)>,
    pub waiting: Vec<ClientId>,
    allocated: u32,
}

impl Model {
    pub fn new(config: Config, policy: &str) -> Self {
        Self {
            config,
            policy: policy.to_owned(),
            nodes: BTreeMap::new(),
            waiting: Vec::new(),
            allocated: 0,
        }
    }

    pub fn node_of(&self, client: ClientId) -> Option<NodeId> {
        let serves = |(node, (_, seats)): (&NodeId, &(NodeState, BTreeSet<_>))| {
            seats.contains(&client).then_some(*node)
        };
        self.nodes.iter().find_map(serves)
    }

    pub fn is(&self, node: NodeId, state: NodeState) -> bool {
        self.nodes.get(&node).is_some_and(|(is, _)| *is == state)
    }

    pub fn possible(&self, event: Event) -> bool {
        match event {
            Event::Request { client } => !self.waiting.contains(&client),
            Event::Finished { client } => self.node_of(client).is_some(),
            Event::TimedOut { client } => self.waiting.contains(&client),
            Event::NodeReady { node } => self.is(node, NodeState::Coming),
            Event::Released { node } => self.is(node, NodeState::Leaving),
            Event::NodeFailed { node } => self.nodes.contains_key(&node),
            Event::Tick => true,
        }
    }

    /// What is so before the first action. The viewer that asks waits from now on, last in the row.
    pub fn happen(&mut self, event: Event) -> BTreeSet<ClientId> {
        let mut lost = BTreeSet::new();
        match event {
            Event::Request { client } => {
                self.forget_seat(client);
                self.waiting.push(client);
            }
            Event::Finished { client } => self.forget_seat(client),
            Event::TimedOut { .. } | Event::Tick => {}
            Event::NodeReady { node } => self.nodes.get_mut(&node).unwrap().0 = NodeState::Ready,
            Event::Released { node } => assert!(self.nodes.remove(&node).unwrap().1.is_empty()),
            Event::NodeFailed { node } => lost = self.nodes.remove(&node).unwrap().1,
        }
        lost
    }

    pub fn forget_seat(&mut self, client: ClientId) {
        for (_, seats) in self.nodes.values_mut() {
            seats.remove(&client);
        }
    }

    pub fn with_room(&self) -> impl Iterator<Item = usize> {
        let room = self.config.room as usize;
        let ready = self
            .nodes
            .values()
            .filter(|node| node.0 == NodeState::Ready);
        ready
            .map(|node| node.1.len())
            .filter(move |viewers| *viewers < room)
    }

    pub fn count(&self, state: NodeState) -> usize {
        self.nodes.values().filter(|node| node.0 == state).count()
    }

    /// Nodes that those who wait are to have.
    fn owed(&self) -> usize {
        let waiting = self.waiting.len();
        match self.config.allocation {
            Allocation::OneAtATime => waiting.min(1),
            Allocation::OnePerNeed => waiting.div_ceil(self.config.room as usize),
            Allocation::OnePerRequest => waiting,
        }
    }

    /// Nodes that are kept, and are not there.
    fn missing(&self) -> usize {
        (self.config.min_nodes as usize).saturating_sub(self.count(NodeState::Ready))
    }

    /// One action is allowed, and done.
    pub fn act(&mut self, event: Event, action: Action, lost: &mut BTreeSet<ClientId>) {
        let request = Event::Request {
            client: *self.waiting.last().unwrap_or(&0),
        };
        match action {
            Action::Redirect { client, node } => {
                assert_eq!(self.waiting.remove(0), client, "in order of arrival");
                let placed = match self.config.placement {
                    Placement::Fullest => self.with_room().max(),
                    Placement::Emptiest => self.with_room().min(),
                };
                let (state, seats) = self.nodes.get_mut(&node).unwrap();
                assert_eq!(*state, NodeState::Ready);
                assert_eq!(
                    Some(seats.len()),
                    placed,
                    "the right one of those with room"
                );
                assert!(seats.insert(client));
            }
            Action::Wait { client } => assert_eq!(request, Event::Request { client }),
            Action::TurnAway { client, why } => {
                self.waiting.retain(|other| *other != client);
                let others = self.waiting.len();
                match why {
                    Why::Patience => assert_eq!(event, Event::TimedOut { client }),
                    Why::WaitingRoomFull => {
                        assert_eq!(Some(others), self.config.waiting_room.map(|n| n as usize));
                    }
                    Why::NoNodes => {
                        assert!(self.config.room == 0 || self.config.max_nodes == Some(0));
                    }
                }
            }
            Action::Lost { client, .. } => assert!(lost.remove(&client)),
            Action::Allocate { node } => {
                assert_eq!(node, self.allocated, "a new id");
                self.allocated += 1;
                self.nodes
                    .insert(node, (NodeState::Coming, BTreeSet::new()));
                if FORESEE_NOTHING.contains(&self.policy.as_str()) {
                    let most = self.owed().max(self.missing());
                    assert!(self.count(NodeState::Coming) <= most, "nobody needs it");
                }
            }
            Action::Release { node } => {
                let ready = self.count(NodeState::Ready);
                assert!(
                    ready > self.config.min_nodes as usize,
                    "the last that are kept"
                );
                let (state, seats) = self.nodes.get_mut(&node).unwrap();
                assert_eq!(*state, NodeState::Ready);
                assert!(seats.is_empty(), "released under a viewer");
                *state = NodeState::Leaving;
            }
        }
    }

    /// What is so between events.
    pub fn check(&self) {
        let room = self.config.room as usize;
        assert!(self.nodes.values().all(|(_, seats)| seats.len() <= room));
        let most = self
            .config
            .max_nodes
            .map_or(usize::MAX, |most| most as usize);
        assert!(self.nodes.len() <= most);
        let coming = self.count(NodeState::Coming);
        let one_at_a_time = self.config.allocation == Allocation::OneAtATime;
        assert!(!one_at_a_time || coming <= 1);
        let may_come = self.nodes.len() < most && room > 0 && !(one_at_a_time && coming == 1);
        if may_come {
            assert!(coming >= self.missing(), "fewer than are kept");
        }
        if may_come && SERVE_WHO_WAITS.contains(&self.policy.as_str()) {
            assert!(coming >= self.owed(), "fewer than those who wait need");
        }
        if !self.waiting.is_empty() {
            assert_eq!(
                self.with_room().next(),
                None,
                "somebody waits in front of a free seat"
            );
            assert!(!self.nodes.is_empty(), "somebody waits for nothing");
        }
    }

    pub fn agrees_with(&self, machine: &Machine<AnyPolicy>) {
        let snapshot = machine.snapshot();
        assert_eq!(snapshot.waiting, self.waiting);
        let states: Vec<_> = snapshot
            .nodes
            .iter()
            .map(|node| (node.node, node.state))
            .collect();
        let expected: Vec<_> = self.nodes.iter().map(|(id, node)| (*id, node.0)).collect();
        assert_eq!(states, expected);
        let view = machine.view();
        let served: usize = self.nodes.values().map(|node| node.1.len()).sum();
        assert_eq!(view.served, served as u64);
        assert_eq!(view.waiting, self.waiting.len() as u64);
        assert_eq!(view.coming as usize, self.count(NodeState::Coming));
        assert_eq!(view.ready as usize, self.count(NodeState::Ready));
        assert_eq!(view.leaving as usize, self.count(NodeState::Leaving));
        let ready = self
            .nodes
            .values()
            .filter(|node| node.0 == NodeState::Ready);
        let idle = ready.filter(|node| node.1.is_empty()).count();
        assert_eq!((view.spent + view.fresh) as usize, idle);
        for (node, (_, seats)) in &self.nodes {
            for client in seats {
                assert_eq!(machine.whereabouts(*client), Whereabouts::Served(*node));
            }
        }
    }
}
