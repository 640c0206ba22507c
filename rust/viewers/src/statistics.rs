//! What a process has seen, and all of them together.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::session::{Outcome, Why};

/// An hour in nanoseconds: what is longer is counted as that.
const LONGEST: u64 = 3_600_000_000_000;
const SHARES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// How often each value came, to three digits.
#[derive(Clone, Deserialize, Serialize)]
#[serde(from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub struct Spread(Histogram<u64>);

impl Default for Spread {
    fn default() -> Self {
        Self(Histogram::new_with_max(LONGEST, 3).expect("three digits up to an hour"))
    }
}

impl From<Vec<(u64, u64)>> for Spread {
    fn from(counts: Vec<(u64, u64)>) -> Self {
        let mut spread = Self::default();
        for (value, count) in counts {
            spread.0.saturating_record_n(value, count);
        }
        spread
    }
}

impl From<Spread> for Vec<(u64, u64)> {
    fn from(spread: Spread) -> Self {
        let counts = spread.0.iter_recorded();
        counts
            .map(|step| (step.value_iterated_to(), step.count_at_value()))
            .collect()
    }
}

impl Spread {
    pub fn record(&mut self, value: u64) {
        self.0.saturating_record(value);
    }

    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("of the same range");
    }

    pub fn quantile(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }

    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Count, p50, p90, p99, p99.9 and max, divided by `unit`; count alone if there is nothing.
    #[expect(clippy::cast_precision_loss, reason = "three digits")]
    pub fn summary(&self, unit: f64) -> BTreeMap<&'static str, f64> {
        let mut summary = BTreeMap::from([("count", self.0.len() as f64)]);
        if !self.0.is_empty() {
            summary.extend(SHARES.map(|(name, share)| (name, self.quantile(share) as f64 / unit)));
            summary.insert("max", self.0.max() as f64 / unit);
        }
        summary
    }
}

/// How a process ended: what it saw, or what became of it.
pub type End = Result<Statistics, String>;

#[derive(Default, Deserialize, Serialize)]
pub struct Statistics {
    /// Viewers that were due before the end.
    pub due: u64,
    pub outcomes: BTreeMap<Outcome, u64>,
    pub whys: BTreeMap<Why, u64>,
    /// Served viewers with a violation, and all such viewers.
    pub served_violated: u64,
    pub violated: u64,
    pub violations: Spread,
    pub bytes: u64,
    pub requests: u64,
    /// Requests that were due while the one before had no answer: the server's lateness.
    pub behind: u64,
    /// Connections that a node had closed between two requests.
    pub reopened: u64,
    /// Viewers that asked for another node.
    pub asked_again: u64,
    /// Sessions whose end the front could not be told.
    pub untold: u64,
    /// How late what was due at an instant was sent.
    pub lateness: Spread,
    /// How long the loop was busy without looking for what had come.
    pub turns: Spread,
    /// What was sent at an instant: how fast each viewer asked.
    pub requested: Pace,
    /// What came then: how fast each viewer was served.
    pub delivered: Pace,
    /// Viewers at once, at most.
    pub most: u64,
    pub most_playing: u64,
    pub started_ns: u64,
    pub ended_ns: u64,
    pub cpu_s: f64,
    /// Largest memory, and what it was before the first viewer.
    pub peak_bytes: u64,
    pub empty_bytes: u64,
    /// Ended from outside.
    pub interrupted: bool,
    /// Why what this process saw is not to be used: the generator's own fault.
    pub fault: Option<String>,
}

