//! What the agent says: the answers of `docs/internals/agent-protocol.md`.

use serde::Serialize;
use ullage_common::shared_clock::SharedClock;

use crate::facts::Facts;
use crate::protocol::{Code, Failure};
use crate::sample::Sample;

/// A JSON frame to the controller.
#[derive(Debug, Serialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum Response {
    Hello {
        id: u32,
        version: u32,
        agent: &'static str,
        facts: Box<Facts>,
        clock: ClockState,
    },
    Started {
        id: u32,
        pid: u32,
        start_ns: u64,
        late_ns: u64,
    },
    Exit {
        id: u32,
        status: Option<u32>,
        signal: Option<i32>,
        timed_out: bool,
        start_ns: u64,
        end_ns: u64,
        /// So long after the end was the output still open.
        held_ns: u64,
        reasons: Vec<&'static str>,
        rusage: Usage,
    },
    Done {
        id: u32,
        #[serde(flatten)]
        file: Option<Transfer>,
    },
    #[serde(rename = "done")]
    Swept {
        id: u32,
        killed: usize,
    },
    Sample {
        id: u32,
        #[serde(flatten)]
        sample: Box<Sample>,
    },
    Credit {
        bytes: u64,
    },
    Error {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<u32>,
        code: Code,
        message: String,
    },
}

impl Response {
    pub fn error(id: Option<u32>, failure: Failure) -> Self {
        Self::Error {
            id,
            code: failure.code,
            message: shorten(failure.message),
        }
    }

    pub fn done(id: u32) -> Self {
        Self::Done { id, file: None }
    }
}

/// What the agent says of its clock.
#[derive(Debug, Serialize)]
pub struct ClockState {
    pub ns: u64,
    pub source: &'static str,
    pub ordered_ns: Option<u64>,
    pub reasons: Vec<&'static str>,
    /// It shows the controller's time.
    pub shared: bool,
    /// For the programs that the agent runs: with this they show its time. None where the boot is not told.
    pub line: Option<SharedClock>,
}

/// What was moved by a `put` or a `get`.
#[derive(Debug, Serialize)]
pub struct Transfer {
    pub size: u64,
    pub sha256: String,
    /// Of a `get`: there was more than its limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
}

/// What a child and the descendants that it waited for used up; on Windows the times are of all that it
/// started, peak memory is its own alone. What a system does not count is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rss_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minor_faults: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub major_faults: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voluntary_switches: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub involuntary_switches: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_blocks: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_blocks: Option<u64>,
}

/// Messages may quote input, and an answer must stay a small frame.
fn shorten(mut message: String) -> String {
    const LIMIT: usize = 1000;
    if message.len() > LIMIT {
        let end = (0..=LIMIT).rev().find(|end| message.is_char_boundary(*end));
        message.truncate(end.unwrap_or(0));
        message.push('…');
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_fields_are_absent_in_answers() {
        let done = serde_json::to_string(&Response::done(4)).expect("json");
        assert_eq!(done, r#"{"op":"done","id":4}"#);
        let error = Response::error(None, Failure::new(Code::BadMark, "x"));
        let error = serde_json::to_string(&error).expect("json");
        assert_eq!(error, r#"{"op":"error","code":"bad-mark","message":"x"}"#);
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let message = shorten("é".repeat(5000));
        assert!(message.len() < 1010 && message.ends_with("é…"));
    }
}
