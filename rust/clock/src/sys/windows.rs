//! What we ask of Windows: the performance counter, interrupt time, affinity.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::OnceLock;

use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};
use windows_sys::Win32::System::SystemInformation::GetSystemInfo;
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetCurrentProcessorNumber, GetCurrentThread, GetProcessAffinityMask,
    SetThreadAffinityMask,
};
use windows_sys::Win32::System::WindowsProgramming::QueryUnbiasedInterruptTime;

/// What is read of the bridge clock is rounded to so much: the performance counter has 10 MHz.
pub const GRAIN_NS: u64 = 100;
/// What `TSC_AUX` holds is Windows' own affair.
pub const COUNTER_TELLS_CPU: bool = false;

const SECOND_NS: u64 = 1_000_000_000;
/// A mask has so many bits; cores of other processor groups are not measured, and said to be so.
const CPUS: u32 = usize::BITS;

/// The performance counter, in nanoseconds. It starts near 0 and never overflows in practice.
#[inline]
pub fn raw_ns() -> u64 {
    static HERTZ: OnceLock<u64> = OnceLock::new();
    let hertz = *HERTZ.get_or_init(|| {
        let mut hertz = 0;
        // SAFETY: writes one number; cannot fail since Windows XP.
        unsafe { QueryPerformanceFrequency(&raw mut hertz) };
        hertz.cast_unsigned().max(1)
    });
    let mut ticks = 0;
    // SAFETY: as above.
    unsafe { QueryPerformanceCounter(&raw mut ticks) };
    let ticks = ticks.cast_unsigned();
    let (seconds, rest) = (ticks / hertz, ticks % hertz);
    seconds * SECOND_NS + rest * SECOND_NS / hertz
}

/// Time without suspension, and with it; their difference is how long the machine has slept.
pub fn awake_ns() -> u64 {
    let mut time = 0;
    // SAFETY: writes one number.
    unsafe { QueryUnbiasedInterruptTime(&raw mut time) };
    time * 100
}

/// See [`awake_ns`]. What lies between is in the page that the kernel shows every process, since
/// Windows 7 (`InterruptTimeBias` of `KUSER_SHARED_DATA`, ntddk.h).
#[must_use]
pub fn boot_ns() -> u64 {
    const BIAS: *const u64 = std::ptr::without_provenance(0x7FFE_03B0);
    // SAFETY: this page is at this address in every process.
    let bias = unsafe { BIAS.read_volatile() };
    awake_ns() + bias * 100
}

/// The core that the calling thread is on.
pub fn current_cpu() -> u32 {
    // SAFETY: touches no memory.
    unsafe { GetCurrentProcessorNumber() }
}

/// No switch of Windows' forbids reading the counter.
pub fn counter_forbidden() -> bool {
    false
}

/// There is no device here whose page could be mapped.
pub fn map(_: &File, _: usize) -> io::Result<NonNull<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Ends what [`map`] has made, which is nothing.
///
/// # Safety
/// Nobody uses it any more.
pub unsafe fn unmap(_: NonNull<u8>, _: usize) {}

/// How many cores the machine has on, this process's or not.
pub fn online_cpus() -> u32 {
    // SAFETY: zeros are a valid structure, and the call fills it in.
    let info = unsafe {
        let mut info = std::mem::zeroed();
        GetSystemInfo(&raw mut info);
        info
    };
    info.dwNumberOfProcessors
}

/// The cores that the calling thread may use.
pub fn allowed_cpus() -> io::Result<std::vec::Vec<u32>> {
    let mask = process_mask()?;
    let allowed = (0..CPUS).filter(|cpu| mask >> cpu & 1 == 1);
    Ok(allowed.collect())
}

fn process_mask() -> io::Result<usize> {
    let (mut process, mut system) = (0, 0);
    // SAFETY: writes two masks.
    let done =
        unsafe { GetProcessAffinityMask(GetCurrentProcess(), &raw mut process, &raw mut system) };
    if done == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(process)
}

/// Keeps the calling thread on one core.
pub fn pin(cpu: u32) -> io::Result<()> {
    if cpu >= CPUS || process_mask()? >> cpu & 1 == 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: touches no memory.
    let before = unsafe { SetThreadAffinityMask(GetCurrentThread(), 1 << cpu) };
    if before == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forward() {
        let (before, awake) = (raw_ns(), awake_ns());
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(raw_ns() > before && awake_ns() > awake && boot_ns() >= awake_ns());
    }

    #[test]
    fn a_thread_stays_where_it_is_put() {
        for cpu in allowed_cpus().expect("allowed") {
            std::thread::spawn(move || {
                pin(cpu).expect("pin");
                std::thread::sleep(std::time::Duration::from_millis(20));
                assert_eq!(current_cpu(), cpu);
            })
            .join()
            .expect("join");
        }
        assert!(pin(CPUS).is_err());
    }
}
