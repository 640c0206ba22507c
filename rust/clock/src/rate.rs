//! How fast a counter runs, and how well that is known.

use core::fmt;

/// Where a rate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateSource {
    /// By definition, as of a clock that counts nanoseconds.
    Exact,
    /// CPUID leaf 0x15: crystal and ratio (Intel SDM 2A, CPUID).
    Crystal,
    /// CPUID leaf 0x16: the base frequency in whole MHz, so no better than about 0.1 %.
    BaseMhz,
    /// CPUID leaf `0x4000_0010`, what a hypervisor says, in whole kHz.
    Hypervisor,
    /// `CNTFRQ_EL0`, what the firmware says (Arm ARM D24).
    Firmware,
    /// Least squares against `CLOCK_MONOTONIC_RAW`.
    Fitted,
}

/// Ticks per second.
///
/// The uncertainties are against the clock the rate was fitted to: that one's own oscillator may be
/// off by tens of ppm, and only another machine's clock can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// In thousandths of a hertz.
    pub millihertz: u64,
    /// One standard deviation, in parts per billion.
    pub sigma_ppb: u32,
    /// The rate cannot be further off than this while the counter was steady, in parts per billion;
    /// `u32::MAX` when nobody vouches for it.
    pub bound_ppb: u32,
    /// Who says so.
    pub source: RateSource,
}

impl Rate {
    pub const NANOSECONDS: Self = Self {
        millihertz: 1_000_000_000_000,
        sigma_ppb: 0,
        bound_ppb: 0,
        source: RateSource::Exact,
    };

    /// A rate that somebody states without an uncertainty; none for zero or what does not fit.
    #[must_use]
    pub fn stated(hertz: u64, source: RateSource) -> Option<Self> {
        let millihertz = hertz.checked_mul(1000).filter(|rate| *rate > 0)?;
        Some(Self {
            millihertz,
            sigma_ppb: u32::MAX,
            bound_ppb: u32::MAX,
            source,
        })
    }

    /// How far two rates are from each other, in parts per billion of the first.
    #[must_use]
    pub fn apart_ppb(&self, other: &Self) -> u64 {
        let difference = u128::from(self.millihertz.abs_diff(other.millihertz));
        let ppb = difference * 1_000_000_000 / u128::from(self.millihertz.max(1));
        u64::try_from(ppb).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mhz, below_mhz) = (
            self.millihertz / 1_000_000_000,
            self.millihertz % 1_000_000_000,
        );
        write!(out, "{mhz}.{below_mhz:09} MHz")?;
        if self.bound_ppb == u32::MAX {
            write!(out, " ({:?})", self.source)
        } else {
            let Self {
                sigma_ppb,
                bound_ppb,
                source,
                ..
            } = self;
            write!(
                out,
                " ({source:?}, sigma {sigma_ppb} ppb, at most {bound_ppb} ppb)"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn nonsense_is_no_rate() {
        assert_eq!(Rate::stated(0, RateSource::Crystal), None);
        assert_eq!(Rate::stated(u64::MAX, RateSource::Crystal), None);
    }

    #[test]
    fn rates_are_compared_and_read() {
        let rate = Rate::stated(2_000_000_000, RateSource::Hypervisor).expect("rate");
        let faster = Rate {
            millihertz: 2_000_002_000_000,
            ..rate
        };
        assert_eq!(rate.apart_ppb(&faster), 1000);
        assert_eq!(faster.to_string(), "2000.002000000 MHz (Hypervisor)");
    }
}
