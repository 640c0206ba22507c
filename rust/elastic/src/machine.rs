//! The state machine.

#![expect(
    clippy::inline_always,
    reason = "of each event of a simulation, millions a second: where it is known what happened, nothing else is looked at"
)]

use serde::Serialize;

use crate::config::Config;
use crate::event::{Action, ClientId, Event, NodeId, Refused, Why};
use crate::nodes::{NodeState, Nodes};
use crate::policy::{Policy, View};
use crate::present::{Dense, Hashed, Index, Place, Present};
use crate::settings::BadSetting;

mod settle;

/// A node, looked at from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeView {
    pub node: NodeId,
    pub state: NodeState,
    pub viewers: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    Waiting,
    Served(NodeId),
    /// It has not asked, or has gone.
    Unknown,
}

/// All that a machine knows; two that know the same go on alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    pub view: View,
    /// In the order in which they will be served.
    pub waiting: Vec<ClientId>,
    pub nodes: Vec<NodeView>,
    /// Who is served, and where.
    pub served: Vec<(NodeId, Vec<ClientId>)>,
}

/// The head of an elastic application. `I` finds viewers: [`Hashed`] any ids, [`Dense`] small ones.
#[derive(Clone, Debug)]
pub struct Machine<P, I = Hashed> {
    config: Config,
    policy: P,
    view: View,
    nodes: Nodes,
    present: Present<I>,
}

impl<P: Policy> Machine<P> {
    /// With viewers who choose their ids.
    ///
    /// # Errors
    /// If the configuration contradicts itself.
    pub fn new(config: Config, policy: P) -> Result<Self, BadSetting> {
        Self::with_index(config, policy)
    }
}

impl<P: Policy> Machine<P, Dense> {
    /// With viewers whose ids the driver gives: the smallest ones that are free.
    ///
    /// # Errors
    /// If the configuration contradicts itself.
    pub fn dense(config: Config, policy: P) -> Result<Self, BadSetting> {
        Self::with_index(config, policy)
    }
}

impl<P: Policy, I: Index> Machine<P, I> {
    fn with_index(config: Config, policy: P) -> Result<Self, BadSetting> {
        config.check()?;
        let view = View {
            room: config.room,
            max_nodes: config.max_nodes.unwrap_or(u32::MAX),
            min_nodes: config.min_nodes,
            ..View::default()
        };
        Ok(Self {
            config,
            policy,
            view,
            nodes: Nodes::new(config.room),
            present: Present::new(),
        })
    }

    /// What happened, and when; adds what is to be done. `at` is in nanoseconds of the driver's clock
    /// and never goes back. The driver begins with a [`Event::Tick`].
    ///
    /// # Errors
    /// If it cannot have happened; then nothing has changed.
    #[inline(always)]
    pub fn handle(
        &mut self,
        at: u64,
        event: Event,
        actions: &mut Vec<Action>,
    ) -> Result<(), Refused> {
        if at < self.view.at {
            let last = self.view.at;
            return Err(Refused::Backwards { at, last });
        }
        match event {
            Event::Request { client } => self.request(at, client, actions)?,
            Event::Finished { client } => self.finished(at, client, actions)?,
            Event::TimedOut { client } => self.timed_out(client, actions)?,
            Event::NodeReady { node } => self.node_ready(at, node, actions)?,
            Event::NodeFailed { node } => self.node_failed(node, actions)?,
            Event::Released { node } => self.released(node)?,
            Event::Tick => {}
        }
        self.view.at = at;
        self.settle(actions);
        Ok(())
    }

    /// When to send a [`Event::Tick`] at the latest, if nothing else happens before.
    #[must_use]
    pub fn wake_at(&self) -> Option<u64> {
        self.policy.wake_at(&self.view)
    }

    /// Counts, as the policy has seen them last.
    #[must_use]
    #[inline]
    pub fn view(&self) -> &View {
        &self.view
    }

    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    #[must_use]
    pub fn policy(&self) -> &P {
        &self.policy
    }

    #[must_use]
    pub fn whereabouts(&self, client: ClientId) -> Whereabouts {
        match self.present.find(client) {
            None => Whereabouts::Unknown,
            Some((_, Place::Waits)) => Whereabouts::Waiting,
            Some((_, Place::At(node))) => Whereabouts::Served(self.nodes.get(node).id),
        }
    }

    /// None: there is no such node, or not any more.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<NodeView> {
        let node = self.nodes.get(self.nodes.find(id)?);
        Some(NodeView {
            node: id,
            state: node.state,
            viewers: node.viewers,
        })
    }

    /// All nodes, in the order of their ids.
    pub fn nodes(&self) -> impl Iterator<Item = NodeView> {
        self.nodes.in_order().into_iter().map(|node| NodeView {
            node: node.id,
            state: node.state,
            viewers: node.viewers,
        })
    }

    /// Those who wait, in the order in which they will be served.
    pub fn waiting(&self) -> impl Iterator<Item = ClientId> {
        self.present.waiting()
    }

    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let nodes = self.nodes.in_order();
        let served = nodes.iter().filter(|node| node.viewers > 0);
        let served = served.map(|node| (node.id, self.present.in_chain(node.seats).collect()));
        Snapshot {
            view: self.view,
            waiting: self.waiting().collect(),
            served: served.collect(),
            nodes: self.nodes().collect(),
        }
    }
}

