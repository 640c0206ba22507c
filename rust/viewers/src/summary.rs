//! What a run prints.

use std::collections::BTreeMap;
use std::thread;

use serde::Serialize;

use crate::config::Config;
use crate::session::{Outcome, Why};
use crate::statistics::{End, Statistics};

const NS: f64 = 1e9;
type Quantiles = BTreeMap<&'static str, f64>;

/// The figures of all processes. Times are seconds, instants nanoseconds of the run's clock.
#[derive(Serialize)]
pub struct Summary {
    pub format: u8,
    pub mode: &'static str,
    /// Whether the figures may be used.
    pub valid: bool,
    pub why: Vec<String>,
    pub interrupted: bool,
    pub shards: usize,
    pub started_ns: u64,
    pub ended_ns: u64,
    pub seconds: f64,
    /// Viewers whose time came.
    pub due: u64,
    pub outcomes: BTreeMap<Outcome, u64>,
    pub whys: BTreeMap<Why, u64>,
    pub violations: Violations,
    pub bytes: u64,
    pub bytes_per_s: f64,
    pub requests: u64,
    pub behind: u64,
    pub reopened: u64,
    pub asked_again: u64,
    pub untold: u64,
    pub most_at_once: u64,
    pub most_playing: u64,
    pub lateness_s: Quantiles,
    pub lateness_limit_s: f64,
    /// The generator's own: how much faster than they should have viewers asked for chunks.
    pub rate_error: Option<f64>,
    /// The same of each viewer, without its sign.
    pub rate_error_of_viewers: Quantiles,
    /// With what the servers made of it: how much faster than they should have chunks came.
    pub delivered_error: Option<f64>,
    pub delivered_error_of_viewers: Quantiles,
    pub turn_s: Quantiles,
    pub cpu_s: f64,
    /// The share that the generator used of the CPU that it used most.
    pub cpu_share: f64,
    pub memory: Memory,
}

#[derive(Serialize)]
pub struct Violations {
    pub count: u64,
    /// Viewers with at least one, and those of them that were served to the end.
    pub viewers: u64,
    pub served: u64,
    pub length_s: Quantiles,
}

/// This program's own, not the kernel's.
#[derive(Serialize)]
pub struct Memory {
    pub peak_bytes: u64,
    /// What each viewer added to the memory.
    pub per_viewer_bytes: Option<f64>,
}

impl Summary {
    pub fn new(config: &Config, parts: &[End], interrupted: bool) -> Self {
        let mut all = Statistics::default();
        let mut why = Vec::new();
        for part in parts {
            match part {
                Ok(statistics) => all.add(statistics),
                Err(died) => why.push(died.clone()),
            }
        }
        why.extend(all.fault.clone());
        let limit_s = config.lateness_limit_ms / 1e3;
        #[expect(clippy::cast_precision_loss, reason = "three digits")]
        let late_s = all.lateness.quantile(0.99) as f64 / NS;
        if late_s > limit_s {
            why.push(format!(
                "the generator was {late_s:.6} s late with one send in a hundred, over {limit_s} s"
            ));
        }
        // A process may have been ended on its own.
        Self::of_all(&all, parts, why, config, interrupted || all.interrupted)
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds and ratios")]
    fn of_all(
        all: &Statistics,
        parts: &[End],
        why: Vec<String>,
        config: &Config,
        interrupted: bool,
    ) -> Self {
        let seconds = all.ended_ns.saturating_sub(all.started_ns) as f64 / NS;
        let grown = all.peak_bytes.saturating_sub(all.empty_bytes) as f64;
        let mut outcomes = BTreeMap::from(
            [
                Outcome::Served,
                Outcome::Blocked,
                Outcome::Refused,
                Outcome::Failed,
                Outcome::Cut,
            ]
            .map(|outcome| (outcome, 0)),
        );
        outcomes.extend(&all.outcomes);
        let length_s = all.violations.summary(NS);
        Self {
            format: 1,
            mode: "run",
            valid: why.is_empty(),
            why,
            interrupted,
            shards: parts.len(),
            started_ns: all.started_ns,
            ended_ns: all.ended_ns,
            seconds,
            due: all.due,
            outcomes,
            whys: all.whys.clone(),
            violations: Violations {
                count: all.violations.len(),
                viewers: all.violated,
                served: all.served_violated,
                length_s,
            },
            bytes: all.bytes,
            bytes_per_s: if seconds > 0.0 {
                all.bytes as f64 / seconds
            } else {
                0.0
            },
            requests: all.requests,
            behind: all.behind,
            reopened: all.reopened,
            asked_again: all.asked_again,
            untold: all.untold,
            most_at_once: all.most,
            most_playing: all.most_playing,
            lateness_s: all.lateness.summary(NS),
            lateness_limit_s: config.lateness_limit_ms / 1e3,
            rate_error: all.requested.error(),
            rate_error_of_viewers: all.requested.of_viewers(),
            delivered_error: all.delivered.error(),
            delivered_error_of_viewers: all.delivered.of_viewers(),
            turn_s: all.turns.summary(NS),
            cpu_s: all.cpu_s,
            cpu_share: busiest(parts, config, seconds),
            memory: Memory {
                peak_bytes: all.peak_bytes,
                per_viewer_bytes: (all.most > 0).then(|| grown / all.most as f64),
            },
        }
    }
}

/// The use of the busiest CPU; where processes were not pinned, at least the mean over all CPUs.
#[expect(clippy::cast_precision_loss, reason = "ratios")]
fn busiest(parts: &[End], config: &Config, seconds: f64) -> f64 {
    if seconds <= 0.0 {
        return 0.0;
    }
    let cpus = &config.timing.cpus;
    let mut used: BTreeMap<usize, f64> = BTreeMap::new();
    for (index, statistics) in parts.iter().enumerate() {
        let cpu = if cpus.is_empty() {
            index
        } else {
            cpus[index % cpus.len()].into()
        };
        *used.entry(cpu).or_default() += statistics
            .as_ref()
            .map_or(0.0, |statistics| statistics.cpu_s);
    }
    let most = used.values().fold(0.0, |most: f64, cpu_s| most.max(*cpu_s));
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    (most.max(used.values().sum::<f64>() / cpus as f64)) / seconds
}
