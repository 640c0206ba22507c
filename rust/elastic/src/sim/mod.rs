//! The simulator: drives the machine that the front drives, over virtual time.
//!
//! Viewers come ([`Arrivals`](crate::Arrivals)), watch and lose their patience ([`Time`]); nodes take their time to come
//! and go, fail and die, on hosts with or without the image. All that is decided about them
//! [`Machine`](crate::Machine) decides. The same [`Spec`] gives the same [`Outcome`], to the last bit;
//! arrivals, watching times, patience and each stage of an allocation are drawn from random numbers
//! of their own, so that two policies with one seed meet the same viewers.
//!
//! Memory grows with the viewers and nodes that are there at the same time, not with those that have
//! gone. Viewers have small numbers, given again when they are free.

mod ahead;
mod arrivals_check;
mod curves;
mod elasticity;
mod engine;
mod error;
mod fleet;
mod hosts;
mod ladder;
mod levels;
mod meter;
mod offered;
mod outcome;
mod progress;
mod queue;
mod records;
mod sessions;
mod spec;
mod stall_check;
mod time;
mod window;

use std::ops::ControlFlow;

pub use curves::Curves;
pub use elasticity::Elasticity;
pub use error::{Error, SpecError};
pub use levels::Level;
pub use outcome::{
    Decisions, End, Levels, NodeCounts, NodeRecord, Outcome, Record, Steady, Summary, ViewerCounts,
};
pub use progress::{Observer, Progress};
pub use spec::{
    Allocation, Failures, HostPlacement, Hosts, MOST_RECORDS, Row, SlowDown, Spec, Stage,
};
pub use time::Time;

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
