//! Between the world and the state machine: every event is logged, what follows from it is logged, and
//! both are on the log's file before a viewer or the controller is told.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Value, json};
use ullage_clock::Clock;
use ullage_common::{Failure, say};
use ullage_elastic::log::{FORMAT, Record, Replayed};
use ullage_elastic::{Action, AnyPolicy, ClientId, Event, Machine, NodeId, NodeState, Refused};

use crate::answer::{self, Words};
use crate::config::{Settings, ns};
use crate::controller::{Place, Report};
use crate::counts::Counts;
use crate::event_log::EventLog;
use crate::http::Page;
use crate::sessions::{Due, Sessions};
use crate::token::Token;

/// How far a log may be ahead of the clock: clocks of processes on one kernel differ by less.
const AHEAD_NS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
pub enum Answer {
    Redirect { client: ClientId, node: NodeId },
    Done,
    Words(Words),
    Page(Page),
}

/// What the controller is told.
#[derive(Clone, Debug, Serialize)]
pub struct Order {
    at_ns: u64,
    #[serde(flatten)]
    kind: OrderKind,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum OrderKind {
    Allocate(NodeId),
    Release(NodeId),
    /// What it told makes no sense.
    Refused(String),
}

/// All that the front knows.
pub struct Front {
    pub machine: Machine<AnyPolicy>,
    pub places: HashMap<NodeId, Place>,
    pub sessions: Sessions,
    pub counts: Counts,
    pub log: EventLog,
    /// To be sent when the log is written.
    pub answers: Vec<(Token, Answer)>,
    pub orders: Vec<Order>,
    /// Who asks, while that is being decided.
    asking: Option<Asking>,
    actions: Vec<Action>,
    last_ns: u64,
    patience_ns_max: u64,
    watch_ns_max: Option<u64>,
    rejoin_ns: u64,
}

#[derive(Clone, Copy)]
struct Asking {
    client: ClientId,
    token: Token,
    deadline: u64,
}

/// What was found in the log.
#[derive(Debug, Serialize)]
pub struct Resumed {
    events: u64,
    waiting: u64,
    served: u64,
    nodes: u32,
    cut_bytes: u64,
}

impl Front {
    /// With the state that the log tells, which is told too; none of a log that began with this front.
    pub fn open(settings: &Settings) -> Result<(Self, Option<Resumed>), Failure> {
        let Settings { config, policy, .. } = settings;
        let (log, replayed, cut_bytes) =
            EventLog::open(&settings.log, settings.log_sync, *config, policy)?;
        let now = Clock::get().now();
        if replayed.at_ns > now + AHEAD_NS {
            let ahead = (replayed.at_ns - now) / 1_000_000_000;
            let why =
                format!("it ends {ahead} s from now: another machine's, or before it was started");
            return Err(Failure::bad(settings.log.to_string_lossy(), why));
        }
        let Replayed {
            machine,
            at_ns,
            events,
            notes,
            unwritten,
            whole,
        } = replayed;
        let mut front = Self {
            machine,
            places: places(notes),
            sessions: Sessions::new(),
            counts: Counts::default(),
            log,
            answers: Vec::new(),
            orders: Vec::new(),
            asking: None,
            actions: Vec::new(),
            last_ns: at_ns,
            patience_ns_max: ns(settings.patience_ms_max),
            watch_ns_max: settings.watch_ms_max.map(ns),
            rejoin_ns: ns(settings.rejoin_ms),
        };
        // Nobody was told, and who was concerned asks again.
        for action in unwritten {
            front.log.add(at_ns, Record::Action(action));
        }
        let (config, policy) = (*config, policy.clone());
        let begin = Record::Begin {
            format: FORMAT,
            config,
            policy,
        };
        let now = front.now();
        front.log.add(now, begin);
        front.resume(now);
        let view = front.machine.view();
        let resumed = Resumed {
            events,
            waiting: view.waiting,
            served: view.served,
            nodes: view.coming + view.ready + view.leaving,
            cut_bytes,
        };
        front.happen(Event::Tick).expect("time can pass");
        Ok((front, (whole > 0).then_some(resumed)))
    }

