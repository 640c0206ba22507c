//! What a server says of itself with every answer.

use crate::Reasons;

/// How far a server's own clock may be off the root's, and how it came to answer: bounds add up along
/// a tree, and reasons are handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// No further off than this, whatever the paths were, in nanoseconds; `u64::MAX` when it knows
    /// nothing.
    pub hard_ns: u64,
    /// The same in 99.9 % of all synchronisations, if paths are alike.
    pub bound_ns: u64,
    /// How many synchronisations are between it and the root: 0 is the root.
    pub stratum: u8,
    /// It was waiting for the request with its eyes open: no scheduler had to wake it up.
    pub awake: bool,
    /// What is to be said of its clock.
    pub reasons: Reasons,
}

impl Standing {
    /// The root: the global clock is its clock.
    pub const ROOT: Self = Self {
        hard_ns: 0,
        bound_ns: 0,
        stratum: 0,
        awake: true,
        reasons: Reasons::NONE,
    };

    /// The worse of both in everything.
    #[must_use]
    pub fn or_worse(self, other: Self) -> Self {
        Self {
            hard_ns: self.hard_ns.max(other.hard_ns),
            bound_ns: self.bound_ns.max(other.bound_ns),
            stratum: self.stratum.max(other.stratum),
            awake: self.awake && other.awake,
            reasons: self.reasons | other.reasons,
        }
    }
}
