//! What has happened so far, for `/metrics`.

use ullage_elastic::Why;

/// Upper bounds of the waits that are counted apart, seconds.
pub const BOUNDS_S: [f64; 12] = [
    0.001, 0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
];

/// How long those waited who were sent to a node.
#[derive(Debug, Default)]
pub struct Waits {
    /// By bound; the last is of those beyond all bounds.
    pub within: [u64; BOUNDS_S.len() + 1],
    pub sum_s: f64,
}

impl Waits {
    #[allow(clippy::cast_precision_loss)]
    pub fn record(&mut self, wait_ns: u64) {
        let seconds = wait_ns as f64 / 1e9;
        let place = BOUNDS_S.partition_point(|bound| *bound < seconds);
        self.within[place] += 1;
        self.sum_s += seconds;
    }
}

/// Since this process began.
#[derive(Debug, Default)]
pub struct Counts {
    pub requests: u64,
    pub redirects: u64,
    pub waits: Waits,
    pub blocked: u64,
    pub full: u64,
    pub no_nodes: u64,
    pub finished: u64,
    pub overstayed: u64,
    pub missed: u64,
    pub lost: u64,
    pub allocated: u64,
    pub released: u64,
    pub node_failures: u64,
    pub connections: u64,
    pub crowded: u64,
    pub faulty: u64,
    pub slow: u64,
    pub unlogged: u64,
}

impl Counts {
    pub fn turned_away(&mut self, why: Why) {
        *match why {
            Why::Patience => &mut self.blocked,
            Why::WaitingRoomFull => &mut self.full,
            Why::NoNodes => &mut self.no_nodes,
        } += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_counted_at_the_first_bound_that_it_does_not_exceed() {
        let mut waits = Waits::default();
        for ns in [0, 1_000_000, 1_000_001, 400_000_000_000] {
            waits.record(ns);
        }
        assert_eq!(waits.within[..2], [2, 1]);
        assert_eq!(waits.within[BOUNDS_S.len()], 1);
        assert!((waits.sum_s - 400.002).abs() < 1e-3);
    }
}
