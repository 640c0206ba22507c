//! Text for callers, as `snprintf` hands it out.

use core::ffi::{c_char, c_int};

use crate::code;

/// Copies as much as fits, always ended by 0, and returns the whole length without it.
///
/// # Safety
/// `buffer` is null or good for `size` bytes.
pub(crate) unsafe fn copy(text: &str, buffer: *mut c_char, size: usize) -> c_int {
    if buffer.is_null() && size > 0 {
        return code::NULL;
    }
    let fits = text.len().min(size.saturating_sub(1));
    if size > 0 {
        // SAFETY: `fits` < `size`, and the two cannot overlap: one is ours.
        unsafe {
            core::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), fits);
            *buffer.add(fits) = 0;
        }
    }
    c_int::try_from(text.len()).unwrap_or(c_int::MAX)
}