impl Statistics {
    pub fn add(&mut self, other: &Self) {
        for (outcome, count) in &other.outcomes {
            *self.outcomes.entry(*outcome).or_default() += count;
        }
        for (why, count) in &other.whys {
            *self.whys.entry(*why).or_default() += count;
        }
        let sums = [
            (&mut self.due, other.due),
            (&mut self.served_violated, other.served_violated),
            (&mut self.violated, other.violated),
            (&mut self.bytes, other.bytes),
            (&mut self.requests, other.requests),
            (&mut self.behind, other.behind),
            (&mut self.reopened, other.reopened),
            (&mut self.asked_again, other.asked_again),
            (&mut self.untold, other.untold),
            (&mut self.most, other.most),
            (&mut self.most_playing, other.most_playing),
            (&mut self.peak_bytes, other.peak_bytes),
            (&mut self.empty_bytes, other.empty_bytes),
        ];
        for (sum, more) in sums {
            *sum += more;
        }
        self.violations.add(&other.violations);
        self.lateness.add(&other.lateness);
        self.turns.add(&other.turns);
        self.requested.add(&other.requested);
        self.delivered.add(&other.delivered);
        self.cpu_s += other.cpu_s;
        self.started_ns = match self.started_ns {
            0 => other.started_ns,
            ours => ours.min(other.started_ns),
        };
        self.ended_ns = self.ended_ns.max(other.ended_ns);
        self.interrupted |= other.interrupted;
        if self.fault.is_none() {
            self.fault.clone_from(&other.fault);
        }
    }

    pub fn count(&mut self, outcome: Outcome, why: Option<Why>, violated: bool) {
        *self.outcomes.entry(outcome).or_default() += 1;
        if let Some(why) = why {
            *self.whys.entry(why).or_default() += 1;
        }
        self.violated += u64::from(violated);
        self.served_violated += u64::from(violated && outcome == Outcome::Served);
    }
}

/// Rates of viewers beside those that they should have had: from the first to the last of a viewer's
/// chunks, so that there is one interval less than chunks, and no edge of any window.
#[derive(Default, Deserialize, Serialize)]
pub struct Pace {
    took_s: f64,
    should_s: f64,
    /// How far each viewer's rate is from what it should have been, parts per billion.
    off: Spread,
}

impl Pace {
    /// A viewer's chunks took so long, and should have taken so long.
    #[expect(clippy::cast_precision_loss, reason = "a sum of many")]
    pub fn record(&mut self, took_ns: u64, should_ns: u64) {
        self.took_s += took_ns as f64 / 1e9;
        self.should_s += should_ns as f64 / 1e9;
        let off = u128::from(took_ns.abs_diff(should_ns)) * 1_000_000_000 / u128::from(should_ns);
        self.off.record(u64::try_from(off).unwrap_or(u64::MAX));
    }

    fn add(&mut self, other: &Self) {
        self.took_s += other.took_s;
        self.should_s += other.should_s;
        self.off.add(&other.off);
    }

    /// By how much all viewers together were faster than they should have been. None: nobody was.
    pub fn error(&self) -> Option<f64> {
        (self.took_s > 0.0).then(|| self.should_s / self.took_s - 1.0)
    }

    /// Of each, without the sign.
    pub fn of_viewers(&self) -> BTreeMap<&'static str, f64> {
        self.off.summary(1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_read_as_it_was_written_and_added_up() {
        let mut statistics = Statistics::default();
        statistics.count(Outcome::Served, None, true);
        statistics.count(Outcome::Failed, Some(Why::Silent), false);
        statistics.requested.record(1_001_000, 1_000_000);
        for late_ns in [1, 20_000, 3_000_000, u64::MAX] {
            statistics.lateness.record(late_ns);
        }
        let text = serde_json::to_string(&statistics).expect("JSON");
        let mut both: Statistics = serde_json::from_str(&text).expect("as written");
        both.add(&statistics);
        assert_eq!(both.outcomes[&Outcome::Served], 2);
        assert_eq!(both.whys[&Why::Silent], 2);
        assert_eq!((both.violated, both.served_violated), (2, 2));
        let summary = both.lateness.summary(1e9);
        assert!((summary["count"] - 8.0).abs() < f64::EPSILON);
        assert!((summary["p50"] / 20e-6 - 1.0).abs() < 2e-3);
        assert!((summary["max"] / 3600.0 - 1.0).abs() < 2e-3);
        assert!((both.requested.of_viewers()["max"] / 1e-3 - 1.0).abs() < 2e-3);
        assert!((both.requested.error().expect("of two") + 1e-3 / 1.001).abs() < 1e-9);
        assert_eq!(both.delivered.error(), None);
        assert_eq!(Spread::default().summary(1.0).len(), 1);
    }
}
