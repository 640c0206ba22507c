//! The agent's end, by whatever cause: no child, no grandchild and no half-written file is left
//! behind.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::system::ending;
use crate::temporary;

static ENDING: AtomicBool = AtomicBool::new(false);

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
    ending::end(code)
}

/// True from the moment at which nothing new may be started.
pub fn ending() -> bool {
    ENDING.load(Ordering::SeqCst)
}