    /// What is under way goes on: the controller is told again what to do, those who waited have some
    /// time to ask again, and those who watch may go on for as long as anybody.
    fn resume(&mut self, now: u64) {
        for client in self.machine.waiting() {
            self.sessions.hold(client, None, now, now + self.rejoin_ns);
        }
        if let Some(longest) = self.watch_ns_max {
            for (_, clients) in self.machine.snapshot().served {
                for client in clients {
                    self.sessions.watch(client, now + longest);
                }
            }
        }
        let orders = self.machine.nodes().filter_map(|node| match node.state {
            NodeState::Coming => Some(OrderKind::Allocate(node.node)),
            NodeState::Leaving => Some(OrderKind::Release(node.node)),
            NodeState::Ready => None,
        });
        self.orders
            .extend(orders.map(|kind| Order { at_ns: now, kind }));
        let ids: Vec<NodeId> = self.machine.nodes().map(|node| node.node).collect();
        self.places.retain(|node, _| ids.contains(node));
    }

    /// The time of the next event.
    pub fn now(&mut self) -> u64 {
        self.last_ns = self.last_ns.max(Clock::get().now());
        self.last_ns
    }

    /// A viewer asks for a node.
    pub fn watch(&mut self, token: Token, client: ClientId, patience_ms: Option<u64>) {
        self.counts.requests += 1;
        let now = self.now();
        let patience = patience_ms.map_or(u64::MAX, ns).min(self.patience_ns_max);
        if self.sessions.has(client) {
            let before = self.sessions.hold(client, Some(token), now, now + patience);
            self.answers
                .extend(before.map(|token| (token, Answer::Words(answer::ELSEWHERE))));
            return;
        }
        self.sessions.gone(client);
        let deadline = now + patience;
        self.asking = Some(Asking {
            client,
            token,
            deadline,
        });
        if let Err(refused) = self.happen(Event::Request { client }) {
            say(&format!("error: viewer {client}: {refused}"));
            self.answers
                .push((token, Answer::Words(answer::UNCOUNTABLE)));
        }
        self.asking = None;
    }

    /// A viewer has seen enough.
    pub fn finished(&mut self, token: Token, client: ClientId) {
        let answer = if self.happen(Event::Finished { client }).is_ok() {
            self.counts.finished += 1;
            self.sessions.gone(client);
            Answer::Done
        } else {
            Answer::Words(answer::UNKNOWN)
        };
        self.answers.push((token, answer));
    }

    /// A viewer could not be told where to go: it does not watch.
    pub fn missed(&mut self, client: ClientId) {
        if self.happen(Event::Finished { client }).is_ok() {
            self.counts.missed += 1;
            self.sessions.gone(client);
        }
    }

    /// A connection is gone: if its viewer waited there, it waits no more.
    pub fn left(&mut self, token: Token, client: ClientId) {
        if self.sessions.at(client) == Some(token) {
            self.happen(Event::TimedOut { client })
                .expect("who is held waits");
        }
    }

    /// The controller has told something.
    pub fn take(&mut self, report: Report) {
        let result = match report {
            Report::Ready(node, place) => self.ready(node, place),
            Report::Failed(node, why) => self.failed(node, &why),
            Report::Released(node) => self.happen(Event::Released { node }),
            Report::Nonsense(why) => return self.refuse(why),
            Report::Quit | Report::Gone => Ok(()),
        };
        if let Err(refused) = result {
            self.refuse(refused.to_string());
        }
    }

    fn ready(&mut self, node: NodeId, place: Place) -> Result<(), Refused> {
        match self.machine.node(node).map(|view| view.state) {
            Some(NodeState::Coming) => {}
            // After a restart the controller says again what it is not sure that we have heard.
            Some(NodeState::Ready) if self.places.get(&node) == Some(&place) => return Ok(()),
            _ => return Err(Refused::NotComing { node }),
        }
        let Place { address, url } = &place;
        self.note(json!({"node": node, "address": address, "url": url}));
        self.places.insert(node, place);
        self.happen(Event::NodeReady { node })
    }

    fn failed(&mut self, node: NodeId, why: &str) -> Result<(), Refused> {
        if self.machine.node(node).is_none() {
            return Err(Refused::NoSuchNode { node });
        }
        self.note(json!({"failed": node, "why": why}));
        self.counts.node_failures += 1;
        self.happen(Event::NodeFailed { node })
    }

