//! The simulator: drives the machine that the front drives, over virtual time.
//!
//! Viewers come ([`Arrivals`]), watch and lose their patience ([`Time`]); nodes take their time to come
//! and go, fail and die, on hosts with or without the image. All that is decided about them
//! [`Machine`](crate::Machine) decides. The same [`Spec`] gives the same [`Outcome`], to the last bit;
//! arrivals, watching times, patience and each stage of an allocation are drawn from random numbers
//! of their own, so that two policies with one seed meet the same viewers.
//!
//! Memory grows with the viewers and nodes that are there at the same time, not with those that have
//! gone. Viewers have small numbers, given again when they are free.

mod ahead;
mod arrivals;
mod curves;
mod elasticity;
mod engine;
mod error;
mod fleet;
mod hopeless;
mod hosts;
mod ladder;
mod levels;
mod meter;
mod offered;
mod outcome;
mod queue;
mod records;
mod sessions;
mod spec;
mod time;
mod window;

use std::ops::ControlFlow;

pub use arrivals::Arrivals;
pub use curves::Curves;
pub use elasticity::Elasticity;
pub use error::{Error, SpecError};
pub use fleet::NodeCounts;
pub use levels::Level;
pub use outcome::{
    Decisions, End, Levels, NodeRecord, Outcome, Record, Steady, Summary, ViewerCounts,
};
pub use spec::{
    Allocation, Failures, HostPlacement, Hosts, MOST_RECORDS, Row, SlowDown, Spec, Stage,
};
pub use time::Time;

use crate::{Action, Event};

/// How far a run is, told now and then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Viewers that have come.
    pub requests: u64,
    /// Virtual seconds.
    pub at_s: f64,
    /// Of the run, 0 to 1, about.
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

/// Simulates.
///
/// # Errors
/// If the specification cannot be simulated.
pub fn run(spec: &Spec) -> Result<Outcome, Error> {
    run_with(spec, &mut |_| ControlFlow::Continue(()), &mut ())
}

/// Simulates; tells how far it is every few milliseconds, and stops at a `Break`.
///
/// # Errors
/// If the specification cannot be simulated, or the caller does not want it any more.
pub fn run_with(
    spec: &Spec,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    observer: &mut impl Observer,
) -> Result<Outcome, Error> {
    spec.check()?;
    engine::run(spec, progress, observer)
}
