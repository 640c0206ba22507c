//! How well the nodes followed the demand, which is known exactly.

use serde::{Deserialize, Serialize};

use super::levels::ratio;

/// Demand is the nodes that all viewers would fill, those that wait included; supply, the nodes that
/// are ready. Over the whole run, by the definitions of BUNGEE and of SPEC RG's "Ready for Rain".
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Elasticity {
    /// Nodes that were missing, and that were too many, on the average over time (accuracy).
    pub under_nodes: f64,
    pub over_nodes: f64,
    /// The same as a part of the demand at the time; of one node where there is none.
    pub under_part: f64,
    pub over_part: f64,
    /// Part of the time in which nodes were missing, and too many (timeshare).
    pub under_time: f64,
    pub over_time: f64,
    /// Nodes by which the demand and the supply changed, up or down.
    pub demand_changes: u64,
    pub supply_changes: u64,
    /// How many more changes of supply than of demand there were in a minute (jitter).
    pub jitter_per_minute: f64,
}

/// Adds it up.
#[derive(Debug)]
pub(super) struct Adherence {
    room: u64,
    demand: u64,
    /// The demand stays while the viewers are at least the first and at most the second.
    viewers: (u64, u64),
    supply: u64,
    since: u64,
    /// Missing, too many.
    areas: [u128; 2],
    times: [u64; 2],
    /// Nanoseconds × part.
    parts: [f64; 2],
    changes: [u64; 2],
}

impl Adherence {
    pub(super) fn new(room: u32) -> Self {
        Self {
            room: room.max(1).into(),
            demand: 0,
            viewers: (0, 0),
            supply: 0,
            since: 0,
            areas: [0; 2],
            times: [0; 2],
            parts: [0.0; 2],
            changes: [0; 2],
        }
    }

    /// So many viewers are there, those that wait included.
    #[inline]
    pub(super) fn set_viewers(&mut self, at: u64, viewers: u64) {
        let (least, most) = self.viewers;
        if viewers < least || viewers > most {
            self.set_demand(at, viewers.div_ceil(self.room));
        }
    }

    #[inline(never)]
    fn set_demand(&mut self, at: u64, demand: u64) {
        self.settle(at);
        self.changes[0] += demand.abs_diff(self.demand);
        self.demand = demand;
        let below = demand.saturating_sub(1) * self.room;
        self.viewers = (below + u64::from(demand > 0), demand * self.room);
    }

    /// So many nodes are ready.
    pub(super) fn set_supply(&mut self, at: u64, supply: u64) {
        self.settle(at);
        self.changes[1] += supply.abs_diff(self.supply);
        self.supply = supply;
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "lengths of time and numbers of nodes"
    )]
    fn settle(&mut self, at: u64) {
        let ns = at - self.since;
        self.since = at;
        let (demand, supply) = (self.demand, self.supply);
        for (i, off) in [demand.saturating_sub(supply), supply.saturating_sub(demand)]
            .into_iter()
            .enumerate()
            .filter(|(_, off)| *off > 0)
        {
            self.areas[i] += u128::from(off) * u128::from(ns);
            self.times[i] += ns;
            self.parts[i] += off as f64 / demand.max(1) as f64 * ns as f64;
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "lengths of time and numbers of changes"
    )]
    pub(super) fn finish(mut self, end: u64) -> Elasticity {
        self.settle(end);
        let part = |i: usize| {
            if end == 0 {
                0.0
            } else {
                self.parts[i] / end as f64
            }
        };
        let minutes = end as f64 / 60e9;
        let [demand_changes, supply_changes] = self.changes;
        let more = supply_changes as f64 - demand_changes as f64;
        Elasticity {
            under_nodes: ratio(self.areas[0], end),
            over_nodes: ratio(self.areas[1], end),
            under_part: part(0),
            over_part: part(1),
            under_time: ratio(self.times[0].into(), end),
            over_time: ratio(self.times[1].into(), end),
            demand_changes,
            supply_changes,
            jitter_per_minute: if end == 0 { 0.0 } else { more / minutes },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "exact in binary")]
    fn demand_and_supply_are_weighed_by_time() {
        let mut all = Adherence::new(4);
        let minute = 60_000_000_000;
        for (minutes, viewers, supply) in [
            (0, 1, 0),
            (1, 5, 1),
            (2, 4, 3),
            // The same demand: nothing changes.
            (3, 1, 3),
            (3, 0, 3),
        ] {
            all.set_viewers(minutes * minute, viewers);
            all.set_supply(minutes * minute, supply);
        }
        let found = all.finish(4 * minute);
        // 1 missing of 1, 1 of 2, 2 too many of 1, 3 too many of none.
        assert_eq!((found.under_nodes, found.over_nodes), (0.5, 1.25));
        assert_eq!((found.under_part, found.over_part), (0.375, 1.25));
        assert_eq!((found.under_time, found.over_time), (0.5, 0.5));
        // Up 1, up 1, down 1, down 1; up 1, up 2.
        assert_eq!((found.demand_changes, found.supply_changes), (4, 3));
        assert_eq!(found.jitter_per_minute, -0.25);
    }
}
