//! The earth mover's distance between two images: the least work that turns one set of weighted segments
//! into the other (Rubner, Tomasi and Guibas 2000, doi:10.1023/A:1026543900054).
//!
//! Exact, in whole numbers: weight is moved along cheapest paths one after the other (Edmonds and Karp
//! 1972, doi:10.1145/321694.321699), found by Dijkstra's algorithm on costs that potentials keep from
//! being negative.

use super::features::{Segment, distance};

const FAR: u64 = u64::MAX / 4;

/// The distance, in units of a segment's distance × weight. Both must weigh the same.
#[must_use]
pub fn emd(from: &[Segment], to: &[Segment]) -> u64 {
    let costs = from
        .iter()
        .map(|a| to.iter().map(|b| distance(a, b)).collect())
        .collect();
    let weights = |segments: &[Segment]| segments.iter().map(|s| s.weight).collect();
    least_work(weights(from), weights(to), costs)
}

/// What it costs to move all of `supply` to `demand`, which sum to the same.
fn least_work(supply: Vec<u32>, demand: Vec<u32>, costs: Vec<Vec<u64>>) -> u64 {
    let (n, m) = (supply.len(), demand.len());
    let mut state = State {
        supply,
        demand,
        costs,
        flow: vec![vec![0; m]; n],
        potential: vec![0; n + m],
        path: vec![
            Step {
                cost: FAR,
                before: None,
                done: false
            };
            n + m
        ],
    };
    while let Some(end) = state.cheapest() {
        state.augment(end);
    }
    let rows = state.flow.iter().zip(&state.costs);
    rows.flat_map(|(flow, costs)| flow.iter().zip(costs))
        .map(|(&flow, &cost)| u64::from(flow) * cost)
        .sum()
}

#[derive(Clone, Copy)]
struct Step {
    cost: u64,
    before: Option<usize>,
    done: bool,
}

/// Nodes are the suppliers, then those who demand.
struct State {
    supply: Vec<u32>,
    demand: Vec<u32>,
    costs: Vec<Vec<u64>>,
    flow: Vec<Vec<u32>>,
    potential: Vec<u64>,
    path: Vec<Step>,
}

impl State {
    /// Finds the cheapest way from who has something left to who lacks something; its end.
    fn cheapest(&mut self) -> Option<usize> {
        let n = self.supply.len();
        for (node, step) in self.path.iter_mut().enumerate() {
            let begins = node < n && self.supply[node] > 0;
            let cost = if begins { 0 } else { FAR };
            *step = Step {
                cost,
                before: None,
                done: false,
            };
        }
        loop {
            let open = (0..self.path.len()).filter(|&node| !self.path[node].done);
            let node = open.min_by_key(|&node| self.path[node].cost)?;
            let cost = self.path[node].cost;
            if cost >= FAR {
                return None;
            }
            self.path[node].done = true;
            if node >= n && self.demand[node - n] > 0 {
                self.settle(cost);
                return Some(node);
            }
            self.relax(node, cost);
        }
    }

    fn relax(&mut self, node: usize, cost: u64) {
        let n = self.supply.len();
        if node < n {
            for j in 0..self.demand.len() {
                let reduced = self.costs[node][j] + self.potential[node] - self.potential[n + j];
                self.reach(n + j, cost + reduced, node);
            }
        } else {
            for i in 0..n {
                if self.flow[i][node - n] > 0 {
                    let back = self.potential[node] - self.costs[i][node - n] - self.potential[i];
                    self.reach(i, cost + back, node);
                }
            }
        }
    }

    fn reach(&mut self, node: usize, cost: u64, before: usize) {
        let step = &mut self.path[node];
        if !step.done && cost < step.cost {
            step.cost = cost;
            step.before = Some(before);
        }
    }

    /// Raises the potentials by the distances, so that reduced costs stay at 0 or above.
    fn settle(&mut self, reached: u64) {
        for (potential, step) in self.potential.iter_mut().zip(&self.path) {
            *potential += step.cost.min(reached);
        }
    }

    fn augment(&mut self, end: usize) {
        let n = self.supply.len();
        let (mut amount, mut node) = (self.demand[end - n], end);
        while let Some(before) = self.path[node].before {
            if before >= n {
                amount = amount.min(self.flow[node][before - n]);
            }
            node = before;
        }
        amount = amount.min(self.supply[node]);
        self.supply[node] -= amount;
        self.demand[end - n] -= amount;
        node = end;
        while let Some(before) = self.path[node].before {
            if before < n {
                self.flow[before][node - n] += amount;
            } else {
                self.flow[node][before - n] -= amount;
            }
            node = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Tries all ways to move unit after unit.
    fn by_trying(supply: &[u32], demand: &[u32], costs: &[Vec<u64>]) -> u64 {
        let Some(i) = supply.iter().position(|&left| left > 0) else {
            return 0;
        };
        let mut less = supply.to_vec();
        less[i] -= 1;
        let ways = (0..demand.len()).filter(|&j| demand[j] > 0).map(|j| {
            let mut lacking = demand.to_vec();
            lacking[j] -= 1;
            costs[i][j] + by_trying(&less, &lacking, costs)
        });
        ways.min().unwrap_or(0)
    }

    fn shares(total: u32, parts: usize) -> impl Strategy<Value = Vec<u32>> {
        proptest::collection::vec(0..parts, total as usize).prop_map(move |units| {
            let mut shares = vec![0; parts];
            for unit in units {
                shares[unit] += 1;
            }
            shares
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_way_is_cheaper(
            supply in shares(6, 3), demand in shares(6, 3),
            costs in proptest::collection::vec(proptest::collection::vec(0u64..20, 3), 3),
        ) {
            let expected = by_trying(&supply, &demand, &costs);
            prop_assert_eq!(least_work(supply, demand, costs), expected);
        }
    }
}
