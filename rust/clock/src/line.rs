//! The line of a process, for others on the same kernel: they read the same counter, so with the same
//! line they read the same time.

use core::fmt;

use crate::{Anchor, Pair, Rate, SHIFT, Scale, Source};

/// Lines of processes on one kernel are not further apart than this when they are new, in
/// nanoseconds.
pub(crate) const STRANGE_NS: u64 = 1_000_000;

/// Its bytes, see [`Line::encode`].
pub const LINE_LENGTH: usize = 48;

/// Through ticks and nanoseconds; see [`crate::Clock::adopt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    pub(crate) source: Source,
    pub(crate) anchor: Anchor,
}

/// What a process has found out about the counter, for others on the same kernel: see
/// [`crate::Clock::begin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Time as it reads it.
    pub line: Line,
    /// With what is known of its error.
    pub rate: Rate,
}

impl Known {
    /// Whether a reading here is on that line, and the line goes at that rate: as far from the bridge
    /// clock as a rate that is known so well may have come since the line began, and [`STRANGE_NS`].
    pub(crate) fn holds(&self, pair: &Pair, wander_ppb: u32) -> bool {
        let Some((ns, scale)) = self.line.at(pair.ticks).zip(Scale::of(&self.rate)) else {
            return false;
        };
        let drift_ppb = self.rate.bound_ppb.saturating_add(wander_ppb);
        let drift = |whole: u64| u128::from(whole) * u128::from(drift_ppb) / 1_000_000_000;
        let mult = self.line.anchor.scale.mult();
        let most = u128::from(STRANGE_NS) + drift(self.line.elapsed_ns(pair.ticks));
        self.line.source == Source::Counter
            && u128::from(mult.abs_diff(scale.mult())) <= drift(mult)
            && u128::from(ns.abs_diff(pair.ns)) <= most
    }
}

/// Another kernel's line, or of another counter, or of no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart;

impl fmt::Display for Apart {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the other process's clock is not one that this process could read")
    }
}

impl core::error::Error for Apart {}

impl Line {
    pub(crate) fn of(source: Source, anchor: Anchor) -> Self {
        Self { source, anchor }
    }

    /// Time at this tick; none long before the anchor.
    pub(crate) fn at(&self, ticks: u64) -> Option<u64> {
        let ahead = ticks.wrapping_sub(self.anchor.ticks);
        let age = if ahead <= u64::MAX / 2 {
            self.anchor.age.checked_add(self.anchor.scale.span(ahead))
        } else {
            let behind = self.anchor.scale.span(ahead.wrapping_neg());
            self.anchor.age.checked_sub(behind)
        };
        u64::try_from(age? >> SHIFT).ok()
    }

    /// How long this tick is from the anchor.
    pub(crate) fn elapsed_ns(&self, ticks: u64) -> u64 {
        let ahead = ticks.wrapping_sub(self.anchor.ticks);
        self.anchor.scale.ns(ahead.min(ahead.wrapping_neg()))
    }

    /// Big-endian: 1 for a counter or 2 for the kernel's clock in eight bytes, ticks, age (two words),
    /// the bridge clock, the scale.
    #[must_use]
    pub fn encode(&self) -> [u8; LINE_LENGTH] {
        let mut bytes = [0; LINE_LENGTH];
        let source: u64 = match self.source {
            Source::Counter => 1,
            Source::MonotonicRaw => 2,
        };
        let Anchor {
            ticks,
            age,
            ns,
            scale,
            ..
        } = self.anchor;
        bytes[..8].copy_from_slice(&source.to_be_bytes());
        bytes[8..16].copy_from_slice(&ticks.to_be_bytes());
        bytes[16..32].copy_from_slice(&age.to_be_bytes());
        bytes[32..40].copy_from_slice(&ns.to_be_bytes());
        bytes[40..].copy_from_slice(&scale.mult().to_be_bytes());
        bytes
    }

    /// The inverse.
    ///
    /// # Errors
    /// If these are no line's bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, Apart> {
        let bytes: &[u8; LINE_LENGTH] = bytes.try_into().map_err(|_| Apart)?;
        let [source, ticks, high, low, ns, mult] = [0, 8, 16, 24, 32, 40].map(|at| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(word)
        });
        let source = match source {
            1 => Source::Counter,
            2 => Source::MonotonicRaw,
            _ => return Err(Apart),
        };
        let anchor = Anchor {
            epoch: 2,
            ticks,
            age: u128::from(high) << 64 | u128::from(low),
            ns,
            scale: Scale::from_mult(mult).ok_or(Apart)?,
        };
        Ok(Self { source, anchor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, Raw};

    #[test]
    fn a_line_keeps_its_bytes() {
        let line = Clock::get().line();
        let parsed = Line::parse(&line.encode()).expect("line");
        assert_eq!(parsed.encode(), line.encode());
        assert_eq!(Line::parse(&line.encode()[1..]), Err(Apart));
        assert_eq!(Line::parse(&[0; LINE_LENGTH]), Err(Apart));
    }

    #[test]
    fn ones_own_line_moves_nothing() {
        let clock = Clock::get();
        // Nothing else in these tests changes the line but `refine`, by less than this.
        let moved = clock.adopt(&clock.line()).expect("adopted");
        assert!(moved.abs() < 100_000, "{moved}");
        assert!(clock.ordered().abs_diff(Raw::ns()) < 1_000_000_000);
    }

    #[test]
    fn a_line_of_elsewhere_is_refused() {
        let clock = Clock::get();
        let mut bytes = clock.line().encode();
        bytes[19] ^= 1;
        assert_eq!(clock.adopt(&Line::parse(&bytes).expect("line")), Err(Apart));
        // The same time now, and soon another: faster than the rate may be wrong by, which is a lot
        // where the system's clock is coarse and the machine busy.
        let line = clock.line();
        let mult = u128::from(line.anchor.scale.mult());
        let faster_ppb = 4 * u128::from(clock.promise().drift_ppb) + 100_000;
        let mult = u64::try_from(mult + mult * faster_ppb / 1_000_000_000).expect("mult");
        let faster = Line {
            anchor: crate::Anchor {
                scale: Scale::from_mult(mult).expect("scale"),
                ..line.anchor
            },
            ..line
        };
        assert_eq!(clock.adopt(&faster), Err(Apart));
        let mut bytes = clock.line().encode();
        bytes[7] ^= 3;
        assert_eq!(clock.adopt(&Line::parse(&bytes).expect("line")), Err(Apart));
    }
}
