//! Decisions of an elastic application, and a simulator that drives them.
//!
//! [`Machine`] is the application's head: events go in (a viewer asks, a node is ready), actions come
//! out (redirect, wait, allocate, release). It does no I/O and reads no clock, so that the front, which
//! serves real viewers, and the simulator decide alike, event by event. A [`Policy`] tells it how many
//! nodes to have.

mod arrivals;
mod bitset;
mod config;
mod event;
mod intrusive_list;
pub mod log;
mod machine;
mod nodes;
pub mod policy;
mod present;
mod rings;
mod settings;
pub mod sim;
mod units;

pub use arrivals::{Arrivals, Schedule};
pub use config::{Allocation, Config, Placement};
pub use event::{Action, ClientId, Event, NodeId, Refused, Why};
pub use machine::{Machine, NodeView, Snapshot, Whereabouts};
pub use nodes::NodeState;
pub use policy::{AnyPolicy, BadSetting, Policy, View, Wish};
pub use present::{Dense, Hashed, Index};
