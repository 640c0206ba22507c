//! The time-stamp counter of x86-64.

use core::arch::x86_64::{__cpuid, __rdtscp, _mm_lfence, _rdtsc};

use crate::{Counter, CpuId, Rate, RateSource, Raw, Sample, sys};

/// The time-stamp counter, and how to tell the core it was read on.
#[derive(Clone, Copy, Debug)]
pub struct Tsc {
    cpu: CpuId,
    rdtscp: bool,
}

impl Tsc {
    /// None where the counter is missing or reading it would kill the process (`PR_SET_TSC`).
    ///
    /// `paired`: counter and core in one go, dearer; needed where the cores' counters are apart,
    /// and not to be had on processors without `rdtscp`.
    #[must_use]
    pub fn new(paired: bool) -> Option<Self> {
        if !present() || sys::counter_forbidden() {
            return None;
        }
        let rdtscp = has_rdtscp();
        let together = if rdtscp {
            CpuId::WithCounter
        } else {
            CpuId::Getcpu
        };
        let cpu = if paired && rdtscp {
            together
        } else {
            CpuId::best(together)
        };
        Some(Self { cpu, rdtscp })
    }

    /// How the core is told.
    #[must_use]
    pub fn cpu_id(&self) -> CpuId {
        self.cpu
    }
}

/// Counter and core in one go.
///
/// # Safety
/// The processor must have `rdtscp`.
#[inline]
unsafe fn rdtscp() -> Sample {
    let mut aux = 0;
    // SAFETY: as promised; `aux` is ours.
    let ticks = unsafe { __rdtscp(&raw mut aux) };
    // Linux numbers no more cores than fit (`VDSO_CPUNODE_BITS`).
    Sample {
        ticks,
        cpu: aux & 0xfff,
    }
}

impl Counter for Tsc {
    #[inline]
    fn read(&self) -> Sample {
        if self.cpu == CpuId::WithCounter {
            // SAFETY: `new` has made sure that there is one.
            return unsafe { rdtscp() };
        }
        // SAFETY: `new` has made sure that it may be read.
        let ticks = unsafe { _rdtsc() };
        Sample {
            ticks,
            cpu: self.cpu.current(),
        }
    }

    /// `rdtscp` waits for everything earlier, `lfence; rdtsc` as well (Intel SDM 2B, RDTSC; on AMD
    /// since Linux has made lfence serialising there).
    #[inline]
    fn read_ordered(&self) -> Sample {
        if self.rdtscp {
            // SAFETY: `new` has made sure that there is one.
            return unsafe { rdtscp() };
        }
        // SAFETY: every x86-64 has lfence, and `new` has made sure of the counter.
        let ticks = unsafe {
            _mm_lfence();
            _rdtsc()
        };
        Sample {
            ticks,
            cpu: self.cpu.current(),
        }
    }

    fn bridge_ns(&self) -> u64 {
        Raw::ns()
    }

    fn paired(&self) -> bool {
        self.cpu == CpuId::WithCounter
    }
}

/// CPUID 1, EDX bit 4.
fn present() -> bool {
    __cpuid(1).edx >> 4 & 1 == 1
}

/// CPUID `0x8000_0001`, EDX bit 27; and the system lets it tell the core.
pub fn has_rdtscp() -> bool {
    sys::COUNTER_TELLS_CPU && extended(0x8000_0001).is_some_and(|leaf| leaf.edx >> 27 & 1 == 1)
}

/// CPUID `0x8000_0007`, EDX bit 8.
pub fn invariant() -> bool {
    extended(0x8000_0007).is_some_and(|leaf| leaf.edx >> 8 & 1 == 1)
}

/// CPUID 1, ECX bit 31: no processor sets it by itself.
pub fn virtual_machine() -> bool {
    __cpuid(1).ecx >> 31 == 1
}

fn extended(number: u32) -> Option<core::arch::x86_64::CpuidResult> {
    (__cpuid(0x8000_0000).eax >= number).then(|| __cpuid(number))
}

/// The rate as stated by the hypervisor or the processor, if by any.
pub fn stated() -> Option<Rate> {
    hypervisor_rate().or_else(|| {
        let most = __cpuid(0).eax;
        let leaf = (most >= 0x15).then(|| __cpuid(0x15))?;
        let base = (most >= 0x16).then(|| __cpuid(0x16).eax);
        processor_rate([leaf.eax, leaf.ebx, leaf.ecx], base.unwrap_or(0))
    })
}

/// `VMware`'s leaf, which KVM and others can show as well.
fn hypervisor_rate() -> Option<Rate> {
    let there = virtual_machine() && __cpuid(0x4000_0000).eax >= 0x4000_0010;
    let khz = there.then(|| __cpuid(0x4000_0010).eax)?;
    Rate::stated(u64::from(khz) * 1000, RateSource::Hypervisor)
}

/// Leaf 0x15: denominator, numerator, crystal in Hz. Where the crystal is not told, the counter runs
/// at the base frequency of leaf 0x16 (as in `native_calibrate_tsc`, Linux `arch/x86/kernel/tsc.c`).
fn processor_rate([denominator, numerator, crystal]: [u32; 3], base_mhz: u32) -> Option<Rate> {
    if denominator == 0 || numerator == 0 {
        return None;
    }
    if crystal == 0 {
        return Rate::stated(u64::from(base_mhz) * 1_000_000, RateSource::BaseMhz);
    }
    let hertz = u64::from(crystal) * u64::from(numerator) / u64::from(denominator);
    Rate::stated(hertz, RateSource::Crystal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_read() {
        let skylake = processor_rate([2, 216, 24_000_000], 2600).expect("rate");
        assert_eq!(
            (skylake.millihertz, skylake.source),
            (2_592_000_000_000, RateSource::Crystal)
        );
        let base = processor_rate([2, 216, 0], 2600).expect("rate");
        assert_eq!(
            (base.millihertz, base.source),
            (2_600_000_000_000, RateSource::BaseMhz)
        );
        assert_eq!(processor_rate([0, 0, 0], 2600), None);
        assert_eq!(processor_rate([2, 216, 0], 0), None);
    }

    #[test]
    fn every_way_tells_the_core() {
        let Some(cheap) = Tsc::new(false) else { return };
        let paired = Tsc::new(true).expect("tsc");
        assert_eq!(paired.paired(), has_rdtscp());
        for cpu in sys::allowed_cpus().expect("allowed") {
            std::thread::spawn(move || {
                sys::pin(cpu).expect("pin");
                for counter in [cheap, paired] {
                    let first = counter.read_ordered();
                    assert_eq!((first.cpu, counter.read().cpu), (cpu, cpu));
                    assert!(counter.read_ordered().ticks > first.ticks);
                    assert_eq!(counter.pair().cpu, cpu);
                }
            })
            .join()
            .expect("join");
        }
    }
}
