//! Thin and boring wrappers around the Windows API that the rest uses.

use std::io;
use std::os::windows::io::{FromRawHandle, OwnedHandle};

use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::System::Diagnostics::Debug::{
    SEM_FAILCRITICALERRORS, SEM_NOGPFAULTERRORBOX, SEM_NOOPENFILEERRORBOX, SetErrorMode,
};
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleW, GetProcAddress};
use windows_sys::core::{PCSTR, PCWSTR, s, w};

/// Of a thread: the buffers are on the heap.
const STACK: usize = 128 << 10;

/// Starts a thread with a small stack.
pub fn start_thread(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new()
        .name(name.into())
        .stack_size(STACK)
        .spawn(body)
        .map(drop)
}

/// Where a program crashes or lacks a library, nobody is there to close a dialog: it ends at once. What is
/// started from here inherits that.
pub fn show_no_dialogs() {
    // SAFETY: touches no memory.
    unsafe {
        SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX);
    }
}

/// What the system's timers go by, as finely as it is told: the performance counter. The agent's own
/// time is in `time.rs`.
pub fn mono_ns() -> u64 {
    ullage_clock::Raw::ns()
}

/// Turns a BOOL that is false into the error.
pub fn check(done: i32) -> io::Result<()> {
    if done == 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// A handle that a call has made, which says "none" by null.
pub fn owned(handle: HANDLE) -> io::Result<OwnedHandle> {
    if handle.is_null() {
        Err(io::Error::last_os_error())
    } else {
        // SAFETY: the caller has it from a call that gives it to us alone.
        Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
    }
}

/// The error as Windows says it, without Rust's "(os error 2)" and the line's end.
pub fn text(error: &io::Error) -> String {
    let text = error.to_string();
    let plain = text
        .rsplit_once(" (os error ")
        .map_or(text.as_str(), |(plain, _)| plain);
    plain.trim_end_matches(['.', '\r', '\n', ' ']).to_owned()
}

/// A function of a library that is loaded, where this Windows has it.
pub fn function(library: PCWSTR, name: PCSTR) -> Option<unsafe extern "system" fn() -> isize> {
    // SAFETY: both names end with a NUL; the library stays loaded: it is the system's own.
    unsafe { GetProcAddress(GetModuleHandleW(library), name) }
}

/// Wine says so by this function; its version. Some of what Windows counts Wine does not.
pub fn wine() -> Option<String> {
    let version = function(w!("ntdll.dll"), s!("wine_get_version"))?;
    // SAFETY: returns a C string that lives as long as the process.
    unsafe {
        let version: extern "C" fn() -> *const std::ffi::c_char = std::mem::transmute(version);
        Some(
            std::ffi::CStr::from_ptr(version())
                .to_string_lossy()
                .into_owned(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_plain() {
        let error = io::Error::from_raw_os_error(2);
        let text = text(&error);
        assert!(
            !text.is_empty() && !text.contains("os error") && !text.ends_with('.'),
            "{text}"
        );
    }

    #[test]
    fn a_crash_shows_no_dialog() {
        use windows_sys::Win32::System::Diagnostics::Debug::GetErrorMode;
        show_no_dialogs();
        // SAFETY: touches no memory.
        assert_eq!(unsafe { GetErrorMode() }, 0x8003);
    }

    #[test]
    fn the_clock_goes_forward() {
        let before = mono_ns();
        assert!(mono_ns() >= before && before > 0);
    }
}
