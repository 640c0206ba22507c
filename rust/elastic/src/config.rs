//! What the application is told, beside its policy.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::settings::{BadSetting, Settings};

/// Viewers per node, at most; beyond it the table of occupancies would be all there is in memory.
const MOST_ROOM: u32 = 1_000_000;

/// How many nodes are allocated at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Allocation {
    /// The next begins when the last has ended, however many wait.
    #[default]
    OneAtATime,
    /// As many as those who wait will fill.
    OnePerNeed,
    /// One for each viewer that waits, though one node would have room for many of them.
    OnePerRequest,
}

/// Which node with room a viewer is sent to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// The fullest, so that others run empty and can be released.
    #[default]
    Fullest,
    /// The emptiest, so that the load is even.
    Emptiest,
}

const ALLOCATIONS: &[(&str, Allocation)] = &[
    ("one_at_a_time", Allocation::OneAtATime),
    ("one_per_need", Allocation::OnePerNeed),
    ("one_per_request", Allocation::OnePerRequest),
];

const PLACEMENTS: &[(&str, Placement)] = &[
    ("fullest", Placement::Fullest),
    ("emptiest", Placement::Emptiest),
];

/// What the machine keeps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct Config {
    /// Viewers that one node can serve at a time. 0: none can serve any.
    pub room: u32,
    /// Nodes at a time, those that come and go included. None: as many as are wanted.
    pub max_nodes: Option<u32>,
    /// Nodes that are kept, used or not.
    pub min_nodes: u32,
    /// How many allocations run at a time.
    pub allocation: Allocation,
    /// Where a viewer is sent.
    pub placement: Placement,
    /// Viewers that may wait at a time; more are turned away. None: as many as come.
    pub waiting_room: Option<u32>,
}

impl Config {
    /// Of nodes with room for so many viewers; everything else as `ElasticMovie` has it.
    #[must_use]
    pub fn new(room: u32) -> Self {
        Self {
            room,
            max_nodes: None,
            min_nodes: 0,
            allocation: Allocation::default(),
            placement: Placement::default(),
            waiting_room: None,
        }
    }

    /// # Errors
    /// If a value is out of its bounds, or two of them contradict each other.
    pub fn check(&self) -> Result<(), BadSetting> {
        if self.room > MOST_ROOM {
            let allowed = format!("0 to {MOST_ROOM}");
            return Err(BadSetting::new("room", &self.room, allowed));
        }
        match self.max_nodes {
            Some(most) if self.min_nodes > most => {
                let allowed = format!("0 to max_nodes, which is {most}");
                Err(BadSetting::new("min_nodes", &self.min_nodes, allowed))
            }
            _ => Ok(()),
        }
    }
}

impl TryFrom<Value> for Config {
    type Error = BadSetting;

    fn try_from(value: Value) -> Result<Self, BadSetting> {
        let mut settings = Settings::of("config", &value)?;
        let room = settings.whole_or_none("room", 0..=MOST_ROOM)?;
        let config = Self {
            room: room.ok_or_else(|| {
                let allowed = format!("a whole number from 0 to {MOST_ROOM}");
                BadSetting::new("room", &"missing", allowed)
            })?,
            max_nodes: settings.whole_or_none("max_nodes", 0..=u32::MAX)?,
            min_nodes: settings.whole("min_nodes", 0..=u32::MAX, 0)?,
            allocation: settings.choice("allocation", ALLOCATIONS)?,
            placement: settings.choice("placement", PLACEMENTS)?,
            waiting_room: settings.whole_or_none("waiting_room", 0..=u32::MAX)?,
        };
        settings.finish()?;
        config.check()?;
        Ok(config)
    }
}
