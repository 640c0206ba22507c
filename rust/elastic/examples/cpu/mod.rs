use nix::time::{ClockId, clock_gettime};

/// CPU time of this thread so far.
#[allow(clippy::cast_precision_loss)]
pub fn cpu_s() -> f64 {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux tells it");
    now.tv_sec() as f64 + now.tv_nsec() as f64 / 1e9
}
