//! Why there is no outcome.

use std::fmt;

use crate::event::Refused;
use crate::policy::BadSetting;

/// A field that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// Where, from the top: `allocation.stages[0].time.mean_s`. Empty: the text is no specification.
    pub field: String,
    /// What was found there, and what may be.
    pub problem: String,
}

impl SpecError {
    pub(super) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }

    /// One of the application's or the policy's own.
    pub(super) fn of(part: &str, bad: &BadSetting) -> Self {
        let BadSetting {
            field,
            value,
            allowed,
        } = bad;
        let problem = format!("{value} is not allowed; allowed: {allowed}");
        Self::new(format!("{part}.{field}"), problem)
    }

    /// The same in a larger whole.
    pub(super) fn inside(mut self, whole: &str) -> Self {
        let joint = if self.field.is_empty() || self.field.starts_with('[') {
            ""
        } else {
            "."
        };
        self.field = format!("{whole}{joint}{}", self.field);
        self
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            return out.write_str(&self.problem);
        }
        write!(out, "{}: {}", self.field, self.problem)
    }
}

impl std::error::Error for SpecError {}

/// Why a simulation has not ended as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    Spec(SpecError),
    /// The caller did not want it any more.
    Cancelled,
    /// The machine does not accept what happens: more nodes than can be counted.
    Refused(Refused),
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec(error) => error.fmt(out),
            Self::Cancelled => out.write_str("the simulation was cancelled"),
            Self::Refused(refused) => write!(out, "the simulation cannot go on: {refused}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<SpecError> for Error {
    fn from(error: SpecError) -> Self {
        Self::Spec(error)
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}
