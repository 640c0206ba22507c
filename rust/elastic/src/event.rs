//! What happens to the application, and what it does about it.

use core::fmt;

use serde::{Deserialize, Serialize};

/// Of a viewer, chosen by it.
pub type ClientId = u64;
/// Of a node, chosen by the machine: 0, 1, 2 …, never given twice.
pub type NodeId = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A viewer asks for the video. One that is being served and asks again has lost its node: it
    /// leaves that and is placed anew.
    Request { client: ClientId },
    /// A node that was being allocated can stream.
    NodeReady { node: NodeId },
    /// A node is gone without having been released: its allocation failed, or it died, or it could
    /// not be released in order.
    NodeFailed { node: NodeId },
    /// A viewer that was served has seen enough.
    Finished { client: ClientId },
    /// A viewer that waits has no patience left. The driver has the timers.
    TimedOut { client: ClientId },
    /// A node that was being released is gone.
    Released { node: NodeId },
    /// Nothing but time: at the driver's start, and when [`Machine::wake_at`](crate::Machine::wake_at)
    /// says so.
    Tick,
}

/// What is to be done, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// Send the viewer to the node.
    Redirect { client: ClientId, node: NodeId },
    /// The viewer waits, behind those who wait already, until it is redirected, turned away or has no
    /// patience left.
    Wait { client: ClientId },
    /// The viewer is told to go; it is not known any more.
    TurnAway { client: ClientId, why: Why },
    /// The viewer's node failed under it; it is not known any more, and may ask again.
    Lost { client: ClientId, node: NodeId },
    /// Begin to allocate a node, and say `NodeReady` or `NodeFailed` in the end.
    Allocate { node: NodeId },
    /// Begin to release a node, and say `Released` or `NodeFailed` in the end.
    Release { node: NodeId },
}

/// Why a viewer is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Its patience ended.
    Patience,
    /// As many wait as may.
    WaitingRoomFull,
    /// `max_nodes` is 0: there will never be a node.
    NoNodes,
}

/// An event that cannot be. The machine is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refused {
    /// Earlier than the event before.
    Backwards {
        at: u64,
        last: u64,
    },
    /// The viewer waits already.
    AlreadyWaiting {
        client: ClientId,
    },
    /// Nobody serves such a viewer.
    NotServed {
        client: ClientId,
    },
    NotWaiting {
        client: ClientId,
    },
    /// No such node is being allocated.
    NotComing {
        node: NodeId,
    },
    /// No such node is being released.
    NotLeaving {
        node: NodeId,
    },
    /// There is no such node.
    NoSuchNode {
        node: NodeId,
    },
    /// More viewers or nodes than can be counted.
    TooMany,
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backwards { at, last } => {
                write!(out, "{at} ns is before the last event, at {last} ns")
            }
            Self::AlreadyWaiting { client } => write!(out, "viewer {client} waits already"),
            Self::NotServed { client } => write!(out, "viewer {client} is not served"),
            Self::NotWaiting { client } => write!(out, "viewer {client} does not wait"),
            Self::NotComing { node } => write!(out, "node {node} is not being allocated"),
            Self::NotLeaving { node } => write!(out, "node {node} is not being released"),
            Self::NoSuchNode { node } => write!(out, "there is no node {node}"),
            Self::TooMany => out.write_str("more than can be counted"),
        }
    }
}

impl core::error::Error for Refused {}
