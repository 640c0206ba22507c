//! What the programs have in common.

pub mod epoll;
pub mod failure;
pub mod hex;
pub mod limits;
pub mod print;
pub mod shared_clock;
pub mod signals;

pub use failure::Failure;
pub use print::{print, say};
