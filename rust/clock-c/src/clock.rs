//! The process's own clock.

use core::ffi::{CStr, c_char, c_int};

use rust_clock::{Clock, Reasons};

use crate::types::UllageStamp;
use crate::{code, text};

#[unsafe(no_mangle)]
pub extern "C" fn ullage_clock_now() -> u64 {
    Clock::get().now()
}

#[unsafe(no_mangle)]
pub extern "C" fn ullage_clock_ordered() -> u64 {
    Clock::get().ordered()
}

/// As the header says.
///
/// # Safety
/// `out` is null or good for a stamp.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_clock_stamp(out: *mut UllageStamp) -> c_int {
    if out.is_null() {
        return code::NULL;
    }
    // SAFETY: as promised by the caller.
    unsafe { out.write(Clock::get().stamp().into()) };
    code::OK
}

#[unsafe(no_mangle)]
pub extern "C" fn ullage_clock_check() -> u32 {
    Clock::get().check().bits()
}

#[unsafe(no_mangle)]
pub extern "C" fn ullage_clock_refine() -> u32 {
    Clock::get().refine().bound_ppb
}

/// As the header says.
///
/// # Safety
/// `buffer` is null or good for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_reasons_names(
    reasons: u32,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    let names = Reasons::from_bits(reasons).to_string();
    // SAFETY: as promised by the caller.
    unsafe { text::copy(&names, buffer, size) }
}

/// As the header says.
///
/// # Safety
/// `name` is null or a string, `buffer` null or good for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_reason_meaning(
    name: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    if name.is_null() {
        return code::NULL;
    }
    // SAFETY: as promised by the caller.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let mut all = Reasons::from_bits(u32::MAX).iter();
    match all.find(|(reason, _)| reason.as_bytes() == name) {
        // SAFETY: as promised by the caller.
        Some((_, meaning)) => unsafe { text::copy(meaning, buffer, size) },
        None => code::ARGUMENT,
    }
}
