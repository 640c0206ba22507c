//! What we ask of libc: clocks, affinity.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use crate::NO_CPU;

/// What is read of the bridge clock is rounded to so much.
pub const GRAIN_NS: u64 = 1;
/// `rdtscp` tells the core: Linux puts node << 12 | cpu into `TSC_AUX`
/// (`arch/x86/include/asm/segment.h`).
pub const COUNTER_TELLS_CPU: bool = true;

/// The kernel's clock that nobody disciplines. Does not count while the machine is suspended.
#[inline]
pub fn raw_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC_RAW)
}

/// Time without suspension, and with it; their difference is how long the machine has slept.
pub fn awake_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since the boot, sleep included; see [`awake_ns`].
#[must_use]
pub fn boot_ns() -> u64 {
    clock_ns(libc::CLOCK_BOOTTIME)
}

/// The core that the calling thread is on.
pub fn current_cpu() -> u32 {
    // SAFETY: touches no memory of ours.
    u32::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(NO_CPU)
}

/// Reading the counter would kill this process (`PR_SET_TSC`).
#[cfg(target_arch = "x86_64")]
pub fn counter_forbidden() -> bool {
    let mut mode: libc::c_int = 0;
    // SAFETY: writes one int. Fails only where there is no such switch.
    let failed = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) } != 0;
    !failed && mode == libc::PR_TSC_SIGSEGV
}

/// Maps the beginning of a file, to be read only.
pub fn map(file: &File, length: usize) -> io::Result<NonNull<u8>> {
    let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
    // SAFETY: a new mapping wherever the kernel likes. A device's page cannot be cut off, and
    // of a file, only a test's is opened.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            protection,
            flags,
            file.as_raw_fd(),
            0,
        )
    };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(page.cast()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Ends what [`map`] has made.
///
/// # Safety
/// Nobody uses it any more.
pub unsafe fn unmap(page: NonNull<u8>, length: usize) {
    // SAFETY: as promised.
    unsafe { libc::munmap(page.as_ptr().cast(), length) };
}

/// A clock of the kernel's, in nanoseconds; through the vDSO where the clock source allows.
#[inline]
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid timespec, and these clocks exist since Linux 2.6.39.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec
        .cast_unsigned()
        .wrapping_mul(1_000_000_000)
        .wrapping_add(now.tv_nsec.cast_unsigned())
}

/// Waits until one of these is as asked, at most so long. A signal may make it earlier.
pub fn poll(polled: &mut [libc::pollfd], within_ns: u64) -> io::Result<()> {
    // SAFETY: a timespec of zeros is one; some have padding.
    let mut within: libc::timespec = unsafe { std::mem::zeroed() };
    within.tv_sec = (within_ns / 1_000_000_000)
        .try_into()
        .unwrap_or(libc::time_t::MAX);
    within.tv_nsec = (within_ns % 1_000_000_000).try_into().unwrap_or(0);
    let count = libc::nfds_t::try_from(polled.len()).unwrap_or(libc::nfds_t::MAX);
    // SAFETY: as many pollfds as we say, a valid timespec, and no change of the signal mask.
    let ready = unsafe {
        libc::ppoll(
            polled.as_mut_ptr(),
            count,
            &raw const within,
            std::ptr::null(),
        )
    };
    if ready >= 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.kind() != io::ErrorKind::Interrupted {
        return Err(error);
    }
    for descriptor in polled {
        descriptor.revents = 0;
    }
    Ok(())
}

/// Whether something can be read, now or within this time; also if that is an error. A signal may
/// make it earlier.
pub fn readable(file: BorrowedFd<'_>, within_ns: u64) -> io::Result<bool> {
    let mut polled = [libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    }];
    poll(&mut polled, within_ns)?;
    Ok(polled[0].revents != 0)
}

/// How many cores the machine has on, this process's or not.
pub fn online_cpus() -> u32 {
    // SAFETY: asks for a number.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The cores that the calling thread may use.
pub fn allowed_cpus() -> io::Result<std::vec::Vec<u32>> {
    // SAFETY: a cpu_set_t is an array of bits; all zero is an empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is as long as we say.
    let failed = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) } != 0;
    if failed {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the numbers are inside of the set.
    let allowed = (0..CPUS).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu as usize, &set) });
    Ok(allowed.collect())
}

/// Keeps the calling thread on one core.
pub fn pin(cpu: u32) -> io::Result<()> {
    if cpu >= CPUS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: as above; the number is inside of the set.
    let failed = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu as usize, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set) != 0
    };
    if failed {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// A `cpu_set_t` has so many; cores beyond are not measured, and said to be so.
const CPUS: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forward() {
        let before = raw_ns();
        assert!(before > 0 && raw_ns() >= before);
    }

    #[test]
    fn a_thread_stays_where_it_is_put() {
        let allowed = allowed_cpus().expect("allowed");
        let last = *allowed.last().expect("a core");
        std::thread::spawn(move || {
            pin(last).expect("pin");
            assert_eq!(allowed_cpus().expect("allowed"), [last]);
        })
        .join()
        .expect("join");
        assert!(pin(1023).is_err() || allowed.len() > 1000);
        assert!(pin(1024).is_err());
    }
}
