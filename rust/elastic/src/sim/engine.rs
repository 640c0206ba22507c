//! Time goes from event to event.

use std::ops::ControlFlow;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::ahead::{Ahead, NEVER};
use super::error::{Error, SpecError};
use super::fleet::Fleet;
use super::meter::Meter;
use super::offered::Offered;
use super::outcome::{Decisions, End, Outcome, Steady, Times, ViewerCounts};
use super::progress::{Observer, Progress};
use super::queue::{Due, Kind, Queue};
use super::records::Records;
use super::sessions::{Session, Sessions};
use super::spec::Spec;
use super::time::Draw;
use crate::units::{ns, seconds};
use crate::{Action, AnyPolicy, Dense, Event, Machine, NodeId, Schedule};

mod viewers;

/// Events between two reports of progress, a few milliseconds.
const REPORT: u64 = 1 << 16;
const NOBODY: u32 = u32::MAX;

struct Engine<'a, O> {
    spec: &'a Spec,
    observer: &'a mut O,
    machine: Machine<AnyPolicy, Dense>,
    actions: Vec<Action>,
    queue: Queue,
    sessions: Sessions,
    fleet: Fleet,
    meter: Meter,
    records: Records,
    ahead: Ahead,
    patience: Option<Draw>,
    reconnect: Option<Draw>,
    /// The slot of who asks at this instant, and what there is to know of it.
    asking: u32,
    asker: Session,
    /// What there is to know of those who watch is kept too: for records, or because they can lose
    /// their nodes.
    remembers: bool,
    warm_up: u64,
    counts: ViewerCounts,
    /// The figures of those that came after the warm-up.
    steady: ViewerCounts,
    waits: Times,
    decisions: Decisions,
    events: u64,
}

pub(super) fn run<O: Observer>(
    spec: &Spec,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    observer: &mut O,
) -> Result<Outcome, Error> {
    let mut engine = Engine::new(spec, observer)?;
    engine.go(progress)?;
    Ok(engine.finish())
}

impl<'a, O: Observer> Engine<'a, O> {
    fn new(spec: &'a Spec, observer: &'a mut O) -> Result<Self, SpecError> {
        let mut root = Xoshiro256PlusPlus::seed_from_u64(spec.seed);
        // Far apart in one sequence: each has 2^128 numbers of its own.
        let mut random = || {
            root.jump();
            root.clone()
        };
        let until = spec.duration_s.map(ns);
        let schedule = Schedule::new(&spec.arrivals, random(), spec.sessions, until);
        let watch = Draw::new(&spec.watch, random())?;
        let patience = spec.patience.as_ref();
        let patience = patience.map(|time| Draw::new(time, random())).transpose()?;
        let reconnect = spec.reconnect.as_ref();
        let reconnect = reconnect
            .map(|time| Draw::new(time, random()))
            .transpose()?;
        let machine = Machine::dense(spec.application, spec.policy.clone());
        let warm_up = ns(spec.warm_up_s);
        let offered = Offered::new(spec.application.room, ns(spec.window_s));
        Ok(Self {
            spec,
            observer,
            machine: machine.map_err(|bad| SpecError::of("application", &bad))?,
            actions: Vec::new(),
            queue: Queue::new(),
            sessions: Sessions::default(),
            fleet: Fleet::new(spec, random)?,
            meter: Meter::new(offered, spec.points, warm_up),
            records: Records(spec.records.then(Vec::new)),
            ahead: Ahead::new(schedule, watch),
            patience,
            reconnect,
            asking: NOBODY,
            asker: Session::default(),
            remembers: spec.records || spec.failures.lifetime.is_some(),
            warm_up,
            counts: ViewerCounts::default(),
            steady: ViewerCounts::default(),
            waits: Times::new(),
            decisions: Decisions::default(),
            events: 0,
        })
    }

