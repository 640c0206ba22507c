//! What each field of a run may be.

use crate::config::{Arrivals, Config, Video};

/// No run has more viewers: ids and counts stay far from any overflow.
const MOST_VIEWERS: u64 = 1 << 40;
/// A year, the longest of all times that can be asked for.
const LONGEST_S: f64 = 366.0 * 86_400.0;

impl Config {
    /// What is wrong, by its name.
    pub fn check(&self) -> Result<(), String> {
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
        seconds("limits.tell_s", limits.tell_s, 0.0)?;
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
        let sent = self.sent_bps.unwrap_or(self.bitrate_bps);
        if !(self.bitrate_bps..=1 << 40).contains(&sent) {
            return Err("`video.sent_bps` must be `video.bitrate_bps` to 2^40".into());
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