/// What follows from each event. What cannot be is refused before anything changes.
impl<P: Policy, I: Index> Machine<P, I> {
    #[inline(always)]
    fn request(
        &mut self,
        at: u64,
        client: ClientId,
        actions: &mut Vec<Action>,
    ) -> Result<(), Refused> {
        match self.present.find(client) {
            Some((_, Place::Waits)) => return Err(Refused::AlreadyWaiting { client }),
            Some((slot, Place::At(node))) => {
                self.unseat(at, slot, node);
                self.serve_waiting(actions);
            }
            None => {}
        }
        if let Some(node) = self.nodes.with_room(self.config.placement) {
            let slot = self.present.enter(client).ok_or(Refused::TooMany)?;
            self.view.requested += 1;
            self.seat(slot, client, node, actions);
            return Ok(());
        }
        let turned_away = if self.config.room == 0 || self.view.max_nodes == 0 {
            Some(Why::NoNodes)
        } else if self
            .config
            .waiting_room
            .is_some_and(|most| self.view.waiting >= u64::from(most))
        {
            Some(Why::WaitingRoomFull)
        } else {
            None
        };
        if let Some(why) = turned_away {
            self.view.requested += 1;
            actions.push(Action::TurnAway { client, why });
            return Ok(());
        }
        let slot = self.present.enter(client).ok_or(Refused::TooMany)?;
        self.present.wait(slot);
        self.view.requested += 1;
        self.view.waiting += 1;
        actions.push(Action::Wait { client });
        Ok(())
    }

    #[inline(always)]
    fn finished(
        &mut self,
        at: u64,
        client: ClientId,
        actions: &mut Vec<Action>,
    ) -> Result<(), Refused> {
        let Some((slot, Place::At(node))) = self.present.find(client) else {
            return Err(Refused::NotServed { client });
        };
        self.unseat(at, slot, node);
        self.serve_waiting(actions);
        Ok(())
    }

    fn timed_out(&mut self, client: ClientId, actions: &mut Vec<Action>) -> Result<(), Refused> {
        let Some((slot, Place::Waits)) = self.present.find(client) else {
            return Err(Refused::NotWaiting { client });
        };
        self.present.stop_waiting(slot);
        self.present.leave(slot);
        self.view.waiting -= 1;
        let why = Why::Patience;
        actions.push(Action::TurnAway { client, why });
        Ok(())
    }

    fn node_ready(
        &mut self,
        at: u64,
        node: NodeId,
        actions: &mut Vec<Action>,
    ) -> Result<(), Refused> {
        let slot = self.in_state(node, NodeState::Coming);
        let slot = slot.ok_or(Refused::NotComing { node })?;
        self.nodes.ready(slot, at);
        self.view.coming -= 1;
        self.view.ready += 1;
        self.serve_waiting(actions);
        Ok(())
    }

    fn node_failed(&mut self, node: NodeId, actions: &mut Vec<Action>) -> Result<(), Refused> {
        let slot = self.nodes.find(node).ok_or(Refused::NoSuchNode { node })?;
        let mut failed = self.nodes.forget(slot);
        match failed.state {
            NodeState::Coming => self.view.coming -= 1,
            NodeState::Ready => self.view.ready -= 1,
            NodeState::Leaving => self.view.leaving -= 1,
        }
        while let Some(viewer) = failed.seats.first() {
            self.present.unseat(viewer, &mut failed.seats);
            let client = self.present.leave(viewer);
            self.view.served -= 1;
            actions.push(Action::Lost { client, node });
        }
        Ok(())
    }

    fn released(&mut self, node: NodeId) -> Result<(), Refused> {
        let slot = self.in_state(node, NodeState::Leaving);
        self.nodes.forget(slot.ok_or(Refused::NotLeaving { node })?);
        self.view.leaving -= 1;
        Ok(())
    }

    fn in_state(&self, node: NodeId, state: NodeState) -> Option<u32> {
        let slot = self.nodes.find(node)?;
        (self.nodes.get(slot).state == state).then_some(slot)
    }

    /// A viewer in no list goes to a node with room.
    #[inline(always)]
    fn seat(&mut self, slot: u32, client: ClientId, node: u32, actions: &mut Vec<Action>) {
        self.nodes.add(node);
        self.present.seat(slot, node, self.nodes.seats(node));
        self.view.served += 1;
        let node = self.nodes.get(node).id;
        actions.push(Action::Redirect { client, node });
    }

    /// A served viewer goes.
    #[inline(always)]
    fn unseat(&mut self, at: u64, slot: u32, node: u32) {
        self.present.unseat(slot, self.nodes.seats(node));
        self.present.leave(slot);
        self.nodes.subtract(node, at);
        self.view.served -= 1;
    }

    /// Those who wait, in order, as far as there is room.
    #[inline(always)]
    fn serve_waiting(&mut self, actions: &mut Vec<Action>) {
        while let Some(slot) = self.present.first_waiting() {
            let Some(node) = self.nodes.with_room(self.config.placement) else {
                return;
            };
            let client = self.present.stop_waiting(slot);
            self.view.waiting -= 1;
            self.seat(slot, client, node, actions);
        }
    }
}
