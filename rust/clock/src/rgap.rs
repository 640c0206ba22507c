//! RGAP: another clock's time, by a few messages at the start and none afterwards (SPEC S4.9), with
//! a bound on how wrong it may be, and corrected after the fact.
//!
//! [`Client`] and [`Server`] decide what to send and when to stop, and touch neither network nor
//! clock; [`Global`] turns local instants into global ones; [`Correction`] does so again once a
//! second synchronisation is there. All instants are 64-bit nanoseconds: a double at the Unix epoch
//! resolves 238 ns (clocks.md §5).
//!
//! # Formulas
//!
//! An exchange is sent at t1 and received at t4 by the client's clock C; the server receives at t2
//! and answers at t3 by its clock S. The offset is o = S − C, a function of C.
//!
//! - θ = ((t2 − t1) + (t3 − t4)) / 2 and δ = (t4 − t1) − (t3 − t2): RFC 5905 §8. Where t2 = t3 this is
//!   S4.9's `init_remote` + `RTT_min`/2 − `init_local`.
//! - A message cannot arrive before it is sent, so t3 − t4 ≤ o ≤ t2 − t1, which is θ ± δ/2 however
//!   asymmetric the paths are (Cristian 1989, with no minimum delay assumed). While the exchange
//!   lasts, o moves by at most ρ·(t4 − t1); clocks are read in whole nanoseconds:
//!   h = ⌈δ/2⌉ + ⌈ρ·(t4 − t1 + 1)⌉ + 2, at t4 ([`Fix::half_ns`]).
//! - The exchange with the least δ is taken (S4.9, Cristian 1989).
//! - One synchronisation: |o(t) − θ| ≤ h + ρ·|t − t4| (issue 3, clocks.md §5 (c)); ρ is what the
//!   two clocks may at worst differ in rate ([`Drift::worst_ppb`]).
//! - Two, T apart: slope s = (θ₂ − θ₁)/T, which is the mean rate within (h₁ + h₂)/T, and the rate of
//!   any moment within that and ω, the wander ([`Drift::wander_ppb`]; clocks.md §5 (b), (c)).
//! - Afterwards: between the two, the chord, wrong by at most ((T − x)·h₁ + x·h₂)/T + ω·min(x, T − x),
//!   since a function that is 0 at both ends and no steeper than ω gets no further.
//!
//! What no message can show: a server that consistently lies, and a rate beyond ρ or a wander beyond
//! ω in between that is undone before the next exchange. What contradicts ρ is an error, never
//! averaged away.

mod client;
mod correction;
mod exchange;
mod global;
mod server;
mod smallest;
mod wire;

pub use client::{Action, Client, Counts, Failure, Outcome, Rules, Stop};
pub use correction::Correction;
pub use exchange::{Contradiction, Exchange, Fix};
pub use global::{Drift, Global, Reading};
pub use server::{Pending, Served, Server};
pub use smallest::KEEP_MOST;
pub use wire::{Body, LENGTH, Malformed, Message, Token};

#[cfg(feature = "std")]
pub mod double;
#[cfg(feature = "std")]
pub mod udp;

/// 10^12.
const TRILLION: u64 = 1_000_000_000_000;

/// Parts per trillion.
fn ppt(ppb: u32) -> u64 {
    u64::from(ppb) * 1_000
}

/// How far a rate of so many parts per trillion gets, rounded up.
fn drift_ns(ppt: u64, ns: u64) -> u64 {
    let parts = u128::from(ppt) * u128::from(ns);
    u64::try_from(parts.div_ceil(u128::from(TRILLION))).unwrap_or(u64::MAX)
}

/// The rate that gets so far in this time, in parts per trillion, rounded up.
fn rate_ppt(far_ns: u64, ns: u64) -> u64 {
    let parts = u128::from(far_ns) * u128::from(TRILLION);
    u64::try_from(parts.div_ceil(u128::from(ns.max(1)))).unwrap_or(u64::MAX)
}
