//! What a simulation shows while it runs.

use crate::{Action, Event};

/// How far a run is, told now and then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    pub requests: u64,
    /// Virtual seconds.
    pub at_s: f64,
    /// About which part of the run is done, 0 to 1.
    pub part: f64,
}

/// Sees all that the machine is told and says, for a log.
pub trait Observer {
    /// At so many nanoseconds this happened, and that is to be done.
    fn saw(&mut self, at: u64, event: Event, actions: &[Action]);
}

/// Looks away.
impl Observer for () {
    #[inline]
    fn saw(&mut self, _at: u64, _event: Event, _actions: &[Action]) {}
}
