//! How the program says that it cannot work.

use std::fmt::Display;
use std::process::ExitCode;

/// Exit status of a run that is invalid, or that failed on the way.
pub const INVALID: u8 = 1;
/// Exit status when what was asked for makes no sense, or cannot be had here: nothing was started.
const INPUT: u8 = 2;
/// Exit status of a run that was ended from outside; what was seen until then is told.
pub const INTERRUPTED: u8 = 130;

/// Why there is no result.
#[derive(Debug)]
pub struct Failure {
    status: u8,
    message: String,
}

impl Failure {
    /// What was asked for makes no sense.
    pub fn input(message: String) -> Self {
        Self {
            status: INPUT,
            message,
        }
    }

    /// The work failed on the way: what was done, and what the system said.
    pub fn new(what: &str, error: impl Display) -> Self {
        Self {
            status: INVALID,
            message: format!("{what}: {error}"),
        }
    }

    /// The result cannot be written.
    #[allow(clippy::needless_pass_by_value, reason = "it is mapped over")]
    pub fn output(error: std::io::Error) -> Self {
        Self::new("standard output", error)
    }

    /// Print it, for `main` to return.
    pub fn tell(&self) -> ExitCode {
        ullage_output::say(&format!("error: {}", self.message));
        ExitCode::from(self.status)
    }
}
