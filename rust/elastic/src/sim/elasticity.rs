//! How well the nodes followed the demand, which is known exactly.

use serde::{Deserialize, Serialize};

use super::levels::ratio;
use super::window::Window;
use crate::units::seconds;

/// Demand is the nodes that the offered viewers would fill; supply, the nodes that are ready. By the
/// definitions of BUNGEE and of SPEC RG's "Ready for Rain", as of a real run
/// (`ullage/experiments/elastic/analysis/elasticity.py`), from the begin until the last offered viewer would be gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Elasticity {
    /// When the last offered viewer would be gone: everything here is of the time until then.
    pub until_s: f64,
    /// Nodes that were missing, and that were too many, on the average over time (accuracy).
    pub under_nodes: f64,
    pub over_nodes: f64,
    /// The same as a part of the demand at the time; of one node where there is none (θ).
    pub under_part: f64,
    pub over_part: f64,
    /// Part of the time in which nodes were missing, and too many (timeshare, τ).
    pub under_time: f64,
    pub over_time: f64,
    /// Nodes by which the demand and the supply changed, up or down.
    pub demand_changes: u64,
    pub supply_changes: u64,
    /// How many more changes of supply than of demand there were in a minute (jitter).
    pub jitter_per_minute: f64,
    /// Part of the time in which the two had not moved the same way over the last `window_s` (υ).
    pub instability: f64,
    pub window_s: f64,
    /// The distance from a supply that follows perfectly (σ).
    pub deviation: f64,
    /// How many times as well as a constant supply (ε). None: it has no meaning.
    pub speed_up: Option<f64>,
    /// Nodes of that supply.
    pub standing_nodes: u64,
}

/// Adds up what the two curves say, in the order of time.
#[derive(Debug)]
pub(super) struct Adherence {
    /// Now: demand, supply.
    now: [u64; 2],
    /// Before the last instant at which one of them changed. What changes and changes back in an
    /// instant has not changed.
    before: [u64; 2],
    since: u64,
    window: Window,
    sums: Sums,
    /// Nanoseconds of each demand, from 1 on.
    demanded: Vec<u64>,
    /// When the demand was gone last, and what there was until then.
    gone: Option<(u64, Sums)>,
}

/// The first is of what is missing, the second of what is too many.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    areas: [u128; 2],
    times: [u64; 2],
    /// Nanoseconds × part.
    parts: [f64; 2],
    /// Of demand and supply.
    changes: [u64; 2],
    /// Nanoseconds in which they had not moved the same way.
    apart: u64,
}

impl Adherence {
    pub(super) fn new(window: u64) -> Self {
        Self {
            now: [0; 2],
            before: [0; 2],
            since: 0,
            window: Window::new(window),
            sums: Sums::default(),
            demanded: Vec::new(),
            gone: None,
        }
    }

    /// So many nodes are needed.
    pub(super) fn set_demand(&mut self, at: u64, demand: u64) {
        self.settle(at);
        let before = std::mem::replace(&mut self.now[0], demand);
        if demand == 0 && before > 0 {
            self.gone = Some((at, self.sums));
        }
    }

    /// So many nodes are ready.
    pub(super) fn set_supply(&mut self, at: u64, supply: u64) {
        self.settle(at);
        self.now[1] = supply;
    }

    fn settle(&mut self, at: u64) {
        let ns = at - self.since;
        if ns == 0 {
            return;
        }
        // Nothing changes in the first instant: it begins so.
        if self.since > 0 {
            for of in 0..2 {
                self.sums.changes[of] += self.now[of].abs_diff(self.before[of]);
            }
        }
        self.before = self.now;
        let [demand, supply] = self.now;
        self.sums.add(demand, supply, ns);
        self.sums.apart += self.window.pass(self.since, at, self.now);
        if let Some(place) = place(demand) {
            if place >= self.demanded.len() {
                self.demanded.resize(place + 1, 0);
            }
            self.demanded[place] += ns;
        }
        self.since = at;
    }

    /// None: nobody was offered.
    #[expect(
        clippy::cast_precision_loss,
        reason = "lengths of time and numbers of changes"
    )]
    pub(super) fn finish(self) -> Option<Elasticity> {
        let (end, sums) = self.gone.filter(|(end, _)| *end > 0)?;
        let [demand_changes, supply_changes] = sums.changes;
        let mut elasticity = Elasticity {
            until_s: seconds(end),
            demand_changes,
            supply_changes,
            jitter_per_minute: (supply_changes as f64 - demand_changes as f64)
                / (end as f64 / 60e9),
            instability: ratio(sums.apart.into(), end.saturating_sub(self.window.ns)),
            window_s: seconds(self.window.ns),
            ..sums.parts_of(end)
        };
        let half = |under: f64, over: f64| f64::midpoint(under, over).powi(3);
        let (theta, tau) = (
            half(elasticity.under_part, elasticity.over_part),
            half(elasticity.under_time, elasticity.over_time),
        );
        elasticity.deviation = (theta + tau + elasticity.instability.powi(3)).cbrt();
        let (nodes, still) = standing(&self.demanded, end);
        elasticity.standing_nodes = nodes;
        elasticity.speed_up = speed_up(&elasticity, &still);
        Some(elasticity)
    }
}

