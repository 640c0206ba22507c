//! The virtual counter of aarch64 (Arm ARM D12). Steady and the same on all cores by definition;
//! the latter is measured all the same. Run under qemu-aarch64 only.

use core::arch::asm;

use crate::{Counter, CpuId, Rate, RateSource, Raw, Sample};

#[derive(Clone, Copy, Debug)]
pub struct Cntvct {
    cpu: CpuId,
}

impl Cntvct {
    /// Linux lets every process read it.
    #[must_use]
    pub fn new() -> Self {
        Self {
            cpu: CpuId::best(CpuId::Getcpu),
        }
    }
}

impl Default for Cntvct {
    fn default() -> Self {
        Self::new()
    }
}

impl Counter for Cntvct {
    #[inline]
    fn read(&self) -> Sample {
        let ticks: u64;
        // SAFETY: reads a register.
        unsafe {
            asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags));
        };
        Sample {
            ticks,
            cpu: self.cpu.current(),
        }
    }

    /// `dsb` waits for loads, and `isb` keeps the counter from being read before it (Linux's
    /// `__arch_counter_get_cntvct` does with `isb` alone, since it orders loads otherwise). Not
    /// `nomem`: the compiler leaves loads before.
    #[inline]
    fn read_ordered(&self) -> Sample {
        // SAFETY: a barrier.
        unsafe { asm!("dsb ishld", "isb", options(nostack, preserves_flags)) };
        self.read()
    }

    fn bridge_ns(&self) -> u64 {
        Raw::ns()
    }

    fn paired(&self) -> bool {
        false
    }
}

/// `CNTFRQ_EL0`.
pub fn stated() -> Option<Rate> {
    let hertz: u64;
    // SAFETY: reads a register that Linux lets every process read.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nomem, nostack, preserves_flags)) };
    Rate::stated(hertz, RateSource::Firmware)
}
