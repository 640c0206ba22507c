//! What is assumed, and nothing here can prove.

/// What is assumed of the two clocks' rates relative to each other: nothing here can prove it.
///
/// That is about oscillators. A clock that a daemon slews may go far beyond: take one that nobody
/// disciplines, as this crate's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drift {
    /// ρ: the rates never differ by more, in parts per billion of the client's time.
    pub worst_ppb: u32,
    /// ω: the rates of any two moments, from the first synchronisation on, are within this of each
    /// other.
    pub wander_ppb: u32,
    /// Two synchronisations at least this far apart make a rate, in nanoseconds, or more of them with
    /// as much leverage.
    pub baseline_ns: u64,
}

impl Drift {
    /// 100 ppm before a rate is known, 1 ppm around it afterwards, known after a second (clocks.md
    /// §5 (b), (c)).
    pub const USUAL: Self = Self {
        worst_ppb: 100_000,
        wander_ppb: 1_000,
        baseline_ns: 1_000_000_000,
    };
}

impl Default for Drift {
    fn default() -> Self {
        Self::USUAL
    }
}
