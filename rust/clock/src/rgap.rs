//! RGAP: another clock's time, by a few messages at the start and none afterwards, with
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
//! - A server that is not the root adds its own bound to h, the worse of when the request came and
//!   when the answer went, so bounds add up along a tree ([`Standing`]).
//! - One synchronisation: |o(t) − θ| ≤ h + ρ·|t − t4| (issue 3, clocks.md §5 (c)); ρ is what the
//!   two clocks may at worst differ in rate ([`Drift::worst_ppb`]). This is the *hard* bound.
//! - The *statistical* bound says less: in 99.9 % of all synchronisations, and if each way takes 45
//!   to 55 % of the round trip, |o − θ| ≤ max(δ/20, 150 ns) + 4·sd + 25 ns ([`Fix::sure_ns`]);
//!   150 ns is what code on both sides may be unlike. sd is the standard deviation of the offsets of the better half of the N exchanges with the least δ, at least 8: the
//!   worse half says more of the delays' tail than of the best exchange. 4 is about Student's t for
//!   it, 25 ns is how long reading a clock takes. On paths that are alike, δ/20 is not needed
//!   ([`Fix::noise_ns`]): how often the truth is inside of either, for delays of several
//!   distributions, is counted in `tests/rgap_coverage.rs`. Only exchanges that no scheduler took
//!   part in are treated so ([`Standing::awake`]): for all others it is the hard one. Beyond 45 to
//!   55 % nothing can be told from alike paths: it is wrong then, and the hard bound is not.
//! - Several, over at least [`Drift::baseline_ns`]: the rate is the slope of the line of least squares
//!   with the weights 1/(4·sd + 25 ns)², and the rate of any moment is within ω of that, the wander
//!   ([`Drift::wander_ppb`]; clocks.md §5 (b), (c)). What the paths' being unlike does is common to
//!   all, so it tilts the line only by as much as δ changed. The clock does not follow that line but
//!   its slope through the one synchronisation that is now known best: with 1 ppm of wander, a clock
//!   is microseconds off a line of ten seconds, where chance is nanoseconds. That a machine's clocks
//!   kept to ω until now is no proof: the hard bound goes on growing with ρ.
//! - Afterwards: between two synchronisations, the chord, wrong by at most
//!   ((T − x)·h₁ + x·h₂)/T + ω·min(x, T − x), since a function that is 0 at both ends and no steeper
//!   than ω gets no further; the same with the statistical bounds.
//!
//! - [`Synced`] adds what the cores may be apart ([`Promise::apart_ns`](crate::Promise::apart_ns)) to both
//!   bounds, as a client and as a server: t1, t4 and t may each have been read on another core. Where a line
//!   was adopted ([`Synced::adopt`]) by a process that has not compared all cores, 100 µs to the hard one.
//!
//! Suspension, moves and steps end every bound, but only once they are noticed: up to a second after by a
//! thread that reads the clock, at once by [`Clock::check`](crate::Clock::check), which
//! [`Synced::disruptions`] asks. In between, bounds are those of a clock that went on.
//!
//! What no message can show: a server that consistently lies, and a rate beyond ρ or a wander beyond
//! ω in between that is undone before the next exchange. What contradicts ρ is an error, never
//! averaged away.

mod client;
mod correction;
mod drift;
mod exchange;
mod global;
mod line;
#[cfg(feature = "std")]
mod seqlock;
mod server;
#[cfg(feature = "std")]
mod slew;
mod smallest;
mod standing;
#[cfg(feature = "std")]
mod synced;
#[cfg_attr(windows, allow(dead_code, reason = "what the transports share"))]
mod wire;

#[cfg(feature = "std")]
pub use channel::{Channel, synchronise};
pub use client::{Action, Client, Counts, Failure, Outcome, Rules, Stop};
pub use correction::Correction;
pub use drift::Drift;
pub use exchange::{Contradiction, Exchange, Fix};
pub use global::{Global, Reading};
pub use server::{Pending, Served, Server};
pub use smallest::KEEP_MOST;
pub use standing::Standing;
#[cfg(feature = "std")]
pub use synced::{Instant, Refusal, SHARE_LENGTH, Synced};
pub use wire::{Body, LENGTH, Malformed, Message, Token};

#[cfg(feature = "std")]
#[cfg_attr(windows, allow(dead_code, reason = "what the transports share"))]
mod channel;
#[cfg(feature = "std")]
pub mod double;
#[cfg(all(feature = "std", unix))]
mod frames;
#[cfg(feature = "std")]
mod patience;
#[cfg(all(feature = "std", unix))]
pub mod pipe;
#[cfg(all(feature = "std", unix))]
mod stream;
#[cfg(all(feature = "std", unix))]
pub mod tcp;
#[cfg(all(feature = "std", unix))]
pub mod udp;

const TRILLION: u64 = 1_000_000_000_000;

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
