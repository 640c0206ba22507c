//! Many machines, each of which asks another one.

use std::vec::Vec;

use super::{Between, Path, machine, ticks};
use crate::Reasons;
use crate::double::{Thread, World};
use crate::rgap::{Contradiction, Drift, Failure, Fix, Global, Outcome, Reading, Rules, Standing};

/// Machine 0 is the root, whose clock is the global one; every other one learns from a parent with a
/// smaller number, and serves with what it has learned, as [`crate::rgap::Synced`] does.
#[derive(Debug)]
pub struct Tree {
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    machine: Thread,
    parent: usize,
    between: Between,
    fixes: Vec<Fix>,
    estimate: Option<Estimate>,
    /// What happened to its own clock.
    reasons: Reasons,
}

#[derive(Clone, Copy, Debug)]
struct Estimate {
    global: Global,
    stratum: u8,
    reasons: Reasons,
}

impl Tree {
    /// The parent of each machine but the root, with the paths there and back.
    #[must_use]
    pub fn new(parents: &[(usize, [Path; 2])], seed: u64) -> Self {
        let root = [(0, [Path::default(); 2])];
        let nodes = root.iter().chain(parents).zip(0..);
        let node = |(&(parent, paths), number): (&(usize, [Path; 2]), u64)| Node {
            machine: machine(),
            // The root's is never asked; nobody's is further on.
            parent: parent.min(usize::try_from(number.saturating_sub(1)).unwrap_or(0)),
            between: Between::new(paths, 300, seed.wrapping_add(number << 32)),
            fixes: Vec::new(),
            estimate: None,
            reasons: Reasons::NONE,
        };
        Self {
            nodes: nodes.map(node).collect(),
        }
    }

    /// A machine, whose clock may be skewed. Its time passes by [`Tree::pass`] only.
    #[must_use]
    pub fn machine(&self, number: usize) -> &World {
        self.nodes[number].machine.world()
    }

    /// How many machines, the root included.
    #[must_use]
    pub fn machines(&self) -> usize {
        self.nodes.len()
    }

    #[must_use]
    pub fn parent(&self, number: usize) -> usize {
        self.nodes[number].parent
    }

    pub fn pass(&self, ns: u64) {
        for node in &self.nodes {
            node.machine.world().pass(ns);
        }
    }

    /// Something happens to the clock of this machine.
    pub fn happen(&mut self, number: usize, reasons: Reasons) {
        let node = &mut self.nodes[number];
        node.reasons = node.reasons | reasons;
    }

    /// The root's clock.
    #[must_use]
    pub fn truth(&self) -> u64 {
        ticks(&self.nodes[0].machine)
    }

    /// The global time of a machine, and what it says of itself.
    #[must_use]
    pub fn reading(&self, number: usize) -> (Reading, Standing) {
        self.nodes[number].reading(number == 0)
    }

    /// It asks its parent, and fits a line through all that it has learned so far.
    ///
    /// # Errors
    /// As [`crate::rgap::Client`] ends, or if it contradicts what was known.
    pub fn synchronise(
        &mut self,
        number: usize,
        rules: Rules,
        drift: &Drift,
    ) -> Result<Outcome, Failure> {
        let (before, below) = self.nodes.split_at_mut(number);
        let Some((node, after)) = below.split_first_mut().filter(|_| number > 0) else {
            return Err(Failure::NoAnswer);
        };
        let all = before.iter().chain(after.iter()).map(|it| &it.machine);
        let all: Vec<&Thread> = all.chain([&node.machine]).collect();
        let (parent, is_root) = (&before[node.parent], node.parent == 0);
        let serve = || {
            let (reading, standing) = parent.reading(is_root);
            (reading.ns, standing)
        };
        let outcome = node
            .between
            .synchronise(&all, &node.machine, serve, rules)?;
        node.learn(&outcome, drift)?;
        Ok(outcome)
    }
}

impl Node {
    fn learn(&mut self, outcome: &Outcome, drift: &Drift) -> Result<(), Contradiction> {
        if self.reasons.any(Reasons::ADRIFT) {
            self.fixes.clear();
        }
        self.fixes.push(outcome.fix);
        let standing = outcome.best.standing();
        self.estimate = Some(Estimate {
            global: Global::fit(&self.fixes, drift)?,
            stratum: standing.stratum.saturating_add(1),
            reasons: standing.reasons,
        });
        self.reasons = self.reasons.without(Reasons::ADRIFT);
        Ok(())
    }

    fn reading(&self, is_root: bool) -> (Reading, Standing) {
        let local_ns = ticks(&self.machine);
        let reasons = self.reasons | self.estimate.map_or(Reasons::NONE, |it| it.reasons);
        let mut reading = Reading {
            ns: local_ns,
            bound_ns: u64::MAX,
            hard_ns: u64::MAX,
        };
        if let Some(estimate) = self.estimate {
            reading = estimate.global.at(local_ns);
        }
        if reasons.any(Reasons::ADRIFT) {
            (reading.bound_ns, reading.hard_ns) = (u64::MAX, u64::MAX);
        } else if is_root {
            (reading.bound_ns, reading.hard_ns) = (0, 0);
        }
        let standing = Standing {
            hard_ns: reading.hard_ns,
            bound_ns: reading.bound_ns,
            stratum: self.estimate.map_or(0, |it| it.stratum),
            awake: true,
            reasons,
        };
        (reading, standing)
    }
}
