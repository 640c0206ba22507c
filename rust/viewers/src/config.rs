//! What a run is told: one JSON object, every field checked before anything is started.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::address::{Network, Url};
use crate::failure::Failure;
use crate::playback::Plan;

/// No run has more viewers: ids and counts stay far from any overflow.
const MOST_VIEWERS: u64 = 1 << 40;
/// A year, the longest of all times that can be asked for.
const LONGEST_S: f64 = 366.0 * 86_400.0;

/// A run. Unknown fields are refused.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where viewers ask: `http://ADDRESS:PORT`. Either this or `nodes`.
    #[serde(default)]
    pub front: Option<Url>,
    /// Videos to be read without asking, in turn: `http://ADDRESS:PORT/PATH`.
    #[serde(default)]
    pub nodes: Vec<Url>,
    /// Where a redirect may lead.
    #[serde(default = "private")]
    pub allow: Vec<Network>,
    pub arrivals: Arrivals,
    pub video: Video,
    #[serde(default)]
    pub playback: Playback,
    /// How long a viewer waits for a node; only with a front.
    #[serde(default = "minute")]
    pub patience_s: f64,
    /// The instant of the schedule's zero, on the clock of `clock`; as soon as all are ready if null.
    #[serde(default)]
    pub start_at_ns: Option<u64>,
    /// The id of the first viewer.
    #[serde(default)]
    pub first_client: u64,
    /// Which of the schedule's viewers are this generator's: one in a fleet takes its share of one
    /// schedule.
    #[serde(default)]
    pub share: Share,
    /// Processes; as many as the descriptors need if null.
    #[serde(default)]
    pub shards: Option<u32>,
    /// File of one record a viewer; must not be there yet.
    #[serde(default)]
    pub sessions: Option<PathBuf>,
    #[serde(default)]
    pub limits: Limits,
    /// The run is invalid when one send in a hundred was later than this.
    #[serde(default = "lateness")]
    pub lateness_limit_ms: f64,
    #[serde(default)]
    pub timing: Timing,
    /// The clock of the instants; this process's own if null.
    #[serde(default)]
    pub clock: Option<SharedClock>,
}

/// When viewers come.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// Exponential gaps.
    Poisson {
        rate_hz: f64,
        #[serde(default)]
        count: Option<u64>,
        #[serde(default)]
        duration_s: Option<f64>,
        #[serde(default = "one")]
        seed: u64,
    },
    /// Equal gaps.
    Uniform {
        rate_hz: f64,
        #[serde(default)]
        count: Option<u64>,
        #[serde(default)]
        duration_s: Option<f64>,
    },
    /// A Poisson process whose rate jumps to `peak_hz` at `at_s` and falls back by e each `decay_s`.
    FlashCrowd {
        rate_hz: f64,
        peak_hz: f64,
        at_s: f64,
        decay_s: f64,
        #[serde(default)]
        count: Option<u64>,
        #[serde(default)]
        duration_s: Option<f64>,
        #[serde(default = "one")]
        seed: u64,
    },
    /// A text file: seconds since the start, one a line, in order.
    Trace { path: PathBuf },
}

/// What is watched.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Video {
    /// Its length; the node's file may be longer.
    pub bytes: u64,
    pub bitrate_bps: u64,
    /// Bytes of a request.
    pub chunk_bytes: u64,
    #[serde(default)]
    pub read: Read,
}

/// How a video is fetched.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Read {
    /// A Range request for each chunk when it is due, on one kept connection.
    #[default]
    Ranges,
    /// One GET, of which a chunk is read when it is due.
    Whole,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Playback {
    /// Seconds of video that are fetched at once before it plays, and kept ahead.
    pub buffer_s: f64,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    pub index: u64,
    pub of: u64,
}

impl Default for Share {
    fn default() -> Self {
        Self { index: 0, of: 1 }
    }
}

/// After which a viewer or the run gives up.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// A connection that is not made.
    pub connect_s: f64,
    /// No byte, though something was asked for.
    pub silence_s: f64,
    /// The front's answer, later than patience has it.
    pub grace_s: f64,
    /// How often a viewer asks the front, the first time included: again when its node failed.
    pub asks: u8,
    /// Redirects that one question may lead through.
    pub redirects: u8,
    /// The run, from its start: who is still watching is cut.
    pub run_s: Option<f64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect_s: 5.0,
            silence_s: 30.0,
            grace_s: 2.0,
            asks: 3,
            redirects: 4,
            run_s: None,
        }
    }
}

/// How instants are met.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timing {
    /// The timing wheel's: sends are late by half of it in the mean, and never early.
    pub tick_us: u32,
    /// Waits in a loop instead of sleeping when something is due so soon. Keeps its core busy.
    pub spin_us: u32,
    /// Before all ordinary processes (`SCHED_FIFO`); needs root.
    pub realtime: bool,
    /// Where the processes may run, in turn; anywhere if empty.
    pub cpus: Vec<u16>,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            tick_us: 50,
            spin_us: 0,
            realtime: false,
            cpus: vec![],
        }
    }
}

/// A clock of a process on the same kernel, as `ullage.clock.line()` and `/proc` tell it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SharedClock {
    pub boot_id: String,
    /// In hexadecimal.
    pub line: String,
}

fn private() -> Vec<Network> {
    Network::private()
}

fn minute() -> f64 {
    60.0
}

fn lateness() -> f64 {
    10.0
}

fn one() -> u64 {
    1
}

