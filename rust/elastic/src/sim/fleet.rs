//! The nodes outside the machine: how they come, fail, die and go.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::error::SpecError;
use super::hosts::Room;
use super::outcome::{NodeCounts, NodeRecord, Times};
use super::queue::{Due, Kind};
use super::spec::{SlowDown, Spec};
use super::time::Draw;
use crate::NodeId;
use crate::units::{ns, seconds};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Coming,
    Ready,
    Leaving,
}

#[derive(Debug)]
struct Node {
    state: State,
    host: Option<u32>,
    attempts_left: u32,
    /// Its last attempt will not be waited for to the end.
    given_up: bool,
    /// When it was asked for; when its release was.
    since: u64,
}

/// Stages of an allocation from so many concurrent ones on.
type Row = (u32, Vec<Draw>);

/// All nodes that are there, come or go.
pub(super) struct Fleet {
    nodes: HashMap<NodeId, Node, FixedState>,
    coming: u32,
    rows: Vec<Row>,
    slow_down: Vec<SlowDown>,
    gives_up_ns: Option<u64>,
    release: Draw,
    never_ready: f64,
    error: f64,
    error_after: Draw,
    retries: u32,
    retry_after: Draw,
    lifetime: Option<Draw>,
    hosts: Option<Room>,
    first_image: Option<Draw>,
    chance: Xoshiro256PlusPlus,
    pub(super) counts: NodeCounts,
    pub(super) allocations: Times,
    pub(super) releases: Times,
    pub(super) records: Option<Vec<NodeRecord>>,
}

impl Fleet {
    /// `random` gives a new generator for each purpose.
    pub(super) fn new(
        spec: &Spec,
        mut random: impl FnMut() -> Xoshiro256PlusPlus,
    ) -> Result<Self, SpecError> {
        let failures = &spec.failures;
        let first_image = spec
            .hosts
            .as_ref()
            .and_then(|hosts| hosts.first_image.as_ref());
        let rows = spec.allocation.rows.iter().map(|row| {
            let draws = row
                .stages
                .iter()
                .map(|stage| Draw::new(&stage.time, random()));
            Ok((row.concurrent, draws.collect::<Result<_, _>>()?))
        });
        let rows = rows.collect::<Result<_, SpecError>>()?;
        let mut draw = |time| Draw::new(time, random());
        Ok(Self {
            nodes: HashMap::default(),
            coming: 0,
            rows,
            slow_down: spec.allocation.slow_down.clone(),
            gives_up_ns: spec.allocation.gives_up_s.map(ns),
            release: draw(&spec.release)?,
            never_ready: failures.never_ready,
            error: failures.error,
            error_after: draw(&failures.error_after)?,
            retries: failures.retries,
            retry_after: draw(&failures.retry_after)?,
            lifetime: failures.lifetime.as_ref().map(&mut draw).transpose()?,
            hosts: spec.hosts.as_ref().map(Room::new),
            first_image: first_image.map(&mut draw).transpose()?,
            chance: random(),
            counts: NodeCounts::default(),
            allocations: Times::new(),
            releases: Times::new(),
            records: spec.records.then(Vec::new),
        })
    }

    /// The machine wants a node: what becomes of the first attempt.
    #[inline(never)]
    pub(super) fn allocate(&mut self, at: u64, node: NodeId) -> Due {
        self.counts.asked += 1;
        self.coming += 1;
        let new = Node {
            state: State::Coming,
            host: None,
            attempts_left: self.retries,
            given_up: false,
            since: at,
        };
        self.nodes.insert(node, new);
        self.record(node, |record| record.asked_s = seconds(at));
        self.attempt(at, node)
    }

    /// One more attempt, which has a result at its end.
    pub(super) fn attempt(&mut self, at: u64, node: NodeId) -> Due {
        let later = |kind, after: u64| Due {
            at: at.saturating_add(after),
            kind,
            whom: node.into(),
        };
        let host = match &mut self.hosts {
            None => None,
            Some(hosts) => match hosts.take() {
                None => {
                    self.counts.no_host += 1;
                    let (kind, after) = self.after_error(node);
                    return later(kind, after);
                }
                host => host,
            },
        };
        if self.happens(self.error) {
            self.counts.errors += 1;
            self.leave_host(host);
            let (kind, after) = self.after_error(node);
            return later(kind, after);
        }
        let takes = self.takes_ns(host);
        let never = self.happens(self.never_ready);
        let given_up = self.gives_up_ns.filter(|most| never || takes > *most);
        if let Some(entry) = self.nodes.get_mut(&node) {
            entry.host = host;
            entry.given_up = given_up.is_some();
        }
        match given_up {
            Some(after) => later(Kind::Failed, after),
            None => later(Kind::Ready, takes),
        }
    }

    /// The next attempt, or the end of them.
    fn after_error(&mut self, node: NodeId) -> (Kind, u64) {
        let mut after = self.error_after.ns().max(1);
        let left = self
            .nodes
            .get_mut(&node)
            .map(|entry| &mut entry.attempts_left);
        match left {
            Some(left) if *left > 0 => {
                *left -= 1;
                self.counts.retries += 1;
                after = after.saturating_add(self.retry_after.ns());
                (Kind::Again, after)
            }
            _ => (Kind::Failed, after),
        }
    }

    fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.chance.random::<f64>() < probability
    }

    /// How long an attempt takes that succeeds.
    fn takes_ns(&mut self, host: Option<u32>) -> u64 {
        let concurrent = self.coming;
        let row = self.rows.partition_point(|(least, _)| *least <= concurrent);
        let stages = &mut self.rows[row.saturating_sub(1)].1;
        let all = stages.iter_mut().map(Draw::ns).fold(0, u64::saturating_add);
        let takes = match factor(&self.slow_down, concurrent) {
            1.0 => all,
            factor => ns(seconds(all) * factor),
        };
        let has_image = self
            .hosts
            .as_ref()
            .zip(host)
            .is_none_or(|(room, it)| room.has_image(it));
        match &mut self.first_image {
            Some(first) if !has_image => takes.saturating_add(first.ns()),
            _ => takes,
        }
    }

    /// A node can stream: when it will die, if it does.
    pub(super) fn ready(&mut self, at: u64, node: NodeId) -> Option<Due> {
        let entry = self.nodes.get_mut(&node)?;
        entry.state = State::Ready;
        self.coming -= 1;
        self.counts.ready += 1;
        self.allocations.add(at - entry.since);
        if let Some((room, host)) = self.hosts.as_mut().zip(entry.host) {
            room.got_image(host);
        }
        self.record(node, |record| record.ready_s = Some(seconds(at)));
        let dies = at.saturating_add(self.lifetime.as_mut()?.ns().max(1));
        Some(Due {
            at: dies,
            kind: Kind::Died,
            whom: node.into(),
        })
    }

    /// A node was not allocated.
    pub(super) fn failed(&mut self, at: u64, node: NodeId) {
        self.coming -= 1;
        self.counts.failed += 1;
        let given_up = self.nodes.get(&node).is_some_and(|entry| entry.given_up);
        self.counts.given_up += u64::from(given_up);
        self.forget(at, node);
    }

    /// Does a node that was to die now still serve? Then it is dead.
    pub(super) fn dies(&mut self, at: u64, node: NodeId) -> bool {
        let serves = self
            .nodes
            .get(&node)
            .is_some_and(|entry| entry.state == State::Ready);
        if serves {
            self.counts.died += 1;
            self.forget(at, node);
        }
        serves
    }

    /// The machine lets a node go: when it is gone.
    #[inline(never)]
    pub(super) fn release(&mut self, at: u64, node: NodeId) -> Due {
        if let Some(entry) = self.nodes.get_mut(&node) {
            entry.state = State::Leaving;
            entry.since = at;
        }
        self.record(node, |record| record.release_s = Some(seconds(at)));
        Due {
            at: at.saturating_add(self.release.ns()),
            kind: Kind::Released,
            whom: node.into(),
        }
    }

    /// A released node is gone.
    pub(super) fn released(&mut self, at: u64, node: NodeId) {
        self.counts.released += 1;
        if let Some(entry) = self.nodes.get(&node) {
            self.releases.add(at - entry.since);
        }
        self.forget(at, node);
    }

    fn forget(&mut self, at: u64, node: NodeId) {
        let entry = self.nodes.remove(&node);
        self.leave_host(entry.and_then(|entry| entry.host));
        self.record(node, |record| record.gone_s = Some(seconds(at)));
    }

    fn leave_host(&mut self, host: Option<u32>) {
        if let Some((room, host)) = self.hosts.as_mut().zip(host) {
            room.give_back(host);
        }
    }

    /// Nodes are numbered as they are asked for, so the number is the place.
    fn record(&mut self, node: NodeId, change: impl Fn(&mut NodeRecord)) {
        let Some(all) = &mut self.records else {
            return;
        };
        if all.len() <= node as usize {
            all.resize_with(node as usize + 1, NodeRecord::default);
        }
        let its = &mut all[node as usize];
        its.node = node;
        change(its);
    }
}

/// By how much it takes longer.
pub(super) fn factor(rows: &[SlowDown], concurrent: u32) -> f64 {
    let above = rows.partition_point(|row| row.concurrent <= concurrent);
    let below = above.checked_sub(1).map_or(
        SlowDown {
            concurrent: 1,
            factor: 1.0,
        },
        |i| rows[i],
    );
    match rows.get(above) {
        Some(next) if next.concurrent > below.concurrent => {
            let part = f64::from(concurrent.saturating_sub(below.concurrent))
                / f64::from(next.concurrent - below.concurrent);
            below.factor + part * (next.factor - below.factor)
        }
        _ => below.factor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "exact in binary")]
    fn the_slow_down_is_linear_between_rows_and_constant_after_them() {
        let rows = [(2, 1.5), (4, 2.5)].map(|(concurrent, factor)| SlowDown { concurrent, factor });
        let factors: Vec<f64> = (1..=6).map(|n| factor(&rows, n)).collect();
        assert_eq!(factors, [1.0, 1.5, 2.0, 2.5, 2.5, 2.5]);
        assert_eq!(factor(&[], 9), 1.0);
    }
}
