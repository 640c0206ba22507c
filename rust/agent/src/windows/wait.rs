//! Waiting for an instant, as well as Windows can: a timer of high resolution, then a short spin.

use std::io;
use std::os::windows::io::{AsRawHandle, OwnedHandle, RawHandle};
use std::ptr;

use windows_sys::Win32::Foundation::WAIT_OBJECT_0;
use windows_sys::Win32::System::Threading::{
    CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, CreateWaitableTimerExW, INFINITE, SetWaitableTimer,
    TIMER_ALL_ACCESS, WaitForMultipleObjects,
};

use super::sys;
use crate::time;

/// A first sleep ends so long before the instant, and shows how late this machine wakes up.
const REHEARSAL_NS: u64 = 20_000_000;
/// We spin for a few times what the rehearsal was late, within these bounds: a timer without high
/// resolution is a tick of the system's late, up to 15.6 ms.
const LEAST_SPIN_NS: u64 = 100_000;
const MOST_SPIN_NS: u64 = 16_000_000;

/// Waits until the instant of our clock; the first reading that is not before it. None when the
/// process has ended before.
pub fn until(at_ns: u64, process: RawHandle) -> io::Result<Option<u64>> {
    let timer = timer()?;
    let Some(late_ns) = sleep_until(at_ns.saturating_sub(REHEARSAL_NS), &timer, process)? else {
        return Ok(None);
    };
    let spin_ns = spin_ns(late_ns);
    if sleep_until(at_ns.saturating_sub(spin_ns), &timer, process)?.is_none() {
        return Ok(None);
    }
    loop {
        let now_ns = time::now_ns();
        if now_ns >= at_ns {
            return Ok(Some(now_ns));
        }
        std::hint::spin_loop();
    }
}

/// How long to spin where a sleep of our own was `late_ns` late.
fn spin_ns(late_ns: u64) -> u64 {
    late_ns.saturating_mul(3).clamp(LEAST_SPIN_NS, MOST_SPIN_NS)
}

/// High resolution is of Windows 10, 1803.
fn timer() -> io::Result<OwnedHandle> {
    let make = |flags| {
        // SAFETY: no name and no attributes.
        sys::owned(unsafe {
            CreateWaitableTimerExW(ptr::null(), ptr::null(), flags, TIMER_ALL_ACCESS)
        })
    };
    make(CREATE_WAITABLE_TIMER_HIGH_RESOLUTION).or_else(|_| make(0))
}

/// How late the sleep was; None when the process ended in it.
fn sleep_until(at_ns: u64, timer: &OwnedHandle, process: RawHandle) -> io::Result<Option<u64>> {
    loop {
        let now_ns = time::now_ns();
        if now_ns >= at_ns {
            return Ok(Some(now_ns - at_ns));
        }
        // In units of 100 ns; a negative one is relative. Rounded up: not in vain.
        let left = i64::try_from((at_ns - now_ns).div_ceil(100)).unwrap_or(i64::MAX);
        let due = -left;
        let handles = [timer.as_raw_handle(), process];
        // SAFETY: two open handles, and a time that is ours.
        let event = unsafe {
            sys::check(SetWaitableTimer(
                timer.as_raw_handle(),
                &raw const due,
                0,
                None,
                ptr::null(),
                0,
            ))?;
            WaitForMultipleObjects(2, handles.as_ptr(), 0, INFINITE)
        };
        match event {
            WAIT_OBJECT_0 => {}
            event if event == WAIT_OBJECT_0 + 1 => return Ok(None),
            _ => return Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spin_follows_the_rehearsal() {
        assert_eq!(spin_ns(0), LEAST_SPIN_NS);
        assert_eq!(spin_ns(1_000_000), 3_000_000);
        assert_eq!(spin_ns(u64::MAX), MOST_SPIN_NS);
    }
}
