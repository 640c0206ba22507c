//! Facts and promise as JSON; `ullage.clock.model` is the same as Pydantic models.

use serde_json::{Value, json};
use ullage_clock::{Bridging, Facts, Promise, Rate, RateSource, Scale, Source, Synchrony};

/// No kernel numbers cores higher.
const MOST_CPUS: u32 = 8192;

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

pub fn promise(promise: &Promise) -> Value {
    let names: Vec<&str> = promise.reasons.iter().map(|(name, _)| name).collect();
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
        "drift_ppb": known(promise.drift_ppb),
        "reasons": names,
        "text": promise.to_string(),
    })
}

pub fn rate(rate: &Rate) -> Value {
    json!({
        "millihertz": rate.millihertz,
        "sigma_ppb": known(rate.sigma_ppb),
        "bound_ppb": known(rate.bound_ppb),
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

fn synchrony(cores: &Synchrony, scale: Option<Scale>) -> Value {
    let cpus: Vec<u32> = (0..MOST_CPUS).filter(|cpu| cores.cpus.has(*cpu)).collect();
    json!({
        "cpus": cpus,
        "bound_ns": scale.map(|scale| cores.bound_ns(scale)),
        "apart_ns": scale.map(|scale| scale.ns(cores.apart)),
        "rounds": known(cores.rounds),
        "missed": cores.missed,
    })
}

/// The largest number stands for nothing known.
fn known(number: u32) -> Option<u32> {
    (number < u32::MAX).then_some(number)
}
