//! How a program says that it cannot work, and how it prints its result.

use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;

/// Exit status when the work failed on the way.
pub const FAILED: u8 = 1;
/// Exit status when the input makes no sense, or cannot be had here: nothing was started.
const BAD_INPUT: u8 = 2;
/// Exit status when a limit of this host would not do: nothing was started.
const TOO_LOW: u8 = 3;
/// Exit status of a run that was ended from outside.
pub const INTERRUPTED: u8 = 130;

/// Why there is no result.
#[derive(Debug)]
pub struct Failure {
    status: u8,
    message: String,
}

impl Failure {
    /// The work failed on the way: what was done, and what the system said.
    pub fn new(context: &str, error: impl Display) -> Self {
        Self::of(FAILED, format!("{context}: {error}"))
    }

    /// The input makes no sense.
    #[must_use]
    pub fn input(message: String) -> Self {
        Self::of(BAD_INPUT, message)
    }

    /// This input cannot be read, or makes no sense.
    pub fn bad(context: impl Display, error: impl Display) -> Self {
        Self::input(format!("{context}: {error}"))
    }

    /// A limit of this host would not do.
    #[must_use]
    pub fn too_low(message: String) -> Self {
        Self::of(TOO_LOW, message)
    }

    /// The result cannot be written.
    #[allow(clippy::needless_pass_by_value, reason = "it is mapped over")]
    #[must_use]
    pub fn output(error: std::io::Error) -> Self {
        Self::new("standard output", error)
    }

    fn of(status: u8, message: String) -> Self {
        Self { status, message }
    }

    /// Prints it, for `main` to return.
    #[must_use]
    pub fn tell(&self) -> ExitCode {
        crate::say(&format!("error: {}", self.message));
        ExitCode::from(self.status)
    }
}

/// What an input file holds. Where it cannot be read or makes no sense, its name stands before why.
///
/// # Errors
/// It cannot be read, or parsed.
pub fn read_input<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, Failure> {
    let text = fs::read_to_string(path).map_err(|error| Failure::bad(path.display(), error))?;
    parse(&text).map_err(|why| Failure::bad(path.display(), why))
}

/// Prints a result: one JSON object on a line of its own.
///
/// # Errors
/// It cannot be written.
pub fn print_json(result: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(result).map_err(|error| Failure::new("result", error))?;
    crate::print(&text).map_err(Failure::output)
}
