//! Time-stamps, corrected after the fact.

use core::ffi::c_int;

use rust_clock::Reasons;
use rust_clock::rgap::{Correction, Synced};

use crate::code;
use crate::types::{UllageDrift, UllageInstant};

/// What all time-stamps become.
#[derive(Debug)]
pub struct UllageCorrection(Correction);

/// What a correction says of itself.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UllageCorrectionFacts {
    pub(crate) drifted_ns: u64,
    pub(crate) residual_ns: u64,
    pub(crate) wander_ppb: u64,
    pub(crate) checked: u32,
    pub(crate) reserved: u32,
}

/// As the header says.
///
/// # Safety
/// `drift` is null or points to one; `out` is null or good for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_correction_new(
    drift: *const UllageDrift,
    out: *mut *mut UllageCorrection,
) -> c_int {
    // SAFETY: as promised by the caller.
    let Some(drift) = (unsafe { drift.as_ref() }).filter(|_| !out.is_null()) else {
        return code::NULL;
    };
    let synced = Synced::get();
    if synced.synchronisations() < 2 {
        return code::UNSYNCHRONISED;
    }
    match synced.correction(&(*drift).into()) {
        Ok(correction) => {
            let correction = Box::into_raw(Box::new(UllageCorrection(correction)));
            // SAFETY: as promised by the caller.
            unsafe { out.write(correction) };
            code::OK
        }
        Err(_) => code::CONTRADICTION,
    }
}

/// As the header says.
///
/// # Safety
/// `correction` is null or of [`ullage_correction_new`], and not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_correction_free(correction: *mut UllageCorrection) {
    if !correction.is_null() {
        // SAFETY: as promised by the caller.
        drop(unsafe { Box::from_raw(correction) });
    }
}

/// As the header says.
///
/// # Safety
/// `correction` is null or of [`ullage_correction_new`]; `out` is null or good for an instant.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_correction_at(
    correction: *const UllageCorrection,
    local_ns: u64,
    out: *mut UllageInstant,
) -> c_int {
    // SAFETY: as promised by the caller.
    let Some(it) = (unsafe { correction.as_ref() }).filter(|_| !out.is_null()) else {
        return code::NULL;
    };
    let instant = UllageInstant::of(local_ns, it.0.at(local_ns), Reasons::NONE);
    // SAFETY: as promised by the caller.
    unsafe { out.write(instant) };
    code::OK
}

/// As the header says.
///
/// # Safety
/// `correction` is null or of [`ullage_correction_new`]; `out` is null or good for facts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ullage_correction_facts_of(
    correction: *const UllageCorrection,
    out: *mut UllageCorrectionFacts,
) -> c_int {
    // SAFETY: as promised by the caller.
    let Some(it) = (unsafe { correction.as_ref() }).filter(|_| !out.is_null()) else {
        return code::NULL;
    };
    let residual_ns = it.0.residual_ns();
    let facts = UllageCorrectionFacts {
        drifted_ns: it.0.drifted_ns(),
        residual_ns: residual_ns.unwrap_or(0),
        wander_ppb: it.0.wander_ppb(),
        checked: u32::from(residual_ns.is_some()),
        reserved: 0,
    };
    // SAFETY: as promised by the caller.
    unsafe { out.write(facts) };
    code::OK
}