impl Sums {
    /// For so long it is so.
    #[expect(
        clippy::cast_precision_loss,
        reason = "lengths of time and numbers of nodes"
    )]
    fn add(&mut self, demand: u64, supply: u64, ns: u64) {
        let (of, off) = if demand > supply {
            (0, demand - supply)
        } else {
            (1, supply - demand)
        };
        if off > 0 {
            self.areas[of] += u128::from(off) * u128::from(ns);
            self.times[of] += ns;
            self.parts[of] += off as f64 / demand.max(1) as f64 * ns as f64;
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a length of time")]
    fn parts_of(&self, end: u64) -> Elasticity {
        Elasticity {
            under_nodes: ratio(self.areas[0], end),
            over_nodes: ratio(self.areas[1], end),
            under_part: self.parts[0] / end as f64,
            over_part: self.parts[1] / end as f64,
            under_time: ratio(self.times[0].into(), end),
            over_time: ratio(self.times[1].into(), end),
            ..Elasticity::default()
        }
    }
}

/// Where a demand stands among those that are; nowhere, if there is none.
fn place(demand: u64) -> Option<usize> {
    usize::try_from(demand).ok()?.checked_sub(1)
}

/// A constant supply: the mean of the demand, rounded, at least one node; and how it would have done.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a mean of numbers of nodes"
)]
fn standing(demanded: &[u64], end: u64) -> (u64, Elasticity) {
    let with = || (1_u64..).zip(demanded.iter().copied());
    let area = with()
        .map(|(demand, ns)| u128::from(demand) * u128::from(ns))
        .sum();
    let nodes = ratio(area, end).round_ties_even().max(1.0) as u64;
    let mut sums = Sums::default();
    sums.add(0, nodes, end - demanded.iter().sum::<u64>());
    for (demand, ns) in with() {
        sums.add(demand, nodes, ns);
    }
    (nodes, sums.parts_of(end))
}

/// The geometric mean of what the constant supply is off by, over what this one is.
fn speed_up(scaled: &Elasticity, still: &Elasticity) -> Option<f64> {
    let four = |of: &Elasticity| [of.under_part, of.over_part, of.under_time, of.over_time];
    let pairs = || four(still).into_iter().zip(four(scaled));
    let all = pairs().all(|(a, b)| a > 0.0 && b > 0.0);
    all.then(|| (pairs().map(|(a, b)| (a / b).ln()).sum::<f64>() / 4.0).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000_000_000;

    fn after(steps: &[(u64, u64, u64)], window: u64) -> Option<Elasticity> {
        let mut all = Adherence::new(window);
        for (minutes, demand, supply) in steps {
            all.set_demand(minutes * MINUTE, *demand);
            all.set_supply(minutes * MINUTE, *supply);
        }
        all.finish()
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "exact in binary")]
    fn demand_and_supply_are_weighed_by_time() {
        let steps = [(0, 1, 0), (1, 2, 1), (2, 1, 3), (3, 0, 3), (3, 1, 3)];
        let steps = [&steps[..], &[(4, 0, 3), (9, 0, 7)]].concat();
        let elasticity = after(&steps, MINUTE).expect("somebody came");
        // 1 missing of 1, 1 of 2, 2 too many of 1, and again; what is after the demand does not count.
        assert_eq!(elasticity.until_s, 240.0);
        assert_eq!((elasticity.under_nodes, elasticity.over_nodes), (0.5, 1.0));
        assert_eq!((elasticity.under_part, elasticity.over_part), (0.375, 1.0));
        assert_eq!((elasticity.under_time, elasticity.over_time), (0.5, 0.5));
        // Up 1, down 1; up 1, up 2. It begins with 1, and what goes and comes at once has not changed.
        assert_eq!(
            (elasticity.demand_changes, elasticity.supply_changes),
            (2, 3)
        );
        assert_eq!(elasticity.jitter_per_minute, 0.25);
        // Both up, one down and the other up, both as they were.
        assert!((elasticity.instability - 1.0 / 3.0).abs() < 1e-12);
        let deviation = (0.6875_f64.powi(3) + 0.125 + 1.0 / 27.0).cbrt();
        assert!((elasticity.deviation - deviation).abs() < 1e-12);
        // On the average 1.25 are demanded. One node: 1 of 2 missing for a minute, never too many.
        assert_eq!((elasticity.standing_nodes, elasticity.speed_up), (1, None));
    }

    #[test]
    fn a_constant_supply_is_what_the_speed_up_compares_with() {
        let steps = [(0, 1, 1), (1, 3, 1), (2, 2, 3), (3, 0, 3)];
        let elasticity = after(&steps, MINUTE).expect("somebody came");
        // Two nodes: too many by 1 of 1 at first, then 1 of 3 missing.
        let still = [1.0 / 9.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0_f64];
        // 2 of 3 missing, then 1 of 2 too many.
        let scaled = [2.0 / 9.0, 1.0 / 6.0, 1.0 / 3.0, 1.0 / 3.0_f64];
        let product: f64 = still.iter().zip(scaled).map(|(a, b)| a / b).product();
        assert_eq!(elasticity.standing_nodes, 2);
        assert!((elasticity.speed_up.expect("eight figures") - product.powf(0.25)).abs() < 1e-12);
    }

    #[test]
    fn where_nobody_is_offered_nothing_is_said() {
        assert_eq!(after(&[(0, 0, 1), (4, 0, 2)], MINUTE), None);
        assert_eq!(after(&[], MINUTE), None);
    }

    #[test]
    fn a_window_that_is_longer_than_all_sees_no_instability() {
        let elasticity = after(&[(0, 1, 0), (1, 0, 2)], MINUTE).expect("somebody came");
        assert_eq!((elasticity.instability, elasticity.under_time), (0.0, 1.0));
    }
}
