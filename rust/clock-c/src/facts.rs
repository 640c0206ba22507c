//! What was found out about this machine, and what follows, as JSON.

use core::ffi::{c_char, c_int};

use rust_clock::{Clock, json as shown};
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
    json!({
        "facts": shown::facts(clock.facts()),
        "promise": shown::promise(clock.promise()),
        "rate": shown::rate(&clock.rate()),
        "reasons": shown::names(clock.stamp().reasons),
    })
}
