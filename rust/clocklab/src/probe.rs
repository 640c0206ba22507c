//! The clocks that are compared, each behind a read that is inlined where it is measured.

use serde::{Deserialize, Serialize};
use ullage_clock::{Clock, Raw};

/// A way to read time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// The processor's counter, as it comes: `rdtsc`, or `mrs cntvct_el0`.
    Counter,
    /// The counter after everything earlier: `lfence; rdtsc`, or `isb; mrs cntvct_el0`.
    CounterFenced,
    /// `rdtscp`: waits for what is earlier, and tells the core.
    Rdtscp,
    /// [`Clock::now`], with the guards against migration and equal values.
    Rvec,
    /// [`Clock::ordered`].
    RvecOrdered,
    /// [`Clock::stamp`], with the reasons.
    RvecStamp,
    /// `CLOCK_MONOTONIC`, through the vDSO where the clock source allows.
    Monotonic,
    /// `CLOCK_MONOTONIC_RAW`, likewise.
    MonotonicRaw,
    /// `CLOCK_MONOTONIC` by a real system call.
    MonotonicSyscall,
}

/// What is done with a clock. A trait, since a closure cannot be generic over the read, and a read
/// through a pointer would not be what a program pays.
pub trait Visit {
    type Outcome;
    fn visit(self, read: impl Fn() -> u64 + Copy + Send + Sync) -> Self::Outcome;
}

impl Probe {
    pub const ALL: [Self; 9] = [
        Self::Counter,
        Self::CounterFenced,
        Self::Rdtscp,
        Self::Rvec,
        Self::RvecOrdered,
        Self::RvecStamp,
        Self::Monotonic,
        Self::MonotonicRaw,
        Self::MonotonicSyscall,
    ];

    /// Runs `visitor` with this clock's read, in ticks of [`Probe::ns_per_tick`].
    pub(crate) fn with<V: Visit>(self, visitor: V) -> V::Outcome {
        let clock = Clock::get();
        match self {
            Self::Counter => visitor.visit(counter),
            Self::CounterFenced => visitor.visit(counter_fenced),
            Self::Rdtscp => visitor.visit(rdtscp),
            Self::Rvec => visitor.visit(|| clock.now()),
            Self::RvecOrdered => visitor.visit(|| clock.ordered()),
            Self::RvecStamp => visitor.visit(|| clock.stamp().ns),
            Self::Monotonic => visitor.visit(|| kernel(libc::CLOCK_MONOTONIC)),
            Self::MonotonicRaw => visitor.visit(Raw::ns),
            Self::MonotonicSyscall => visitor.visit(by_system_call),
        }
    }

    /// How long a tick is; or why this clock cannot be read here, or told in nanoseconds.
    ///
    /// # Errors
    /// The reason.
    pub fn ns_per_tick(self) -> Result<f64, &'static str> {
        let facts = Clock::get().facts();
        match self {
            Self::Rdtscp if !(cfg!(target_arch = "x86_64") && facts.paired) => {
                Err("this processor has no rdtscp")
            }
            Self::Counter | Self::CounterFenced | Self::Rdtscp => {
                let rate = facts.rate.or(facts.stated).filter(|_| facts.readable);
                #[expect(clippy::cast_precision_loss, reason = "13 digits at most")]
                rate.map(|rate| 1e12 / rate.millihertz as f64)
                    .ok_or("this process has no counter that it may read, or of no known rate")
            }
            _ => Ok(1.0),
        }
    }

    /// What the value really is, as an instruction or a call.
    #[must_use]
    pub fn how(self) -> &'static str {
        match self {
            Self::Counter if cfg!(target_arch = "x86_64") => "rdtsc",
            Self::CounterFenced if cfg!(target_arch = "x86_64") => "lfence; rdtsc",
            Self::Counter => "mrs cntvct_el0",
            Self::CounterFenced => "isb; mrs cntvct_el0",
            Self::Rdtscp => "rdtscp",
            Self::Rvec => "Clock::now",
            Self::RvecOrdered => "Clock::ordered",
            Self::RvecStamp => "Clock::stamp",
            Self::Monotonic => "clock_gettime(CLOCK_MONOTONIC)",
            Self::MonotonicRaw => "clock_gettime(CLOCK_MONOTONIC_RAW)",
            Self::MonotonicSyscall => "syscall(SYS_clock_gettime, CLOCK_MONOTONIC)",
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: only where the facts say that it may be read.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter_fenced() -> u64 {
    // SAFETY: as above; every x86-64 has lfence.
    unsafe {
        core::arch::x86_64::_mm_lfence();
        core::arch::x86_64::_rdtsc()
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn rdtscp() -> u64 {
    let mut aux = 0;
    // SAFETY: as above, and `ns_per_tick` refuses it where the processor has none.
    unsafe { core::arch::x86_64::__rdtscp(&raw mut aux) }
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets every process read it. Not `nomem`: stays where it stands among others.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nostack)) };
    ticks
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn counter_fenced() -> u64 {
    let ticks: u64;
    // SAFETY: as above, after a barrier.
    unsafe { core::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack)) };
    ticks
}

#[cfg(target_arch = "aarch64")]
fn rdtscp() -> u64 {
    unreachable!("`ns_per_tick` has said that there is none")
}

#[inline]
fn kernel(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid timespec.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    nanoseconds(now)
}

#[inline]
fn by_system_call() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid timespec.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut now) };
    nanoseconds(now)
}

#[inline]
pub fn nanoseconds(time: libc::timespec) -> u64 {
    time.tv_sec
        .cast_unsigned()
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Twice;

    impl Visit for Twice {
        type Outcome = [u64; 2];
        fn visit(self, read: impl Fn() -> u64 + Copy + Send + Sync) -> [u64; 2] {
            let first = read();
            std::thread::sleep(std::time::Duration::from_millis(1));
            [first, read()]
        }
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "short times")]
    fn every_clock_goes_on_while_we_sleep() {
        for probe in Probe::ALL {
            let Ok(tick) = probe.ns_per_tick() else {
                eprintln!("skipped: {probe:?}");
                continue;
            };
            let [first, second] = probe.with(Twice);
            let slept = (second - first) as f64 * tick;
            // A rate that were off by ten would be seen; a noisy machine is not.
            assert!((0.9e6..1e9).contains(&slept), "{probe:?}: {slept}");
        }
    }

    #[test]
    fn names_are_stable() {
        let names = serde_json::to_string(&Probe::ALL).expect("json");
        assert!(names.contains(r#""counter-fenced","rdtscp","rvec","rvec-ordered""#));
    }
}
