//! What functions return.

use core::ffi::{CStr, c_char, c_int};

use rust_clock::rgap::{Failure, Refusal};

pub const OK: c_int = 0;
pub const NULL: c_int = -1;
/// A value that means nothing here.
pub const ARGUMENT: c_int = -2;
pub const NO_ANSWER: c_int = -3;
/// What was measured cannot be.
pub const CONTRADICTION: c_int = -4;
/// Another process's clock cannot be read here.
pub const APART: c_int = -5;
/// The process has no global clock, or no second synchronisation.
pub const UNSYNCHRONISED: c_int = -6;
/// The synchronisation is not over, or no request waits.
pub const NOT_YET: c_int = -7;

const MEANINGS: [&CStr; 8] = [
    c"done",
    c"a pointer is null",
    c"an argument has a value that means nothing here",
    c"nobody answered in time",
    c"the two clocks contradict their stated rate: stepped, suspended, or a lie",
    c"the other process's clock is not one that this process could read",
    c"this clock is not synchronised, or not often enough for this",
    c"not yet: the synchronisation is not over, or no request waits for an answer",
];

#[unsafe(no_mangle)]
pub extern "C" fn ullage_clock_strerror(code: c_int) -> *const c_char {
    let place = usize::try_from(code.unsigned_abs()).ok();
    let meaning = place.filter(|_| code <= 0).and_then(|at| MEANINGS.get(at));
    meaning.unwrap_or(&c"unknown code").as_ptr()
}

/// The code of a failed synchronisation.
pub(crate) fn of_failure(failure: Failure) -> c_int {
    match failure {
        Failure::NoAnswer => NO_ANSWER,
        Failure::Contradiction => CONTRADICTION,
    }
}

/// The code of a clock that was not taken over.
pub(crate) fn of_refusal(refusal: Refusal) -> c_int {
    match refusal {
        Refusal::Contradiction => CONTRADICTION,
        Refusal::Apart => APART,
    }
}
