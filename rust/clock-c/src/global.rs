//! The process's global clock.

use core::ffi::{c_int, c_void};
use core::slice;
use core::sync::atomic::{AtomicU64, Ordering};

use rust_clock::rgap::{Drift, SHARE_LENGTH, Synced};

use crate::code;
use crate::types::{UllageDrift, UllageInstant, UllageStanding};

/// What [`ullage_global_seconds`] counts from, in nanoseconds of the global clock.
static ORIGIN_NS: AtomicU64 = AtomicU64::new(0);

/// As the header says.
///
/// # Safety
/// `drift` is null or good for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_drift_usual(drift: *mut UllageDrift) -> c_int {
    if drift.is_null() {
        return code::NULL;
    }
    // SAFETY: as promised by the caller.
    unsafe { drift.write(Drift::USUAL.into()) };
    code::OK
}

#[unsafe(no_mangle)]
pub extern "C" fn ullage_global_lead() -> c_int {
    Synced::get().lead();
    code::OK
}

#[unsafe(no_mangle)]
pub extern "C" fn ullage_global_disruptions() -> u32 {
    Synced::get().disruptions()
}

/// As the header says.
///
/// # Safety
/// `out` is null or good for an instant.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_global_now(out: *mut UllageInstant) -> c_int {
    if out.is_null() {
        return code::NULL;
    }
    // SAFETY: as promised by the caller.
    unsafe { out.write(Synced::get().now().into()) };
    code::OK
}

/// As the header says.
///
/// # Safety
/// `out` is null or good for an instant.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_global_at(local_ns: u64, out: *mut UllageInstant) -> c_int {
    if out.is_null() {
        return code::NULL;
    }
    // SAFETY: as promised by the caller.
    unsafe { out.write(Synced::get().at(local_ns).into()) };
    code::OK
}

#[unsafe(no_mangle)]
pub extern "C" fn ullage_global_ns() -> u64 {
    Synced::get().now_ns()
}

#[unsafe(no_mangle)]
pub extern "C" fn ullage_global_seconds() -> f64 {
    let since = Synced::get()
        .now_ns()
        .wrapping_sub(ORIGIN_NS.load(Ordering::Relaxed));
    #[expect(
        clippy::cast_precision_loss,
        reason = "53 bits hold 104 days, to the nanosecond"
    )]
    let since = since.cast_signed() as f64;
    since * 1e-9
}

#[unsafe(no_mangle)]
pub extern "C" fn ullage_global_origin(ns: u64) {
    ORIGIN_NS.store(ns, Ordering::Relaxed);
}

/// As the header says.
///
/// # Safety
/// `ns` is null or good for a number, `standing` is null or good for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_global_serve(ns: *mut u64, standing: *mut UllageStanding) -> c_int {
    if ns.is_null() || standing.is_null() {
        return code::NULL;
    }
    let (now_ns, own) = Synced::get().serve();
    // SAFETY: as promised by the caller.
    unsafe {
        standing.write(own.into());
        ns.write(now_ns);
    }
    code::OK
}

#[unsafe(no_mangle)]
pub extern "C" fn ullage_global_known_ns() -> u64 {
    Synced::get().known_ns()
}

/// As the header says.
///
/// # Safety
/// Both are null or good for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_global_rate(ppt: *mut i64, unsure_ppt: *mut u64) -> c_int {
    if ppt.is_null() || unsure_ppt.is_null() {
        return code::NULL;
    }
    let Some((rate, unsure)) = Synced::get().rate() else {
        return code::UNSYNCHRONISED;
    };
    // SAFETY: as promised by the caller.
    unsafe {
        ppt.write(rate);
        unsure_ppt.write(unsure);
    }
    code::OK
}

#[unsafe(no_mangle)]
pub extern "C" fn ullage_global_stratum() -> c_int {
    Synced::get()
        .stratum()
        .map_or(code::UNSYNCHRONISED, c_int::from)
}

/// As the header says.
///
/// # Safety
/// `out` is null or good for so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_global_encode(out: *mut [u8; SHARE_LENGTH]) -> c_int {
    if out.is_null() {
        return code::NULL;
    }
    let synced = Synced::get();
    if synced.stratum().is_none() {
        return code::UNSYNCHRONISED;
    }
    // SAFETY: as promised by the caller.
    unsafe { out.write(synced.encode()) };
    code::OK
}

/// As the header says.
///
/// # Safety
/// `bytes` is null or good for `length`; `moved_ns` is null or good for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_global_adopt(
    bytes: *const c_void,
    length: usize,
    moved_ns: *mut i64,
) -> c_int {
    if bytes.is_null() {
        return code::NULL;
    }
    // SAFETY: as promised by the caller.
    let bytes = unsafe { slice::from_raw_parts(bytes.cast(), length) };
    match Synced::get().adopt(bytes) {
        Ok(moved) => {
            // SAFETY: as promised by the caller.
            if let Some(place) = unsafe { moved_ns.as_mut() } {
                *place = moved;
            }
            code::OK
        }
        Err(refusal) => code::of_refusal(refusal),
    }
}
