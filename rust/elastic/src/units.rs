//! Seconds as people say them, nanoseconds as they are counted.

/// No length is more than this, given or drawn: 31 years, in seconds.
pub const MOST_S: f64 = 1e9;
/// Nanoseconds of a second.
pub const NS: f64 = 1e9;

/// In nanoseconds, to the nearest.
pub fn ns(s: f64) -> u64 {
    whole(s * NS + 0.5)
}

/// Cut off.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and cut off"
)]
pub fn whole(ns: f64) -> u64 {
    // Signed is quicker to convert.
    ns.min(MOST_S * NS) as i64 as u64
}

/// In seconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "2^53 ns are 104 days to the nanosecond"
)]
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / NS
}
