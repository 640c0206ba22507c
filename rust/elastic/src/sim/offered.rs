//! The viewers who are offered: who have come and would not have seen all, had each been served at
//! once. They make the demand, which no policy can make smaller by turning them away.

use super::elasticity::{Adherence, Elasticity};
use super::ladder::{Ladder, entry, parts};

const NEVER: u64 = u64::MAX;

/// Counts them. Who is served as it comes is gone when it has seen enough, which is an event anyway;
/// of the others it is kept here when they would be.
pub(super) struct Offered {
    room: u64,
    count: u64,
    /// The demand stays while they are at least the first and at most the second.
    same: (u64, u64),
    /// The first of `ends`, or earlier.
    pub(super) next: u64,
    /// Elsewhere: what is needed for each viewer lies close together.
    ends: Box<Ladder>,
    nodes: Box<Adherence>,
}

impl Offered {
    pub(super) fn new(room: u32, window: u64) -> Self {
        Self {
            room: room.max(1).into(),
            count: 0,
            same: (0, 0),
            next: NEVER,
            ends: Box::default(),
            nodes: Box::new(Adherence::new(window)),
        }
    }

    #[inline]
    pub(super) fn come(&mut self, at: u64) {
        self.count += 1;
        if self.count > self.same.1 {
            self.set(at);
        }
    }

    /// One that was not, or that has lost its node, would have seen all by then.
    pub(super) fn would_go(&mut self, at: u64) {
        self.ends.push(entry(at, 0));
        self.next = self.next.min(at);
    }

    /// So many nodes are ready.
    pub(super) fn set_supply(&mut self, at: u64, supply: u64) {
        self.nodes.set_supply(at, supply);
    }

    /// One has seen all that was served as it came, or would have.
    #[inline]
    pub(super) fn go(&mut self, at: u64) {
        self.count -= 1;
        if self.count < self.same.0 {
            self.set(at);
        }
    }

    #[cold]
    fn set(&mut self, at: u64) {
        let demand = self.count.div_ceil(self.room);
        let below = demand.saturating_sub(1) * self.room;
        self.same = (below + u64::from(demand > 0), demand * self.room);
        self.nodes.set_demand(at, demand);
    }

    /// Removes those who would have gone by then. To be called before anything that happens later.
    pub(super) fn leave_until(&mut self, at: u64) {
        if self.next > at {
            return;
        }
        self.next = loop {
            match self.ends.peek().map(|first| parts(first).0) {
                Some(first) if first <= at => {
                    self.ends.pop();
                    self.go(first);
                }
                first => break first.unwrap_or(NEVER),
            }
        };
    }

    /// The run ends then, and with it all nodes; the offered viewers do not.
    pub(super) fn finish(mut self, end: u64) -> Option<Elasticity> {
        self.leave_until(end);
        self.set_supply(end, 0);
        self.leave_until(NEVER);
        self.nodes.finish()
    }
}
