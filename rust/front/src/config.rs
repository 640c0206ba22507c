//! What the front is told: one JSON file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use ullage_elastic::{AnyPolicy, Config};

use ullage_common::failure::{Failure, read_input};
use ullage_common::shared_clock::SharedClock;

const MILLISECOND_NS: u64 = 1_000_000;
/// No wait is longer than a day: deadlines stay far from where numbers end.
const LONGEST_MS: u64 = 86_400_000;

/// When the log is on the disk, and not only with the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sync {
    /// At the front's end. A front that is killed loses nothing; a machine that loses power may.
    #[default]
    AtEnd,
    /// Before each batch of answers.
    EachBatch,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Where viewers ask; port 0: any.
    pub listen: SocketAddr,
    /// What the decisions keep to.
    pub config: Config,
    /// Who decides how many nodes there are.
    pub policy: Value,
    /// Event log; continued where there is one already.
    pub log: PathBuf,
    #[serde(default)]
    pub log_sync: Sync,
    /// The controller's clock.
    #[serde(default)]
    pub clock: Option<SharedClock>,
    /// The longest wait, whatever a viewer says.
    #[serde(default = "patience")]
    pub patience_ms_max: u64,
    /// After a restart, those who waited have so long to ask again.
    #[serde(default = "rejoin")]
    pub rejoin_ms: u64,
    /// A viewer that has not said that it finished after so long is taken to have finished. None: never.
    #[serde(default)]
    pub watch_ms_max: Option<u64>,
    /// Ends so long after the controller is gone. None: when it is told to.
    #[serde(default)]
    pub alone_ms: Option<u64>,
    /// Connections at a time. None: what the limit of descriptors allows.
    #[serde(default)]
    pub max_connections: Option<u32>,
    /// A request arrives within so long, and an answer is taken within it.
    #[serde(default = "request")]
    pub request_ms: u64,
    /// A connection may be idle for so long.
    #[serde(default = "idle")]
    pub idle_ms: u64,
}

fn patience() -> u64 {
    3_600_000
}

fn rejoin() -> u64 {
    10_000
}

fn request() -> u64 {
    10_000
}

fn idle() -> u64 {
    60_000
}

/// Milliseconds as nanoseconds.
pub fn ns(milliseconds: u64) -> u64 {
    milliseconds.saturating_mul(MILLISECOND_NS)
}

impl Settings {
    /// Reads the file and checks it.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        read_input(path, Self::parse)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let settings: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        settings.config.check().map_err(|error| error.to_string())?;
        AnyPolicy::try_from(settings.policy.clone()).map_err(|error| error.to_string())?;
        let times = [
            ("patience_ms_max", Some(settings.patience_ms_max), 0),
            ("rejoin_ms", Some(settings.rejoin_ms), 0),
            ("watch_ms_max", settings.watch_ms_max, 1),
            ("alone_ms", settings.alone_ms, 0),
            ("request_ms", Some(settings.request_ms), 1),
            ("idle_ms", Some(settings.idle_ms), 1),
        ];
        for (name, value, least) in times {
            if value.is_some_and(|value| !(least..=LONGEST_MS).contains(&value)) {
                let value = value.unwrap_or_default();
                return Err(format!(
                    "{name} is {value}, allowed is {least} to {LONGEST_MS}"
                ));
            }
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(more: &str) -> Result<Settings, String> {
        Settings::parse(&format!(
            r#"{{"listen":"127.0.0.1:0","config":{{"room":2}},
                "policy":{{"name":"elastic-movie"}},"log":"x"{more}}}"#
        ))
    }

    #[test]
    fn what_is_left_out_has_its_usual_value() {
        let settings = with("").unwrap();
        assert_eq!(settings.patience_ms_max, patience());
        assert_eq!(settings.log_sync, Sync::AtEnd);
        assert!(settings.clock.is_none() && settings.watch_ms_max.is_none());
        assert_eq!(
            with(r#","log_sync":"each_batch""#).unwrap().log_sync,
            Sync::EachBatch
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (more, message) in [
            (r#","idle_ms":0"#, "idle_ms is 0, allowed is 1 to"),
            (
                r#","watch_ms_max":99999999999"#,
                "watch_ms_max is 99999999999",
            ),
            (r#","patience":1"#, "unknown field `patience`"),
            (r#","log_sync":"often""#, "unknown variant `often`"),
        ] {
            let why = with(more).unwrap_err();
            assert!(why.contains(message), "{why}");
        }
        assert!(Settings::parse("{}").unwrap_err().contains("missing field"));
        let failure = Settings::read(Path::new("/nonexistent/front.json")).unwrap_err();
        assert!(format!("{failure:?}").contains("/nonexistent/front.json"));
    }
}
