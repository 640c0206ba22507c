//! What a run is told: one JSON object, every field checked before anything is started.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::address::{Network, Url};
use crate::playback::Plan;
use ullage_common::failure::{Failure, read_input};
use ullage_common::shared_clock::SharedClock;

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

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
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

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Video {
    /// Its length; the node's file may be longer.
    pub bytes: u64,
    /// At which it is watched.
    pub bitrate_bps: u64,
    /// At which it is fetched; as it is watched if null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_bps: Option<u64>,
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

/// Limits after which a viewer or the run gives up.
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
    /// For so long a viewer that is gone tries to tell the front: else it keeps its place there.
    pub tell_s: f64,
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
            tell_s: 60.0,
            redirects: 4,
            run_s: None,
        }
    }
}

/// How the generator keeps to its instants.
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
    /// The configuration in a file, checked.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        read_input(path, Self::parse)
    }

    /// The configuration in a text, checked.
    pub fn parse(text: &str) -> Result<Self, String> {
        let config: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        config.check()?;
        Ok(config)
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
        .sent_at(video.sent_bps.unwrap_or(video.bitrate_bps))
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

/// Nanoseconds of seconds that were checked.
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
