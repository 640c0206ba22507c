//! How the front says that it cannot work.

use std::fmt::Display;
use std::process::ExitCode;

/// Exit status when the work failed on the way.
const FAILED: u8 = 1;
/// Exit status when what it was told makes no sense: nothing was started.
const BAD_INPUT: u8 = 2;
/// Exit status when a limit of this host would not do: nothing was started.
const TOO_LOW: u8 = 3;

/// Why it ends.
#[derive(Debug)]
pub struct Failure {
    status: u8,
    message: String,
}

impl Failure {
    /// The work failed: what was done, and what the system said.
    pub fn new(what: &str, error: impl Display) -> Self {
        Self::of(FAILED, format!("{what}: {error}"))
    }

    /// The configuration, or the log, is not one.
    pub fn bad(what: &str, error: impl Display) -> Self {
        Self::of(BAD_INPUT, format!("{what}: {error}"))
    }

    /// A limit of this host would not do.
    pub fn too_low(message: String) -> Self {
        Self::of(TOO_LOW, message)
    }

    fn of(status: u8, message: String) -> Self {
        Self { status, message }
    }

    /// Print it, for `main` to return.
    pub fn tell(&self) -> ExitCode {
        ullage_output::say(&format!("error: {}", self.message));
        ExitCode::from(self.status)
    }
}
