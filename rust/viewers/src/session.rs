//! What is told of each viewer.

use std::net::SocketAddrV4;

use serde::{Deserialize, Serialize};

use crate::playback::Violation;

#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Watched to the end.
    Served,
    /// Patience ran out before there was a node.
    Blocked,
    /// The front turned it away.
    Refused,
    /// Something broke; `why` says what.
    Failed,
    /// The run ended first.
    Cut,
}

/// What broke. The names are those in the records.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// The front had no node in time.
    PatienceOver,
    /// The front said that there will be none.
    TurnedAway,
    /// The front did not answer within patience and grace.
    FrontSilent,
    /// Nobody listens, or the network does not lead there.
    ConnectionRefused,
    ConnectionTimedOut,
    /// Reset, or closed before all of an answer was there.
    ConnectionLost,
    /// No byte for too long.
    Silent,
    /// A status of 5xx.
    ServerError,
    /// Another status than the one that belongs there.
    Status,
    /// No HTTP answer, or one without a length.
    Protocol,
    /// Another length than was asked for or told, a range of its own choice.
    Length,
    /// Bytes that nobody asked for.
    Unasked,
    /// A redirect without an address that can be gone to.
    Location,
    /// A redirect to where none may lead.
    NotAllowed,
    /// One redirect after the other.
    RedirectLoop,
    /// The front knows more nodes than a generator can.
    TooManyNodes,
    /// This host had no descriptor, port or memory left: the generator's own fault.
    Generator,
    /// The run's time was over, or it was ended from outside.
    RunEnded,
}

impl Why {
    /// Whether the next node may do better: a viewer asks again.
    pub fn passes(self) -> bool {
        matches!(
            self,
            Self::ConnectionRefused
                | Self::ConnectionTimedOut
                | Self::ConnectionLost
                | Self::Silent
                | Self::ServerError
        )
    }
}

/// One line of the sessions file.
#[derive(Debug, Serialize)]
pub struct Record<'a> {
    pub client: u64,
    pub due_ns: u64,
    /// When its question was sent, or its connection to the node begun.
    pub asked_ns: u64,
    /// When it was told a node, or that there is none.
    pub answered_ns: Option<u64>,
    pub node: Option<SocketAddrV4>,
    pub first_byte_ns: Option<u64>,
    /// When its picture ended, or all was over.
    pub ended_ns: u64,
    pub outcome: Outcome,
    pub why: Option<Why>,
    /// Of the video, complete chunks or not.
    pub bytes: u64,
    pub violations: &'a [Violation],
}
