//! The end of all that is below the agent, and of the agent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::descendants;

/// Ending kills for so long; what is stuck then (frozen, or in the kernel) is the supervisor's.
const PATIENCE: Duration = Duration::from_secs(5);

static POWER_OFF: AtomicBool = AtomicBool::new(false);

/// We are a guest's PID 1: our end is the guest's.
pub fn power_off_at_end() {
    POWER_OFF.store(true, Ordering::Relaxed);
}

/// Kills every descendant, then exits or powers off.
pub fn end(code: i32) -> ! {
    descendants::kill_all(Some(PATIENCE), || {});
    if POWER_OFF.load(Ordering::Relaxed) {
        power_off();
    }
    // SAFETY: no destructor matters any more, and other threads may hold any lock.
    unsafe { libc::_exit(code) }
}

/// Switches the guest off. Never returns: PID 1 must not end.
pub fn power_off() -> ! {
    // SAFETY: no memory is involved.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
        // No power switch on this machine (a microvm): a reset ends it under `-no-reboot`.
        libc::reboot(libc::RB_AUTOBOOT);
    }
    loop {
        std::thread::park();
    }
}
