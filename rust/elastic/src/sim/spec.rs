//! What is simulated.

use serde::{Deserialize, Serialize};

use super::error::SpecError;
use super::time::{Time, length, need, positive};
use crate::units::MOST_S;
use crate::{AnyPolicy, Arrivals, Config};

/// Sessions that may be recorded one by one.
pub const MOST_RECORDS: u64 = 1_000_000;
const MOST_POINTS: u32 = 1_000_000;
/// Three seeds to a run are far from each other: it is given as 53 bits, which JSON can carry.
const MOST_SEED: u64 = (1 << 53) - 1;
/// Errors that follow each other faster than this would be a run that does not end.
const LEAST_ERROR_S: f64 = 1e-3;
const MINUTE_S: f64 = 60.0;

/// A run, whole. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What the machine keeps to.
    pub application: Config,
    /// When it has how many nodes.
    #[serde(default)]
    pub policy: AnyPolicy,
    pub arrivals: Arrivals,
    /// How many come, at most.
    #[serde(default)]
    pub sessions: Option<u64>,
    /// No viewer comes after this.
    #[serde(default)]
    pub duration_s: Option<f64>,
    pub watch: Time,
    /// How long each waits before it leaves, blocked. None: as long as it takes.
    #[serde(default)]
    pub patience: Option<Time>,
    /// After how long one asks again that has lost its node. None: it does not.
    #[serde(default)]
    pub reconnect: Option<Time>,
    pub allocation: Allocation,
    /// How long a node takes to go.
    #[serde(default = "at_once")]
    pub release: Time,
    #[serde(default)]
    pub failures: Failures,
    /// What nodes are made on. None: there is room for all.
    #[serde(default)]
    pub hosts: Option<Hosts>,
    /// Seed of all random numbers, below 2^53.
    #[serde(default)]
    pub seed: u64,
    /// Over which the instability asks whether nodes were wanted and there, a minute at most.
    #[serde(default = "minute")]
    pub window_s: f64,
    /// What happens before is left out of the outcome's `steady` part.
    #[serde(default)]
    pub warm_up_s: f64,
    /// Points of the curves, about: between half as many and as many. 0: no curves.
    #[serde(default = "five_hundred")]
    pub points: u32,
    /// Each session is recorded; `sessions` is then 10^6 at most.
    #[serde(default)]
    pub records: bool,
}

fn at_once() -> Time {
    Time::Fixed { s: 0.0 }
}

fn minute() -> f64 {
    MINUTE_S
}

fn five_hundred() -> u32 {
    500
}

/// How long a node takes to come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allocation {
    /// By how many are allocated at the same time, this one included, when it begins: the row with the
    /// largest such number that is reached. The first row is of 1.
    pub rows: Vec<Row>,
    /// By how much it takes longer with so many at the same time: linear between the rows, constant
    /// after the last.
    #[serde(default)]
    pub slow_down: Vec<SlowDown>,
    /// After this it is given up, and has failed. None: it is waited for.
    #[serde(default)]
    pub gives_up_s: Option<f64>,
}

/// What was measured with so many allocations at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    #[serde(default = "one")]
    pub concurrent: u32,
    /// One after the other; the times add up.
    pub stages: Vec<Stage>,
}

fn one() -> u32 {
    1
}

/// A part of an allocation: choosing a host, copying the image, booting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    pub name: String,
    pub time: Time,
}

/// A row of the table of slow-down.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowDown {
    pub concurrent: u32,
    /// Times as long.
    pub factor: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Failures {
    /// Probability that a node never becomes ready. It is given up after `allocation.gives_up_s`.
    pub never_ready: f64,
    /// Probability that an attempt to allocate ends in an error of the provider.
    pub error: f64,
    /// How long until that error; also when all hosts are full.
    pub error_after: Time,
    /// More attempts after the first, before the node has failed.
    pub retries: u32,
    /// Between an error and the next attempt.
    pub retry_after: Time,
    /// How long a node lives that is ready. None: as long as it is wanted.
    pub lifetime: Option<Time>,
}

impl Default for Failures {
    fn default() -> Self {
        Self {
            never_ready: 0.0,
            error: 0.0,
            error_after: Time::Fixed { s: 1.0 },
            retries: 0,
            retry_after: Time::Fixed { s: 1.0 },
            lifetime: None,
        }
    }
}

/// The hosts that nodes are made on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hosts {
    pub count: u32,
    /// Nodes that fit on one.
    pub nodes_each: u32,
    #[serde(default)]
    pub placement: HostPlacement,
    /// How much longer an allocation takes on a host that has no copy of the image yet; it has one once
    /// a node on it has become ready. None: all have one.
    #[serde(default)]
    pub first_image: Option<Time>,
}

/// Which host gets the next node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostPlacement {
    /// The one with the fewest.
    #[default]
    Spread,
    /// The one with the most that has room.
    Pack,
}

impl Spec {
    /// Reads a specification from JSON.
    ///
    /// # Errors
    /// Names the field, and says what was found there and what may be.
    pub fn parse(json: &str) -> Result<Self, SpecError> {
        let mut text = serde_json::Deserializer::from_str(json);
        let spec: Self = serde_path_to_error::deserialize(&mut text).map_err(|error| {
            let field = error.path().to_string();
            let named = field != "." && field != "?";
            SpecError::new(
                if named { field } else { String::new() },
                error.into_inner().to_string(),
            )
        })?;
        text.end()
            .map_err(|error| SpecError::new("", error.to_string()))?;
        spec.check()?;
        Ok(spec)
    }