    fn refuse(&mut self, why: String) {
        let at_ns = self.now();
        let kind = OrderKind::Refused(why);
        self.orders.push(Order { at_ns, kind });
    }

    fn note(&mut self, note: Value) {
        let now = self.now();
        self.log.add(now, Record::Note { note });
    }

    /// What is due by now.
    pub fn due(&mut self) {
        let now = self.now();
        while let Some(due) = self.sessions.due(now) {
            match due {
                Due::Patience(client) => {
                    self.happen(Event::TimedOut { client })
                        .expect("who is held waits");
                }
                Due::Watch(client) => {
                    if self.happen(Event::Finished { client }).is_ok() {
                        self.counts.overstayed += 1;
                    }
                }
            }
        }
        if self.machine.wake_at().is_some_and(|at| at <= now) {
            self.happen(Event::Tick).expect("time can pass");
        }
    }

    /// When something is due, at the latest.
    pub fn next_due(&self) -> Option<u64> {
        let both = [self.sessions.next_due(), self.machine.wake_at()];
        both.into_iter().flatten().min()
    }

    fn happen(&mut self, event: Event) -> Result<(), Refused> {
        let now = self.now();
        let mut actions = std::mem::take(&mut self.actions);
        let result = self.machine.handle(now, event, &mut actions);
        if result.is_ok() {
            self.log.add(now, Record::Event(event));
            for action in &actions {
                self.log.add(now, Record::Action(*action));
                self.act(now, *action);
            }
        }
        actions.clear();
        self.actions = actions;
        if let (Ok(()), Event::NodeFailed { node } | Event::Released { node }) = (&result, event) {
            self.places.remove(&node);
        }
        result
    }

    fn act(&mut self, now: u64, action: Action) {
        match action {
            Action::Redirect { client, node } => {
                self.counts.redirects += 1;
                let (token, since) = self.whose(client, now);
                self.counts.waits.record(now - since);
                // One that has not asked again since a restart does not know it; perhaps it is gone.
                let longest = token.map_or(Some(self.rejoin_ns), |_| self.watch_ns_max);
                if let Some(longest) = longest {
                    self.sessions.watch(client, now + longest);
                }
                self.answer(token, Answer::Redirect { client, node });
            }
            Action::Wait { client } => {
                if let Some(asking) = self.asking_as(client) {
                    self.sessions
                        .hold(client, Some(asking.token), now, asking.deadline);
                }
            }
            Action::TurnAway { client, why } => {
                self.counts.turned_away(why);
                let (token, _) = self.whose(client, now);
                self.answer(token, Answer::Words(answer::turned_away(why)));
            }
            Action::Lost { client, .. } => {
                self.counts.lost += 1;
                self.sessions.gone(client);
            }
            Action::Allocate { node } => {
                self.counts.allocated += 1;
                self.order(now, OrderKind::Allocate(node));
            }
            Action::Release { node } => {
                self.counts.released += 1;
                self.order(now, OrderKind::Release(node));
            }
        }
    }

    /// Where a viewer is answered, and when it asked: it has waited, or is asking now.
    fn whose(&mut self, client: ClientId, now: u64) -> (Option<Token>, u64) {
        match self.sessions.end(client) {
            Some(held) => (held.token, held.since),
            None => (self.asking_as(client).map(|asking| asking.token), now),
        }
    }

    fn asking_as(&mut self, client: ClientId) -> Option<Asking> {
        self.asking.take_if(|asking| asking.client == client)
    }

    fn answer(&mut self, token: Option<Token>, answer: Answer) {
        self.answers.extend(token.map(|token| (token, answer)));
    }

    fn order(&mut self, at_ns: u64, kind: OrderKind) {
        self.orders.push(Order { at_ns, kind });
    }
}

/// Where the nodes are, by the log's notes.
fn places(notes: Vec<(u64, Value)>) -> HashMap<NodeId, Place> {
    let place = |note: Value| {
        let node = NodeId::try_from(note.get("node")?.as_u64()?).ok()?;
        let text = |key| Some(note.get(key)?.as_str()?.to_owned());
        let address = text("address")?;
        let url = text("url")?;
        Some((node, Place { address, url }))
    };
    notes
        .into_iter()
        .filter_map(|(_, note)| place(note))
        .collect()
}