    /// Runs until the last viewer has gone, and the time given is over.
    fn go(&mut self, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<(), Error> {
        let until = self.spec.duration_s.map_or(0, ns);
        self.seldom(0, Event::Tick)?;
        let mut report = REPORT;
        loop {
            // At the same time, what is due is first, then the policy, then who comes.
            let wake = self.machine.wake_at().unwrap_or(NEVER);
            let next = self.ahead.arrival.min(wake);
            let over = self.ahead.arrival == NEVER && self.sessions.count() == 0;
            let latest = if over { next.min(until) } else { next };
            if let Some(due) = self.queue.pop_until(latest) {
                self.due(due)?;
            } else if next == NEVER || over && next > until {
                return Ok(());
            } else if next == wake {
                self.seldom(next, Event::Tick)?;
            } else {
                self.arrive(next)?;
            }
            if self.events >= report {
                report = self.events + REPORT;
                if progress(self.progress()).is_break() {
                    return Err(Error::Cancelled);
                }
            }
        }
    }

    #[inline]
    fn arrive(&mut self, at: u64) -> Result<(), Error> {
        let number = self.counts.requests;
        self.counts.requests += 1;
        self.steady.requests += u64::from(at >= self.warm_up);
        self.asking = self.sessions.open();
        self.asker = Session {
            number,
            requested: at,
            watch: self.ahead.watch,
            ..Session::default()
        };
        self.meter.until(at);
        self.meter.offered.come(at);
        self.records.requested(at, self.ahead.watch);
        self.ahead.advance();
        let client = self.asking.into();
        self.tell(at, Event::Request { client })?;
        self.asking = NOBODY;
        if self.ahead.arrival == NEVER {
            self.meter.last_arrival(at);
        }
        Ok(())
    }

    /// Something happens, unless it is past.
    #[inline]
    fn due(&mut self, due: Due) -> Result<(), Error> {
        let Due { at, kind, whom } = due;
        self.meter.until(at);
        if kind != Kind::Finished {
            return self.seldom_due(due);
        }
        let Some(slot) = self.sessions.of_timer(whom) else {
            return Ok(());
        };
        self.counts.finished += 1;
        if !Sessions::late(whom) {
            self.meter.offered.go(at);
        }
        if self.records.enabled() {
            let number = self.sessions.get(slot).number;
            self.records.ended(number, at, End::Finished);
        }
        self.sessions.close(slot);
        let client = slot.into();
        self.tell(at, Event::Finished { client })
    }

    #[inline(never)]
    fn seldom_due(&mut self, due: Due) -> Result<(), Error> {
        let Due { at, kind, whom } = due;
        if !matches!(kind, Kind::TimedOut | Kind::Back) {
            return self.node_due(at, kind, whom);
        }
        let Some(slot) = self.sessions.of_timer(whom) else {
            return Ok(());
        };
        let client = slot.into();
        if kind == Kind::TimedOut {
            return self.seldom(at, Event::TimedOut { client });
        }
        self.counts.reconnected += 1;
        self.asking = slot;
        self.asker = Session {
            requested: at,
            ..self.sessions.get(slot)
        };
        self.seldom(at, Event::Request { client })?;
        self.asking = NOBODY;
        Ok(())
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a node's number was put there"
    )]
    fn node_due(&mut self, at: u64, kind: Kind, whom: u64) -> Result<(), Error> {
        let node = whom as NodeId;
        match kind {
            Kind::Ready => {
                let dies = self.fleet.ready(at, node);
                if let Some(due) = dies {
                    self.queue.push(due);
                }
                self.seldom(at, Event::NodeReady { node })
            }
            Kind::Again => {
                let due = self.fleet.attempt(at, node);
                self.queue.push(due);
                Ok(())
            }
            Kind::Released => {
                self.fleet.released(at, node);
                self.seldom(at, Event::Released { node })
            }
            Kind::Failed => {
                self.fleet.failed(at, node);
                self.seldom(at, Event::NodeFailed { node })
            }
            Kind::Died if self.fleet.dies(at, node) => self.seldom(at, Event::NodeFailed { node }),
            _ => Ok(()),
        }
    }

    /// The same where it need not be quick.
    #[inline(never)]
    fn seldom(&mut self, at: u64, event: Event) -> Result<(), Error> {
        self.meter.until(at);
        self.tell(at, event)
    }

    /// Tells the machine, and does what it says.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "for each of the two events that are most of all"
    )]
    fn tell(&mut self, at: u64, event: Event) -> Result<(), Error> {
        self.events += 1;
        self.actions.clear();
        self.machine.handle(at, event, &mut self.actions)?;
        self.observer.saw(at, event, &self.actions);
        for i in 0..self.actions.len() {
            self.act(at, self.actions[i]);
        }
        self.meter.set(at, self.machine.view());
        Ok(())
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "for most events")]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a viewer's number is its slot"
    )]
    fn act(&mut self, at: u64, action: Action) {
        match action {
            Action::Redirect { client, node } => self.redirect(at, client as u32, node),
            Action::Wait { client } => self.wait(at, client as u32),
            Action::TurnAway { client, why } => self.turn_away(at, client as u32, why),
            Action::Lost { client, .. } => self.lose(at, client as u32),
            Action::Allocate { node } => {
                self.decisions.allocate += 1;
                let due = self.fleet.allocate(at, node);
                self.queue.push(due);
            }
            Action::Release { node } => {
                self.decisions.release += 1;
                let due = self.fleet.release(at, node);
                self.queue.push(due);
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "about")]
    fn progress(&self) -> Progress {
        let at = self.machine.view().at;
        let requests = self.counts.requests;
        let come = self
            .spec
            .sessions
            .map(|of| requests as f64 / of.max(1) as f64);
        let past = self.spec.duration_s.map(|of| seconds(at) / of);
        Progress {
            requests,
            at_s: seconds(at),
            part: come.unwrap_or(0.0).max(past.unwrap_or(0.0)).min(1.0),
        }
    }

    fn finish(mut self) -> Outcome {
        // They are recorded as unserved from the beginning.
        self.counts.unserved = self.sessions.count() as u64;
        let end = self
            .machine
            .view()
            .at
            .max(self.spec.duration_s.map_or(0, ns));
        let steady = self.meter.steady().map(|levels| Steady {
            requests: self.steady.requests,
            at_once: self.steady.at_once,
            waited: self.steady.waited,
            blocked: self.steady.blocked,
            turned_away: self.steady.turned_away,
            levels,
        });
        let (whole, elasticity, curves) = self.meter.finish(end);
        let served = self.counts.at_once + self.counts.waited;
        Outcome {
            seed: self.spec.seed,
            ended_s: seconds(end),
            viewers: self.counts,
            blocked: part(self.counts.blocked, self.counts.requests),
            affected: part(self.counts.affected, served),
            wait: self.waits.summary(),
            nodes: self.fleet.counts,
            allocation: self.fleet.allocations.summary(),
            release: self.fleet.releases.summary(),
            decisions: self.decisions,
            events: self.events,
            whole,
            steady,
            elasticity,
            curves,
            records: self.records.0,
            node_records: self.fleet.records,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a part of 1")]
fn part(some: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| some as f64 / all as f64)
}
