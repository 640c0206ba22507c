//! What every subcommand prints, and how it says that it cannot work.

use std::fmt::Display;
use std::process::ExitCode;

use serde::Serialize;

/// Exit status when the work failed on the way.
pub const FAILED: u8 = 1;
/// Exit status when a limit of this host would not do: nothing was started.
pub const TOO_LOW: u8 = 3;

/// Why there is no report.
#[derive(Debug)]
pub struct Failure {
    status: u8,
    message: String,
}

impl Failure {
    /// The work failed on the way: what was done, and what the system said.
    pub fn new(what: &str, error: impl Display) -> Self {
        Self {
            status: FAILED,
            message: format!("{what}: {error}"),
        }
    }

    /// A limit of this host would not do.
    pub fn too_low(message: String) -> Self {
        Self {
            status: TOO_LOW,
            message,
        }
    }

    /// Print it, for `main` to return.
    pub fn tell(&self) -> ExitCode {
        ullage_output::say(&format!("error: {}", self.message));
        ExitCode::from(self.status)
    }
}

/// Print the report: one JSON object on a line of its own.
pub fn print(report: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(report).map_err(|e| Failure::new("report", e))?;
    ullage_output::print(&text).map_err(|e| Failure::new("standard output", e))
}
