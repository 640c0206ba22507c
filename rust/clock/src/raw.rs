//! The kernel's own clock as a counter of nanoseconds, the fallback everywhere, and the bridge:
//! `CLOCK_MONOTONIC_RAW`; on Windows, `QueryPerformanceCounter`.

use crate::{Counter, NO_CPU, Pair, Sample, sys};

/// The kernel's clock that nobody disciplines. Does not count while the machine is suspended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Raw;

impl Raw {
    #[inline]
    #[must_use]
    pub fn ns() -> u64 {
        sys::raw_ns()
    }
}

impl Counter for Raw {
    #[inline]
    fn read(&self) -> Sample {
        Sample {
            ticks: Self::ns(),
            cpu: NO_CPU,
        }
    }

    /// The kernel orders its reads itself (`rdtsc_ordered` in `arch/x86/include/asm/msr.h`).
    #[inline]
    fn read_ordered(&self) -> Sample {
        self.read()
    }

    fn bridge_ns(&self) -> u64 {
        Self::ns()
    }

    fn paired(&self) -> bool {
        true
    }

    /// It is its own bridge: one reading is both, and no bracket's width gets into the line.
    fn pair(&self) -> Pair {
        let Sample { ticks, cpu } = self.read();
        Pair {
            ticks,
            after: ticks,
            cpu,
            ns: ticks,
            width: 0,
        }
    }
}
