//! The log of decisions: JSON Lines, of which a machine is made again.
//!
//! ```text
//! {"at_ns":5,"format":1,"config":{"room":40,…},"policy":{"name":"spare","nodes":2}}
//! {"at_ns":9,"event":"request","client":1}
//! {"at_ns":9,"action":"wait","client":1}
//! {"at_ns":9,"action":"allocate","node":0}
//! {"at_ns":30,"note":{"node":0,"address":"10.0.0.5:80"}}
//! ```
//!
//! Each start of a driver writes the first kind of line. An event stands before its actions. Notes are
//! the driver's own; no decision follows from them.

use core::fmt;
use std::collections::VecDeque;
use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::Config;
use crate::event::{Action, Event};
use crate::machine::Machine;
use crate::policy::AnyPolicy;
use crate::settings::BadSetting;

/// Of lines as they are written here.
pub const FORMAT: u32 = 1;

/// One line, without its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Record {
    /// A driver starts.
    Begin {
        format: u32,
        config: Config,
        /// As it was written: its name, and those of its fields that were given.
        policy: Value,
    },
    Event(Event),
    Action(Action),
    Note {
        note: Value,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    pub at_ns: u64,
    #[serde(flatten)]
    pub record: Record,
}

impl Line {
    /// Writes it, with its end.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        out.write_all(b"\n")
    }
}

/// Of a log that is none, or is another's.
#[derive(Debug)]
pub struct LogError {
    /// 1 for the first. None: the log could not be read, or made no machine.
    pub line: Option<u64>,
    pub why: String,
}

impl LogError {
    fn at(line: u64, why: impl fmt::Display) -> Self {
        Self {
            line: Some(line),
            why: why.to_string(),
        }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(out, "line {line}: {}", self.why),
            None => out.write_str(&self.why),
        }
    }
}

impl core::error::Error for LogError {}

impl From<BadSetting> for LogError {
    fn from(bad: BadSetting) -> Self {
        let why = bad.to_string();
        Self { line: None, why }
    }
}

/// What a log told.
#[derive(Debug)]
pub struct Replayed {
    /// As it was after the last event.
    pub machine: Machine<AnyPolicy>,
    /// Of the last line; 0 without any.
    pub at_ns: u64,
    pub events: u64,
    /// The driver's, with their times.
    pub notes: Vec<(u64, Value)>,
    /// Actions of the last event that the log does not have: perhaps they were not done. To be written
    /// before anything else is.
    pub unwritten: Vec<Action>,
    /// Bytes up to the end of the last whole line; what is behind was cut while it was written, and
    /// is to be cut off.
    pub whole: u64,
}

/// Makes a machine of a log. Nothing in it: a new one.
///
/// # Errors
/// If the log cannot be read, a line is none of a log, the log is that of another configuration or
/// policy, or what it says to have been done is not what this program would have done.
pub fn replay(mut log: impl BufRead, config: Config, policy: &Value) -> Result<Replayed, LogError> {
    let any = AnyPolicy::try_from(policy.clone())?;
    let mut replayed = Replayed {
        machine: Machine::new(config, any)?,
        at_ns: 0,
        events: 0,
        notes: Vec::new(),
        unwritten: Vec::new(),
        whole: 0,
    };
    let (mut due, mut text) = (VecDeque::new(), Vec::new());
    for number in 1.. {
        text.clear();
        let unreadable = |error: io::Error| LogError::at(number, error);
        let bytes = log.read_until(b'\n', &mut text).map_err(unreadable)?;
        if text.last() != Some(&b'\n') {
            break;
        }
        let line = serde_json::from_slice(&text);
        let line: Line = line.map_err(|error| LogError::at(number, error))?;
        let taken = replayed.take(line, policy, &mut due);
        taken.map_err(|why| LogError::at(number, why))?;
        replayed.whole += bytes as u64;
    }
    replayed.unwritten = due.into();
    Ok(replayed)
}

impl Replayed {
    fn take(
        &mut self,
        line: Line,
        policy: &Value,
        due: &mut VecDeque<Action>,
    ) -> Result<(), String> {
        if line.at_ns < self.at_ns {
            let (before, after) = (self.at_ns, line.at_ns);
            return Err(format!("time goes back, from {before} to {after} ns"));
        }
        match line.record {
            Record::Begin { format, .. } if format != FORMAT => {
                return Err(format!("format {format}; this program reads {FORMAT}"));
            }
            Record::Begin {
                config,
                policy: other,
                ..
            } => {
                if config != *self.machine.config() || other != *policy {
                    return Err("another configuration or policy".to_owned());
                }
            }
            Record::Event(event) => {
                if let Some(action) = due.front() {
                    return Err(format!("{action:?} should come before this event"));
                }
                let mut actions = Vec::new();
                let handled = self.machine.handle(line.at_ns, event, &mut actions);
                handled.map_err(|refused| refused.to_string())?;
                due.extend(actions);
                self.events += 1;
            }
            Record::Action(action) => match due.pop_front() {
                Some(expected) if expected == action => {}
                Some(expected) => return Err(format!("{action:?} instead of {expected:?}")),
                None => return Err(format!("{action:?} does not follow from the event")),
            },
            Record::Note { note } => self.notes.push((line.at_ns, note)),
        }
        self.at_ns = line.at_ns;
        Ok(())
    }
}