    /// # Errors
    /// Names the first field that cannot be simulated, and says what may be.
    pub fn check(&self) -> Result<(), SpecError> {
        let application = self.application.check();
        application.map_err(|bad| SpecError::of("application", &bad))?;
        self.arrivals
            .check()
            .map_err(|error| error.inside("arrivals"))?;
        self.check_end()?;
        within("watch", Some(&self.watch))?;
        within("patience", self.patience.as_ref())?;
        within("reconnect", self.reconnect.as_ref())?;
        within("release", Some(&self.release))?;
        self.allocation
            .check()
            .map_err(|error| error.inside("allocation"))?;
        self.failures
            .check()
            .map_err(|error| error.inside("failures"))?;
        self.check_failures()?;
        if let Some(hosts) = &self.hosts {
            hosts.check().map_err(|error| error.inside("hosts"))?;
        }
        let window_s = self.window_s;
        let fits = (0.0..=MINUTE_S).contains(&window_s);
        need(fits, "window_s", window_s, "0 to 60")?;
        length("warm_up_s", self.warm_up_s)?;
        count("seed", self.seed, MOST_SEED)?;
        count("points", self.points.into(), MOST_POINTS.into())
    }

    fn check_end(&self) -> Result<(), SpecError> {
        if let Some(duration_s) = self.duration_s {
            length("duration_s", duration_s)?;
        }
        let traced = matches!(self.arrivals, Arrivals::Trace { .. });
        if self.sessions.is_none() && self.duration_s.is_none() && !traced {
            return Err(SpecError::new(
                "sessions",
                "give this or duration_s: arrivals have no end",
            ));
        }
        let expected_s = self
            .sessions
            .map(|sessions| self.arrivals.lasts_s(sessions));
        if self.duration_s.is_none() && expected_s.is_some_and(|expected| expected > MOST_S) {
            let problem = "so many take longer than 1e9 seconds to come: fewer, or a higher rate";
            return Err(SpecError::new("sessions", problem));
        }
        if self.records && !traced {
            let most = self.sessions.unwrap_or(u64::MAX);
            if most > MOST_RECORDS {
                let problem = format!("is for small runs: give sessions, at most {MOST_RECORDS}");
                return Err(SpecError::new("records", problem));
            }
        }
        Ok(())
    }
}

impl Allocation {
    /// One stage that does not depend on how many there are at the same time.
    #[must_use]
    pub fn of(time: Time) -> Self {
        let name = "allocation".to_owned();
        let stages = vec![Stage { name, time }];
        Self {
            rows: vec![Row {
                concurrent: 1,
                stages,
            }],
            slow_down: Vec::new(),
            gives_up_s: None,
        }
    }

    fn check(&self) -> Result<(), SpecError> {
        if self.rows.first().is_none_or(|row| row.concurrent != 1) {
            return Err(SpecError::new(
                "rows",
                "the first row must be there, and be of 1 concurrent",
            ));
        }
        rising("rows", self.rows.iter().map(|row| row.concurrent))?;
        for (i, row) in self.rows.iter().enumerate() {
            if row.stages.is_empty() {
                return Err(SpecError::new(
                    format!("rows[{i}].stages"),
                    "needs one stage or more",
                ));
            }
            for (j, stage) in row.stages.iter().enumerate() {
                within(&format!("rows[{i}].stages[{j}].time"), Some(&stage.time))?;
            }
        }
        rising("slow_down", self.slow_down.iter().map(|row| row.concurrent))?;
        for (i, row) in self.slow_down.iter().enumerate() {
            positive(&format!("slow_down[{i}].factor"), row.factor)?;
        }
        self.gives_up_s
            .map_or(Ok(()), |s| positive("gives_up_s", s))
    }
}

impl Failures {
    fn check(&self) -> Result<(), SpecError> {
        probability("never_ready", self.never_ready)?;
        probability("error", self.error)?;
        within("retry_after", Some(&self.retry_after))?;
        within("lifetime", self.lifetime.as_ref())?;
        within("error_after", Some(&self.error_after))?;
        if self.error_after.least_mean_s() < LEAST_ERROR_S {
            let problem = "must be 1 ms or more: else errors without end happen at one instant";
            return Err(SpecError::new("error_after", problem));
        }
        if self
            .lifetime
            .as_ref()
            .is_some_and(|life| life.least_mean_s() < LEAST_ERROR_S)
        {
            return Err(SpecError::new("lifetime", "must be 1 ms or more"));
        }
        Ok(())
    }
}

impl Hosts {
    fn check(&self) -> Result<(), SpecError> {
        count("count", self.count.into(), 10_000_000)?;
        count("nodes_each", self.nodes_each.into(), 100_000)?;
        within("first_image", self.first_image.as_ref())
    }
}

fn within(field: &str, time: Option<&Time>) -> Result<(), SpecError> {
    let checked = time.map_or(Ok(()), Time::check);
    checked.map_err(|error| error.inside(field))
}

fn probability(field: &str, value: f64) -> Result<(), SpecError> {
    need(
        (0.0..=1.0).contains(&value),
        field,
        value,
        "a probability, 0 to 1",
    )
}

fn count(field: &str, value: u64, most: u64) -> Result<(), SpecError> {
    if value <= most {
        return Ok(());
    }
    Err(SpecError::new(
        field,
        format!("{value} is not allowed; it must be 0 to {most}"),
    ))
}

fn rising(field: &str, numbers: impl Iterator<Item = u32>) -> Result<(), SpecError> {
    let numbers: Vec<u32> = numbers.collect();
    match numbers.windows(2).position(|pair| pair[0] >= pair[1]) {
        None if numbers.first() != Some(&0) => Ok(()),
        place => {
            let field = format!("{field}[{}].concurrent", place.map_or(0, |i| i + 1));
            Err(SpecError::new(
                field,
                "must be 1 or more, and more than in the row before",
            ))
        }
    }
}
