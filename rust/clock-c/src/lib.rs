//! The C ABI of the clock: `include/ullage_clock.h` documents every function, this crate is thin.
//!
//! No panic crosses the border: an `extern "C"` function that would let one through ends the process
//! instead, in every profile. A null pointer is refused with [`code::NULL`], everything else wrong
//! with another negative number.

mod clock;
pub mod code;
mod correction;
mod facts;
mod global;
#[cfg(test)]
mod layout;
mod rgap;
mod text;
pub mod types;

pub use clock::*;
pub use code::ullage_clock_strerror;
pub use correction::*;
pub use facts::ullage_clock_facts;
pub use global::*;
pub use rgap::*;

/// The version of this interface: grows with every change that an old caller would notice.
pub const ABI: u32 = 1;

#[unsafe(no_mangle)]
pub extern "C" fn ullage_clock_abi() -> u32 {
    ABI
}

#[unsafe(no_mangle)]
pub extern "C" fn ullage_clock_version() -> *const core::ffi::c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
