//! Errors of connections, by kind.

use std::io::{self, ErrorKind};

use nix::errno::Errno;
use serde::Serialize;

/// What became of connections that failed.
#[derive(Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Errors {
    refused: u64,
    timed_out: u64,
    reset: u64,
    unreachable: u64,
    /// No port was left here.
    no_port: u64,
    /// No descriptor was left here.
    no_descriptor: u64,
    /// The server ended it, sent another byte, or sent one too many.
    not_as_agreed: u64,
    other: u64,
}

impl Errors {
    /// One more of its kind.
    pub fn count(&mut self, error: &io::Error) {
        let kind = match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ECONNREFUSED) => &mut self.refused,
            // A blocking call that SO_RCVTIMEO or SO_SNDTIMEO ended.
            Some(Errno::ETIMEDOUT | Errno::EAGAIN | Errno::EINPROGRESS) => &mut self.timed_out,
            Some(Errno::ECONNRESET | Errno::EPIPE) => &mut self.reset,
            Some(Errno::EHOSTUNREACH | Errno::ENETUNREACH) => &mut self.unreachable,
            Some(Errno::EADDRNOTAVAIL) => &mut self.no_port,
            Some(Errno::EMFILE | Errno::ENFILE) => &mut self.no_descriptor,
            None if error.kind() == ErrorKind::InvalidData => &mut self.not_as_agreed,
            _ => &mut self.other,
        };
        *kind += 1;
    }

    /// Take over the errors of another thread.
    pub fn add(&mut self, other: &Self) {
        self.refused += other.refused;
        self.timed_out += other.timed_out;
        self.reset += other.reset;
        self.unreachable += other.unreachable;
        self.no_port += other.no_port;
        self.no_descriptor += other.no_descriptor;
        self.not_as_agreed += other.not_as_agreed;
        self.other += other.other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_kind_and_is_counted_once() {
        let mut errors = Errors::default();
        let numbers = [
            Errno::ECONNREFUSED,
            Errno::EINPROGRESS,
            Errno::ECONNRESET,
            Errno::EHOSTUNREACH,
            Errno::EADDRNOTAVAIL,
            Errno::EMFILE,
            Errno::EINVAL,
        ];
        for number in numbers {
            errors.count(&number.into());
        }
        errors.count(&ErrorKind::InvalidData.into());
        let json = serde_json::to_value(&errors).unwrap();
        let counts = json.as_object().unwrap();
        assert_eq!(counts.len(), 8);
        assert!(counts.values().all(|n| *n == 1), "{json}");
        let mut twice = Errors::default();
        twice.add(&errors);
        twice.add(&errors);
        let json = serde_json::to_value(&twice).unwrap();
        assert!(
            json.as_object().unwrap().values().all(|n| *n == 2),
            "{json}"
        );
    }
}
