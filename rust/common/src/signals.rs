//! Signals that a program waits for, instead of being ended by them.

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::Failure;

/// Blocks these signals. To be called before there are threads, which inherit it.
///
/// # Errors
/// The kernel refuses.
pub fn block(signals: &[Signal]) -> Result<SigSet, Failure> {
    let set: SigSet = signals.iter().copied().collect();
    set.thread_block().map_err(failure)?;
    Ok(set)
}

/// Blocks them, to be read beside other descriptors. Nothing to read is no error.
///
/// # Errors
/// There are no more descriptors.
pub fn descriptor(signals: &[Signal]) -> Result<SignalFd, Failure> {
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    SignalFd::with_flags(&block(signals)?, flags).map_err(failure)
}

fn failure(error: nix::Error) -> Failure {
    Failure::new("signals", error)
}
