//! The clock under everything: RVEC, a strictly increasing clock per thread that costs about a
//! counter read, and what it may promise on this machine.
//!
//! Most callers want [`Clock::get`] once, then [`Clock::now`] (strictly increasing in the thread),
//! [`Clock::ordered`] (comparable with other threads) or [`Clock::stamp`] (with the reasons, if
//! any, why the value is worth less than it could be). [`Clock::promise`] says in advance.
//!
//! Another clock's time comes from [`rgap`].
//!
//! The core ([`Scale`], [`Counter`], [`Shared`], [`Rvec`], [`Facts`], [`Promise`], [`rgap`]) needs neither
//! `std` nor an allocator; everything that touches a machine is behind the `std` feature and is for
//! Linux and Windows, whose differences are in `sys`. RGAP's own transports are for Linux.

#![no_std]

#[cfg(any(feature = "std", test))]
extern crate std;

mod counter;
mod cpus;
mod promise;
mod rate;
mod reasons;
pub mod rgap;
mod rvec;
mod scale;
mod shared;
mod synchrony;

pub use counter::{Counter, NO_CPU, Pair, Sample};
pub use cpus::CpuSet;
pub use promise::{Facts, Promise, Source};
pub use rate::{Rate, RateSource};
pub use reasons::Reasons;
pub use rvec::Rvec;
pub use scale::{SHIFT, Scale};
pub use shared::{Anchor, Bridging, Fold, Shared};
pub use synchrony::{Offset, Synchrony};

#[cfg(feature = "std")]
mod any;
#[cfg(feature = "std")]
mod calibrate;
#[cfg(feature = "std")]
mod clock;
#[cfg(all(feature = "std", target_arch = "aarch64"))]
mod cntvct;
#[cfg(feature = "std")]
mod cpu;
#[cfg(feature = "std")]
mod distortion;
#[cfg(feature = "std")]
pub mod double;
#[cfg(feature = "std")]
mod gather;
#[cfg(feature = "json")]
pub mod json;
#[cfg(feature = "std")]
mod line;
#[cfg(feature = "std")]
mod ping;
#[cfg(feature = "std")]
mod raw;
#[cfg(feature = "std")]
mod sys;
#[cfg(all(feature = "std", target_arch = "x86_64"))]
mod tsc;
#[cfg(feature = "std")]
mod vmclock;
#[cfg(feature = "std")]
mod watch;

#[cfg(feature = "std")]
pub use calibrate::{fit, measure};
#[cfg(feature = "std")]
pub use clock::{Clock, Stamp};
#[cfg(all(feature = "std", target_arch = "aarch64"))]
pub use cntvct::Cntvct;
#[cfg(feature = "std")]
pub use cpu::CpuId;
#[cfg(feature = "std")]
pub use line::{Apart, Known, LINE_LENGTH, Line};
#[cfg(feature = "std")]
pub use ping::synchrony;
#[cfg(feature = "std")]
pub use raw::Raw;
#[cfg(feature = "std")]
pub use sys::boot_ns;
#[cfg(all(feature = "std", target_arch = "x86_64"))]
pub use tsc::Tsc;
#[cfg(feature = "std")]
pub use vmclock::VmClock;
#[cfg(feature = "std")]
pub use watch::Watch;
