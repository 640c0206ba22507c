//! Which core a thread is on, as cheaply as it can be known.

use crate::sys;

/// How to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuId {
    /// From the thread's restartable-sequences area, that the kernel keeps up to date: one load
    /// (`include/uapi/linux/rseq.h`). Holds the area's distance from the thread pointer.
    Rseq(isize),
    /// From `rdtscp`, together with the counter (Linux puts node << 12 | cpu into `TSC_AUX`,
    /// `arch/x86/include/asm/segment.h`).
    WithCounter,
    /// From the C library: `getcpu` in the vDSO, else a system call.
    Getcpu,
}

impl CpuId {
    /// By restartable sequences where the C library has registered them (glibc 2.35 and later,
    /// unless switched off), else as said.
    #[must_use]
    pub fn best(otherwise: Self) -> Self {
        rseq::offset().map_or(otherwise, Self::Rseq)
    }

    /// The core, or [`NO_CPU`](crate::NO_CPU) if it cannot be told, which is then said with every value.
    #[inline]
    #[must_use]
    pub fn current(self) -> u32 {
        match self {
            Self::Rseq(offset) => rseq::cpu(offset),
            Self::WithCounter | Self::Getcpu => sys::current_cpu(),
        }
    }
}

/// Restartable sequences, of which we want nothing but the number of the core.
#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod rseq {
    use std::arch::asm;

    /// `cpu_id` in `struct rseq`: the first four bytes are `cpu_id_start`. Negative until the
    /// thread is registered.
    const CPU_ID: isize = 4;

    /// Where glibc has put the area, relative to the thread pointer; none if it has not.
    pub fn offset() -> Option<isize> {
        let (offset, size) = symbols();
        if offset.is_null() || size.is_null() {
            return None;
        }
        // SAFETY: glibc's constants: a ptrdiff_t, and an unsigned int that is 0 without an area.
        unsafe { (*size > 0).then(|| *offset) }
    }

    /// `__rseq_offset` and `__rseq_size`, null with a C library that has none. Weak, for which the
    /// language has no word; dlsym would not do in a static program.
    #[cfg(target_arch = "x86_64")]
    fn symbols() -> (*const isize, *const u32) {
        let (offset, size);
        // SAFETY: two addresses out of the global offset table.
        unsafe {
            asm!(
                ".weak __rseq_offset",
                ".weak __rseq_size",
                "mov {offset}, qword ptr [rip + __rseq_offset@GOTPCREL]",
                "mov {size}, qword ptr [rip + __rseq_size@GOTPCREL]",
                offset = out(reg) offset,
                size = out(reg) size,
                options(nostack, preserves_flags, readonly),
            );
        }
        (offset, size)
    }

    #[cfg(target_arch = "aarch64")]
    fn symbols() -> (*const isize, *const u32) {
        let (offset, size);
        // SAFETY: two addresses out of the global offset table.
        unsafe {
            asm!(
                ".weak __rseq_offset",
                ".weak __rseq_size",
                "adrp {offset}, :got:__rseq_offset",
                "ldr {offset}, [{offset}, :got_lo12:__rseq_offset]",
                "adrp {size}, :got:__rseq_size",
                "ldr {size}, [{size}, :got_lo12:__rseq_size]",
                offset = out(reg) offset,
                size = out(reg) size,
                options(nostack, preserves_flags, readonly),
            );
        }
        (offset, size)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub fn cpu(offset: isize) -> u32 {
        let cpu;
        // SAFETY: glibc keeps the area for as long as the thread lives. Not `pure`: the kernel
        // changes it between two reads.
        unsafe {
            asm!(
                "mov {cpu:e}, dword ptr fs:[{offset} + {field}]",
                cpu = out(reg) cpu,
                offset = in(reg) offset,
                field = const CPU_ID,
                options(nostack, preserves_flags, readonly),
            );
        }
        cpu
    }

    #[cfg(target_arch = "aarch64")]
    #[inline]
    #[expect(
        clippy::cast_ptr_alignment,
        reason = "glibc aligns the area to 32 bytes"
    )]
    pub fn cpu(offset: isize) -> u32 {
        // SAFETY: as above.
        unsafe {
            let thread: *const u8;
            asm!("mrs {}, tpidr_el0", out(reg) thread, options(nostack, nomem, preserves_flags));
            thread.offset(offset + CPU_ID).cast::<u32>().read_volatile()
        }
    }
}

#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
mod rseq {
    pub fn offset() -> Option<isize> {
        None
    }

    pub fn cpu(_: isize) -> u32 {
        crate::NO_CPU
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_tell_the_same_core() {
        let best = CpuId::best(CpuId::Getcpu);
        std::eprintln!("{best:?}");
        for cpu in sys::allowed_cpus().expect("allowed") {
            std::thread::spawn(move || {
                sys::pin(cpu).expect("pin");
                assert_eq!((best.current(), CpuId::Getcpu.current()), (cpu, cpu));
            })
            .join()
            .expect("join");
        }
    }
}
