//! dedup and ferret: two pipelines on threads, after PARSEC's of the same names, and what makes their
//! inputs.

pub mod chunking;
pub mod corpus;
pub mod dedup;
pub mod digest;
pub mod draw;
pub mod ferret;
pub mod frame;
pub mod manifest;
pub mod rabin;
pub mod source;
pub mod usage;

/// 0 of nothing.
#[allow(clippy::cast_precision_loss)] // Counts and lengths, far below 2^52.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}
