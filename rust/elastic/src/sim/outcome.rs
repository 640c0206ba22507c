//! What a simulation found. Times are in seconds, from the begin of the run.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::curves::Curves;
use super::elasticity::Elasticity;
use super::levels::Level;
use crate::units::seconds;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub seed: u64,
    /// When the last viewer had gone, or `duration_s` if that is later.
    pub ended_s: f64,
    pub viewers: ViewerCounts,
    /// Part of all requests that were blocked (`PcBl`, as a part of 1). None: nobody came.
    pub blocked: Option<f64>,
    /// Part of those who were served that lost their nodes (`PcAf`, as far as it is simulated). None:
    /// nobody was served.
    pub affected: Option<f64>,
    /// Waits of viewers that had to wait and were served.
    pub wait: Summary,
    pub nodes: NodeCounts,
    /// Times of nodes from the request to readiness (`TaR`), all attempts included.
    pub allocation: Summary,
    /// Times of nodes from release to gone (`TlR`).
    pub release: Summary,
    pub decisions: Decisions,
    /// Events that the machine was told.
    pub events: u64,
    /// Figures of the whole run.
    pub whole: Levels,
    /// Figures from the end of the warm-up to the last arrival. None: nobody came in that time.
    pub steady: Option<Steady>,
    /// None: nobody came.
    pub elasticity: Option<Elasticity>,
    /// None: `points` is 0.
    pub curves: Option<Curves>,
    /// In the order of arrival, if asked for.
    pub records: Option<Vec<Record>>,
    /// In the order in which they were asked for, with the records of sessions.
    pub node_records: Option<Vec<NodeRecord>>,
}

/// How nodes fared, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCounts {
    /// The machine wanted so many.
    pub asked: u64,
    pub ready: u64,
    /// Were not allocated in the end, whatever the reason.
    pub failed: u64,
    /// Those of them that were given up, since they were not ready in time.
    pub given_up: u64,
    /// Attempts that end in an error of the provider. These three are counted as they begin.
    pub errors: u64,
    /// Attempts, too, for which no host has room.
    pub no_host: u64,
    pub retries: u64,
    /// Died while they could stream.
    pub died: u64,
    /// Were released and are gone.
    pub released: u64,
}

/// Every session is in `requests` and in one of `finished`, `blocked`, `turned_away`, `cut` and
/// `unserved`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewerCounts {
    /// Came (`QtRvS`).
    pub requests: u64,
    /// Were redirected as they came.
    pub at_once: u64,
    /// Were redirected after a wait.
    pub waited: u64,
    /// Saw all that they wanted to.
    pub finished: u64,
    /// Lost their patience before they were served.
    pub blocked: u64,
    /// Were told to go: the waiting room was full, or there are never nodes.
    pub turned_away: u64,
    /// Lost their node, and did not see the rest.
    pub cut: u64,
    /// Still waited when nothing could happen any more.
    pub unserved: u64,
    /// How often a viewer lost its node.
    pub lost: u64,
    /// Viewers to whom that happened, once or more.
    pub affected: u64,
    /// How often one came again for that.
    pub reconnected: u64,
}

/// What the machine said, how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decisions {
    pub redirect: u64,
    pub wait: u64,
    pub turn_away: u64,
    pub lost: u64,
    pub allocate: u64,
    pub release: u64,
}

/// How many there were, over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Levels {
    pub from_s: f64,
    pub to_s: f64,
    pub watching: Level,
    pub waiting: Level,
    /// Nodes being allocated, ready, being released.
    pub coming: Level,
    pub ready: Level,
    pub leaving: Level,
    /// The three together: node-seconds, and the most at a time.
    pub node_s: f64,
    pub most_nodes: u64,
}

/// Without the warm-up and what follows the last arrival.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// Figures of viewers that came in that time, whatever became of them later.
    pub requests: u64,
    pub at_once: u64,
    pub waited: u64,
    pub blocked: u64,
    pub turned_away: u64,
    pub levels: Levels,
}

/// A distribution. Quantiles are within 0.1 % of values that occurred.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub count: u64,
    /// These are None where there is no value.
    pub mean_s: Option<f64>,
    pub p50_s: Option<f64>,
    pub p90_s: Option<f64>,
    pub p99_s: Option<f64>,
    pub p999_s: Option<f64>,
    pub max_s: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub asked_s: f64,
    /// How long it is to watch.
    pub watch_s: f64,
    /// Redirected for the first time.
    pub served_s: Option<f64>,
    pub node: Option<u32>,
    pub ended_s: Option<f64>,
    pub end: End,
}

/// How a session ended: as the field of [`ViewerCounts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Finished,
    Blocked,
    TurnedAway,
    Cut,
    Unserved,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    pub node: u32,
    pub asked_s: f64,
    pub ready_s: Option<f64>,
    /// When the machine let it go.
    pub release_s: Option<f64>,
    /// Gone, dead or failed.
    pub gone_s: Option<f64>,
}

/// Lengths of time as they come; its memory does not grow with their number.
pub(super) struct Times {
    histogram: Histogram<u64>,
    sum_ns: u128,
    most_ns: u64,
}

impl Times {
    pub(super) fn new() -> Self {
        // To 36 years; more than that counts as that.
        let histogram = Histogram::new_with_bounds(1, 1 << 60, 3);
        let histogram = histogram.expect("the bounds and 3 digits are allowed");
        Self {
            histogram,
            sum_ns: 0,
            most_ns: 0,
        }
    }

    #[inline]
    pub(super) fn add(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
        self.sum_ns += u128::from(ns);
        self.most_ns = self.most_ns.max(ns);
    }

    #[expect(clippy::cast_precision_loss, reason = "a mean of 53 bits will do")]
    pub(super) fn summary(&self) -> Summary {
        let count = self.histogram.len();
        let some = |value: f64| (count > 0).then_some(value);
        let at = |part| {
            some(seconds(
                self.histogram.value_at_quantile(part).min(self.most_ns),
            ))
        };
        Summary {
            count,
            mean_s: some(self.sum_ns as f64 / count as f64 / 1e9),
            p50_s: at(0.5),
            p90_s: at(0.9),
            p99_s: at(0.99),
            p999_s: at(0.999),
            max_s: some(seconds(self.most_ns)),
        }
    }
}
