//! Evaluates the clock of `ullage-clock` on the machine that it runs on, and how
//! synchronisation scales to more nodes than there are, by simulation.
//!
//! Every unit is a module with `Options` (serde, all fields have defaults), an `Outcome` (serde) and
//! `run(&options, progress)`, that calls `progress(done, of)` now and then; what may last long
//! has a cap at which it stops, and says so. What a machine lacks is [`Absent`] with the reason,
//! never a figure.
//!
//! * [`accuracy`]: how wrong the global clock is, and whether its bounds say so.
//! * [`ecp`]: are elapsed times precise: 15 additions, timed by every clock.
//! * [`strict`]: does a value ever not exceed the one before.
//! * [`cost`]: what a read costs, as ratios.
//! * [`loops`]: loops of a known number of instructions, against an independent clock.
//! * [`scaling`]: flat, two-level and tree synchronisation, to a million nodes.

pub mod accuracy;
pub mod cost;
pub mod ecp;
mod error;
mod external;
pub mod loops;
mod machine;
mod mover;
mod probe;
pub mod scaling;
mod stats;
pub mod strict;
mod work;

pub use error::Error;
pub use external::{External, Kind};
pub use machine::{Absent, Machine};
pub use mover::Period;
pub use probe::Probe;
pub use stats::{Bin, Histogram, Interval, Summary};

/// Told how much is done, of how much.
pub type Progress<'a> = dyn FnMut(u64, u64) + 'a;
