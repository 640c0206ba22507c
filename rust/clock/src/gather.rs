//! Finds the facts of this machine.

use std::time::Duration;

use crate::any::Native;
use crate::line::Known;
use crate::promise::WANDER_PPB;
use crate::{Counter, Facts, Pair, Rate, Watch, calibrate, ping};

/// How long the first fit takes, and from how many pairs.
const BASELINE: Duration = Duration::from_millis(20);
const PAIRS: u32 = 40;

/// Beyond this, in ticks, cores are taken one at a time: at any rate we know, a few nanoseconds.
const CLOSE: u64 = 64;

/// The facts, and the pairs of the first fit, for a better one later. Takes about 25 ms, 20 of which
/// are for the rate, unless another process of this kernel knows it.
pub fn facts(watch: &Watch, known: Option<&Known>) -> (Facts, std::vec::Vec<Pair>) {
    let Some(counter) = native(true) else {
        return (Facts::default(), std::vec::Vec::new());
    };
    let synchrony = ping::synchrony(&counter);
    let one_core = synchrony.is_none_or(|cores| cores.apart > CLOSE);
    let known = known.filter(|_| !one_core);
    let (rate, pairs) = known
        .and_then(|known| inherited(&counter, known))
        .unwrap_or_else(|| {
            let pairs = calibrate::measure(&counter, BASELINE, PAIRS);
            (calibrate::fit(&pairs, one_core), pairs)
        });
    let facts = Facts {
        readable: true,
        paired: counter.paired(),
        kernel_uses: watch.in_use(),
        kernel_distrusts: watch.distrusted(),
        vmclock: watch.sees_moves(),
        rate,
        synchrony,
        ..of_processor()
    };
    (facts, pairs)
}

/// The rate that another process knows, if its line holds here; with pairs to fit a better one from.
fn inherited(counter: &Native, known: &Known) -> Option<(Option<Rate>, std::vec::Vec<Pair>)> {
    let pairs = calibrate::measure(counter, Duration::ZERO, PAIRS);
    let best = pairs.iter().min_by_key(|pair| pair.width)?;
    known
        .holds(best, WANDER_PPB)
        .then_some((Some(known.rate), pairs))
}

/// The processor's counter, if this process may read it; `paired` as in `Tsc::new`.
#[cfg(target_arch = "x86_64")]
pub fn native(paired: bool) -> Option<Native> {
    Native::new(paired)
}

#[cfg(target_arch = "aarch64")]
#[expect(clippy::unnecessary_wraps, reason = "as on the others")]
pub fn native(_: bool) -> Option<Native> {
    Some(Native::new())
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn native(_: bool) -> Option<Native> {
    None
}

#[cfg(target_arch = "x86_64")]
fn of_processor() -> Facts {
    Facts {
        invariant: crate::tsc::invariant(),
        virtual_machine: crate::tsc::virtual_machine(),
        stated: crate::tsc::stated(),
        ..Facts::default()
    }
}

/// No instruction of Arm's tells whether a hypervisor is below; firmware tables do where there is
/// one of those we know.
#[cfg(target_arch = "aarch64")]
fn of_processor() -> Facts {
    let vendor = std::fs::read_to_string("/sys/class/dmi/id/sys_vendor").unwrap_or_default();
    Facts {
        invariant: true,
        virtual_machine: ["QEMU", "Amazon EC2"].contains(&vendor.trim()),
        stated: crate::cntvct::stated(),
        ..Facts::default()
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn of_processor() -> Facts {
    Facts::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_facts() {
        let (facts, pairs) = facts(&Watch::new(), None);
        assert_eq!(facts.readable, native(false).is_some());
        assert_eq!(pairs.is_empty(), !facts.readable);
        if let Some(rate) = facts.rate {
            assert!(rate.bound_ppb > 0 && rate.millihertz > 0, "{rate}");
        }
        assert_eq!(facts.synchrony.is_some(), facts.readable);
    }
}