impl Config {
    /// A file's, checked. BAD INPUT with what is wrong.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
        Self::parse(&text).map_err(|why| Failure::input(format!("{}: {why}", path.display())))
    }

    /// The same of a text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let config: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        match (&self.front, self.nodes.len()) {
            (None, 0) => return Err("either `front` or `nodes` is needed".into()),
            (Some(_), 1..) => return Err("`front` and `nodes` exclude one another".into()),
            _ => {}
        }
        self.arrivals.check()?;
        self.video.check()?;
        seconds("playback.buffer_s", self.playback.buffer_s, 0.0)?;
        seconds("patience_s", self.patience_s, 0.0)?;
        let limits = &self.limits;
        seconds("limits.connect_s", limits.connect_s, 1e-3)?;
        seconds("limits.silence_s", limits.silence_s, 1e-3)?;
        seconds("limits.grace_s", limits.grace_s, 1e-3)?;
        if let Some(run_s) = limits.run_s {
            seconds("limits.run_s", run_s, 1e-3)?;
        }
        number("limits.asks", f64::from(limits.asks), 1.0, 255.0)?;
        number("lateness_limit_ms", self.lateness_limit_ms, 1e-3, 1e6)?;
        number("timing.tick_us", f64::from(self.timing.tick_us), 1.0, 1e4)?;
        number("timing.spin_us", f64::from(self.timing.spin_us), 0.0, 1e6)?;
        if self.share.index >= self.share.of || self.share.of > 1 << 20 {
            return Err("`share.index` must be below `share.of`, and that at most 2^20".into());
        }
        if self.first_client > MOST_VIEWERS {
            return Err("`first_client` is above 2^40".into());
        }
        match self.shards {
            Some(shards) => number("shards", f64::from(shards), 1.0, 1024.0),
            None => Ok(()),
        }
    }

    /// The video as viewers go through it.
    pub fn plan(&self) -> Plan {
        let video = &self.video;
        Plan::new(
            video.bytes,
            video.chunk_bytes,
            video.bitrate_bps,
            nanoseconds(self.playback.buffer_s),
        )
    }

    /// How many viewers there may be at once, about: for the number of processes. Of a trace, all.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn at_once(&self) -> f64 {
        let longest_s = self.plan().duration_ns() as f64 / 1e9 * 1.5
            + self.patience_s
            + self.playback.buffer_s
            + self.limits.silence_s;
        let all = match &self.arrivals {
            Arrivals::Trace { .. } => f64::INFINITY,
            Arrivals::Poisson {
                rate_hz,
                count,
                duration_s,
                ..
            }
            | Arrivals::Uniform {
                rate_hz,
                count,
                duration_s,
            } => most(*rate_hz, *count, *duration_s, longest_s),
            Arrivals::FlashCrowd {
                rate_hz,
                peak_hz,
                count,
                duration_s,
                decay_s,
                ..
            } => most(*rate_hz, *count, *duration_s, longest_s).max(
                count
                    .map_or(f64::INFINITY, |count| count as f64)
                    .min(rate_hz * longest_s + peak_hz * decay_s),
            ),
        };
        all / self.share.of as f64
    }
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn most(rate_hz: f64, count: Option<u64>, duration_s: Option<f64>, longest_s: f64) -> f64 {
    let come = rate_hz * duration_s.unwrap_or(f64::INFINITY).min(longest_s);
    count.map_or(come, |count| come.min(count as f64))
}

impl Arrivals {
    fn check(&self) -> Result<(), String> {
        let (rate_hz, count, duration_s) = match self {
            Self::Trace { .. } => return Ok(()),
            Self::Poisson {
                rate_hz,
                count,
                duration_s,
                ..
            }
            | Self::Uniform {
                rate_hz,
                count,
                duration_s,
            } => (rate_hz, count, duration_s),
            Self::FlashCrowd {
                rate_hz,
                peak_hz,
                at_s,
                decay_s,
                count,
                duration_s,
                ..
            } => {
                number("arrivals.peak_hz", *peak_hz, *rate_hz, 1e8)?;
                seconds("arrivals.at_s", *at_s, 0.0)?;
                seconds("arrivals.decay_s", *decay_s, 1e-6)?;
                (rate_hz, count, duration_s)
            }
        };
        number("arrivals.rate_hz", *rate_hz, 1e-6, 1e8)?;
        if count.is_none() && duration_s.is_none() {
            return Err("`arrivals` need `count` or `duration_s`, or both".into());
        }
        if count.is_some_and(|count| count > MOST_VIEWERS) {
            return Err("`arrivals.count` is above 2^40".into());
        }
        duration_s.map_or(Ok(()), |length| seconds("arrivals.duration_s", length, 0.0))
    }
}

impl Video {
    fn check(&self) -> Result<(), String> {
        if !(1..=1 << 50).contains(&self.bytes) {
            return Err("`video.bytes` must be 1 to 2^50".into());
        }
        if !(8..=1 << 40).contains(&self.bitrate_bps) {
            return Err("`video.bitrate_bps` must be 8 to 2^40".into());
        }
        if !(1..=1 << 30).contains(&self.chunk_bytes) {
            return Err("`video.chunk_bytes` must be 1 to 2^30".into());
        }
        if self.bytes.div_ceil(self.chunk_bytes) > 1 << 30 {
            return Err("`video.bytes` are over 2^30 chunks".into());
        }
        Ok(())
    }
}

fn seconds(name: &str, value: f64, least: f64) -> Result<(), String> {
    number(name, value, least, LONGEST_S)
}

fn number(name: &str, value: f64, least: f64, most: f64) -> Result<(), String> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("`{name}` is {value}; it must be {least} to {most}"))
    }
}

/// Of seconds that were checked.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked: 0 to a year"
)]
pub fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
