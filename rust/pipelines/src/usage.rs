//! CPU time of this process and thread, as the kernel counts it.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// What the process used between two looks, and the share of the CPUs that it could have had.
#[derive(Clone, Debug, Serialize)]
pub struct Cpu {
    pub user_s: f64,
    pub system_s: f64,
    /// CPU seconds ÷ (elapsed seconds × CPUs that the process may run on).
    pub share: f64,
    pub cpus: usize,
}

/// User and system time of the process so far.
#[derive(Clone, Copy)]
pub struct Mark {
    user: Duration,
    system: Duration,
}

impl Mark {
    /// Now.
    ///
    /// # Panics
    /// Never on Linux: the call has no error for the process itself.
    #[must_use]
    pub fn now() -> Self {
        let used = getrusage(UsageWho::RUSAGE_SELF).expect("getrusage");
        let time = |value: nix::sys::time::TimeVal| {
            Duration::from_micros(u64::try_from(value.num_microseconds()).unwrap_or(0))
        };
        Self {
            user: time(used.user_time()),
            system: time(used.system_time()),
        }
    }

    /// What was used since then, in so many seconds.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // A count of CPUs.
    pub fn until_now(self, seconds: f64) -> Cpu {
        let now = Self::now();
        let user_s = now.user.saturating_sub(self.user).as_secs_f64();
        let system_s = now.system.saturating_sub(self.system).as_secs_f64();
        let cpus = cpus();
        Cpu {
            user_s,
            system_s,
            share: (user_s + system_s) / (seconds * cpus as f64),
            cpus,
        }
    }
}

/// CPUs that this process may run on: its affinity and, in whole CPUs, its quota.
#[must_use]
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// CPU time of the calling thread.
#[must_use]
pub fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
