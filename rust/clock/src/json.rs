//! Facts, promise and rate as JSON, for the bindings; `ullage.common.clock_model` reads the same in Python.
//!
//! A number that nobody knows is `null`.

use std::string::ToString as _;
use std::vec::Vec;

use crate::{Bridging, Facts, Promise, Rate, RateSource, Reasons, Scale, Source, Synchrony};
use serde_json::{Value, json};

/// No kernel numbers cores higher.
const MOST_CPUS: u32 = 8192;

/// What was found out about this machine's counter.
#[must_use]
pub fn facts(facts: &Facts) -> Value {
    let scale = facts.rate.and_then(|rate| Scale::of(&rate));
    json!({
        "readable": facts.readable,
        "invariant": facts.invariant,
        "paired": facts.paired,
        "kernel_uses": facts.kernel_uses,
        "kernel_distrusts": facts.kernel_distrusts,
        "virtual_machine": facts.virtual_machine,
        "vmclock": facts.vmclock,
        "stated": facts.stated.as_ref().map(rate),
        "rate": facts.rate.as_ref().map(rate),
        "synchrony": facts.synchrony.as_ref().map(|cores| synchrony(cores, scale)),
    })
}

/// What the clock promises, in names and in words.
#[must_use]
pub fn promise(promise: &Promise) -> Value {
    json!({
        "source": match promise.source {
            Source::Counter => "counter",
            Source::MonotonicRaw => "monotonic-raw",
        },
        "bridging": match promise.bridging {
            Bridging::Counter => "counter",
            Bridging::Clock => "clock",
        },
        "ordered_ns": promise.ordered_ns,
        "cores": promise.cores,
        "rate": rate(&promise.rate),
        "drift_ppb": finite(promise.drift_ppb),
        "reasons": names(promise.reasons),
        "text": promise.to_string(),
    })
}

/// A rate with what is known of its error.
#[must_use]
pub fn rate(rate: &Rate) -> Value {
    json!({
        "millihertz": rate.millihertz,
        "sigma_ppb": finite(rate.sigma_ppb),
        "bound_ppb": finite(rate.bound_ppb),
        "source": match rate.source {
            RateSource::Exact => "exact",
            RateSource::Crystal => "crystal",
            RateSource::BaseMhz => "base-mhz",
            RateSource::Hypervisor => "hypervisor",
            RateSource::Firmware => "firmware",
            RateSource::Fitted => "fitted",
        },
    })
}

/// The names of the reasons.
#[must_use]
pub fn names(reasons: Reasons) -> Vec<&'static str> {
    reasons.iter().map(|(name, _)| name).collect()
}

fn synchrony(cores: &Synchrony, scale: Option<Scale>) -> Value {
    let cpus: Vec<u32> = (0..MOST_CPUS).filter(|cpu| cores.cpus.has(*cpu)).collect();
    json!({
        "cpus": cpus,
        "bound_ns": scale.map(|scale| cores.bound_ns(scale)),
        "apart_ns": scale.map(|scale| scale.ns(cores.apart)),
        "rounds": finite(cores.rounds),
        "missed": cores.missed,
    })
}

/// The largest number stands for nothing known.
fn finite(number: u32) -> Option<u32> {
    (number < u32::MAX).then_some(number)
}
