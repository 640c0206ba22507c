//! The agent's time: a counter that nobody slews (`ullage-clock`), and how it is told to others.
//!
//! [`start`] is called before any child is forked, by the thread that forks, so that the child may read
//! the clock between fork and exec: from then on a reading allocates nothing and waits for no lock.
//! Until then nobody asks: the controller may know what it takes 20 ms to find out. The one thing that it waits for is a line that is being replaced, and only [`share`] does
//! that, on the thread that forks.

use ullage_clock::rgap::Standing;
use ullage_clock::{Clock, Known, Line, Rate, RateSource, Reasons, Source, Stamp};
use ullage_common::shared_clock::{self, SharedClock, boot_id};

use crate::protocol::{Offer, OfferedRate};
use crate::system::sys;

/// Brackets for [`Both`]: one without an interruption is among them.
const TRIES: u32 = 5;

/// Looks at the machine, once; takes about 25 ms, or 5 where the controller is on the same kernel and
/// tells how fast the counter goes.
pub fn start(offer: Option<&Offer>) {
    if let Some(known) = offer.and_then(known) {
        let _begun = Clock::begin(&known);
    } else {
        let _begun = Clock::get();
    }
}

/// What the controller has found out, where that is of this kernel.
fn known(offer: &Offer) -> Option<Known> {
    let OfferedRate {
        millihertz,
        sigma_ppb,
        bound_ppb,
    } = offer.rate?;
    let same = !offer.boot_id.is_empty() && boot_id().as_ref() == Some(&offer.boot_id);
    let line = Line::parse(&offer.line).ok().filter(|_| same)?;
    let rate = Rate {
        millihertz,
        sigma_ppb,
        bound_ppb,
        source: RateSource::Fitted,
    };
    Some(Known { line, rate })
}

/// Now, where the clock has begun.
pub fn begun_ns() -> Option<u64> {
    Clock::begun().map(Clock::ordered)
}

/// Now. To be compared with other threads' and the children's values, see [`apart_ns`].
pub fn now_ns() -> u64 {
    Clock::get().ordered()
}

/// Now, with what is to be said of it.
pub fn stamp() -> Stamp {
    Clock::get().stamp()
}

/// The reasons' names, as answers have them.
pub fn names(reasons: Reasons) -> Vec<&'static str> {
    reasons.iter().map(|(name, _)| name).collect()
}

/// How far values of different threads may be apart.
fn apart_ns() -> u64 {
    Clock::get().promise().apart_ns()
}

/// What is said with an answer to a request for the time, and when that is. The scheduler wakes us up
/// for each, so we are never awake.
pub fn standing() -> (u64, Standing) {
    let Stamp { ns, reasons } = stamp();
    let apart_ns = apart_ns();
    let standing = Standing {
        hard_ns: apart_ns,
        bound_ns: apart_ns,
        awake: false,
        reasons,
        ..Standing::ROOT
    };
    (ns, standing)
}

/// Where time comes from, for `hello`.
pub fn source() -> &'static str {
    match Clock::get().promise().source {
        Source::Counter => "counter",
        Source::MonotonicRaw => "monotonic-raw",
    }
}

/// As promised, for `hello`; none where it is not.
pub fn ordered_ns() -> Option<u64> {
    Clock::get().promise().ordered_ns
}

/// Goes over to the controller's line if it is on the same kernel and reads the same counter. True if
/// its time is ours now. Only for the thread that forks.
///
/// A clock that is made to run falsely takes the line and runs falsely from there: not the same time.
pub fn share(boot_id: &str, line: &Line) -> bool {
    !boot_id.is_empty()
        && shared_clock::adopt(boot_id, line)
        && !stamp().reasons.any(Reasons::DISTORTED)
}

/// For programs here to show our time, until it is [`share`]d anew. None where `/proc` does not tell of
/// which boot.
pub fn line() -> Option<SharedClock> {
    boot_id().map(SharedClock::own)
}

/// The agent's clock and the kernel's at the same moment.
#[derive(Clone, Copy, Debug)]
pub struct Both {
    pub ns: u64,
    pub mono_ns: u64,
    /// `mono_ns` was read within so long around `ns`.
    pub width_ns: u64,
}

/// The narrowest of a few brackets.
pub fn both() -> Both {
    let bracket = |_| {
        let before = now_ns();
        let mono_ns = sys::mono_ns();
        let width_ns = now_ns() - before;
        Both {
            ns: before + width_ns / 2,
            mono_ns,
            width_ns,
        }
    };
    let tries = (1..TRIES).map(bracket);
    tries.fold(bracket(0), |best, next| {
        if next.width_ns < best.width_ns {
            next
        } else {
            best
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_and_is_about_the_kernels() {
        start(None);
        let first = both();
        let second = both();
        assert!(second.ns > first.ns && second.mono_ns > first.mono_ns);
        // No kernel slews by more than a part in 500.
        let passed = (second.ns - first.ns).abs_diff(second.mono_ns - first.mono_ns);
        assert!(passed <= first.width_ns + second.width_ns + (second.ns - first.ns) / 500 + 10);
    }

    #[test]
    #[cfg(unix)]
    fn a_line_is_shared_on_one_kernel_only() {
        let line = Clock::get().line();
        let boot_id = boot_id().expect("a boot id");
        assert!(share(&boot_id, &line));
        assert!(!share("", &line));
        assert!(!share("4f3ff1c6-0000-4000-8000-000000000000", &line));
        let mut bytes = line.encode();
        bytes[19] ^= 1;
        let strange = Line::parse(&bytes).expect("a line");
        assert!(!share(&boot_id, &strange));
    }

    #[test]
    fn nobody_is_awake_and_cores_are_apart() {
        let (ns, standing) = standing();
        assert!(!standing.awake && standing.hard_ns == apart_ns());
        assert!(now_ns() > ns);
    }
}
