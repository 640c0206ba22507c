//! What can go wrong, with a stable code and a hint each.

use std::fmt;
use std::io;

/// Why there is no outcome.
#[derive(Debug)]
pub enum Error {
    /// An option is out of its range.
    Option {
        name: &'static str,
        /// What it may be.
        allowed: &'static str,
    },
    /// The system refused something that the measurement stands on.
    System { action: String, source: io::Error },
}

impl Error {
    /// A stable name.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Option { .. } => "clock-bad-option",
            Self::System { .. } => "clock-system-refuses",
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Option { .. } => "give a value in the range, or leave the option out",
            Self::System { .. } => {
                "look at the limits of the container, cgroup or seccomp filter that this runs in"
            }
        }
    }

    pub(crate) fn system(action: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System {
            action: action.into(),
            source: source.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option { name, allowed } => write!(out, "{name} must be {allowed}"),
            Self::System { action, source } => write!(out, "cannot {action}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Option { .. } => None,
            Self::System { source, .. } => Some(source),
        }
    }
}

/// Refuses an option unless it holds.
pub(crate) fn need(holds: bool, name: &'static str, allowed: &'static str) -> Result<(), Error> {
    holds.then_some(()).ok_or(Error::Option { name, allowed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_and_why() {
        let error = Error::system("move to core 3", io::Error::from_raw_os_error(libc::EINVAL));
        assert!(
            error
                .to_string()
                .starts_with("cannot move to core 3: Invalid")
        );
        assert_eq!(error.code(), "clock-system-refuses");
        let error = need(false, "runs", "1 or more").expect_err("refused");
        assert_eq!(error.to_string(), "runs must be 1 or more");
        assert!(!error.hint().is_empty());
    }
}
