//! What the programs have in common.

#[cfg(unix)]
pub mod epoll;
pub mod failure;
pub mod hex;
#[cfg(unix)]
pub mod limits;
pub mod print;
pub mod shared_clock;
#[cfg(unix)]
pub mod signals;

pub use failure::Failure;
pub use print::{print, say};
