//! The agent's end, by whatever cause: no child, no grandchild and no half-written file is left
//! behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::{descendants, temporary};

/// Ending kills for so long; what is stuck then (frozen, or in the kernel) is the supervisor's.
const PATIENCE: Duration = Duration::from_secs(5);

static ENDING: AtomicBool = AtomicBool::new(false);
static POWER_OFF: AtomicBool = AtomicBool::new(false);

/// We are a guest's PID 1: our end is the guest's.
pub fn power_off_at_end() {
    POWER_OFF.store(true, Ordering::Relaxed);
}

/// Ends the agent: kills every descendant, removes temporary files, then exits or powers off.
pub fn end(code: i32, reason: Option<&str>) -> ! {
    if ENDING.swap(true, Ordering::SeqCst) {
        // Another thread is at it already, and will take us along.
        loop {
            std::thread::park();
        }
    }
    if let Some(reason) = reason {
        ullage_common::say(&format!("ullage-agent: {reason}"));
    }
    temporary::remove_all();
    descendants::kill_all(Some(PATIENCE), || {});
    if POWER_OFF.load(Ordering::Relaxed) {
        power_off();
    }
    // SAFETY: no destructor matters any more, and other threads may hold any lock.
    unsafe { libc::_exit(code) }
}

/// True from the moment at which nothing new may be started.
pub fn ending() -> bool {
    ENDING.load(Ordering::SeqCst)
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
