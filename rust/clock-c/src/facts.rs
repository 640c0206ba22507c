//! What was found out about this machine, and what follows, as JSON.

use core::ffi::{c_char, c_int};

use rust_clock::{Bridging, Clock, Rate, RateSource, Reasons, Source};
use serde_json::{Value, json};

use crate::text;

/// As the header says.
///
/// # Safety
/// `buffer` is null or good for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_clock_facts(buffer: *mut c_char, size: usize) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe { text::copy(&facts(Clock::get()).to_string(), buffer, size) }
}

fn facts(clock: &Clock) -> Value {
    let (facts, promise) = (clock.facts(), clock.promise());
    json!({
        "facts": {
            "readable": facts.readable,
            "invariant": facts.invariant,
            "paired": facts.paired,
            "kernel_uses": facts.kernel_uses,
            "kernel_distrusts": facts.kernel_distrusts,
            "virtual_machine": facts.virtual_machine,
            "vmclock": facts.vmclock,
            "stated": facts.stated.as_ref().map(rate),
            "measured": facts.rate.as_ref().map(rate),
        },
        "promise": {
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
            "drift_ppb": promise.drift_ppb,
            "reasons": names(promise.reasons),
        },
        "rate": rate(&clock.rate()),
        "reasons": names(clock.stamp().reasons),
    })
}

fn names(reasons: Reasons) -> Vec<&'static str> {
    reasons.iter().map(|(name, _)| name).collect()
}

fn rate(rate: &Rate) -> Value {
    let known = |ppb: u32| (ppb != u32::MAX).then_some(ppb);
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
