//! The limit of open descriptors.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::Failure;

/// As many as this host lets the process open.
///
/// # Errors
/// The kernel does not tell.
pub fn most_descriptors() -> Result<u64, Failure> {
    Ok(descriptors()?.1)
}

/// Raises the soft limit to so many, unless it is there already. The hard limit must allow them.
///
/// # Errors
/// It does not.
pub fn allow_descriptors(count: u64) -> Result<(), Failure> {
    let (soft, hard) = descriptors()?;
    if count <= soft {
        return Ok(());
    }
    setrlimit(Resource::RLIMIT_NOFILE, count, hard).map_err(failure)
}

fn descriptors() -> Result<(u64, u64), Failure> {
    getrlimit(Resource::RLIMIT_NOFILE).map_err(failure)
}

fn failure(error: nix::Error) -> Failure {
    Failure::new("RLIMIT_NOFILE", error)
}
