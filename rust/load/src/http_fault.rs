//! Why a request has no answer, by kind.

use std::error::Error;
use std::io;

use nix::errno::Errno;
use serde::Serialize;

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Refused,
    TimedOut,
    Reset,
    /// The server ended the connection before the answer was whole.
    Closed,
    Unreachable,
    NoPort,
    NoDescriptor,
    /// Another status than 200.
    Status,
    /// Other bytes than those of the document.
    Document,
    /// What came was no HTTP.
    Protocol,
    Other,
}

/// Requests without an answer, by kind.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Faults {
    pub refused: u64,
    pub timed_out: u64,
    pub reset: u64,
    pub closed: u64,
    pub unreachable: u64,
    pub no_port: u64,
    pub no_descriptor: u64,
    pub status: u64,
    pub document: u64,
    pub protocol: u64,
    pub other: u64,
    /// Due, and not even sent when the time after the last one was over.
    pub unsent: u64,
}

impl Faults {
    pub fn count(&mut self, fault: Fault) {
        let kind = match fault {
            Fault::Refused => &mut self.refused,
            Fault::TimedOut => &mut self.timed_out,
            Fault::Reset => &mut self.reset,
            Fault::Closed => &mut self.closed,
            Fault::Unreachable => &mut self.unreachable,
            Fault::NoPort => &mut self.no_port,
            Fault::NoDescriptor => &mut self.no_descriptor,
            Fault::Status => &mut self.status,
            Fault::Document => &mut self.document,
            Fault::Protocol => &mut self.protocol,
            Fault::Other => &mut self.other,
        };
        *kind += 1;
    }

    pub fn add(&mut self, other: &Self) {
        self.refused += other.refused;
        self.timed_out += other.timed_out;
        self.reset += other.reset;
        self.closed += other.closed;
        self.unreachable += other.unreachable;
        self.no_port += other.no_port;
        self.no_descriptor += other.no_descriptor;
        self.status += other.status;
        self.document += other.document;
        self.protocol += other.protocol;
        self.other += other.other;
        self.unsent += other.unsent;
    }

    pub fn sum(&self) -> u64 {
        self.refused
            + self.timed_out
            + self.reset
            + self.closed
            + self.unreachable
            + self.no_port
            + self.no_descriptor
            + self.status
            + self.document
            + self.protocol
            + self.other
            + self.unsent
    }
}

impl From<&io::Error> for Fault {
    fn from(error: &io::Error) -> Self {
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ECONNREFUSED) => Self::Refused,
            Some(Errno::ETIMEDOUT) => Self::TimedOut,
            Some(Errno::ECONNRESET | Errno::EPIPE) => Self::Reset,
            Some(Errno::EHOSTUNREACH | Errno::ENETUNREACH) => Self::Unreachable,
            Some(Errno::EADDRNOTAVAIL) => Self::NoPort,
            Some(Errno::EMFILE | Errno::ENFILE) => Self::NoDescriptor,
            None if error.kind() == io::ErrorKind::UnexpectedEof => Self::Closed,
            _ => Self::Other,
        }
    }
}

impl From<hyper::Error> for Fault {
    fn from(error: hyper::Error) -> Self {
        if let Some(cause) = error
            .source()
            .and_then(|cause| cause.downcast_ref::<io::Error>())
        {
            return cause.into();
        }
        // Cancelled: it was closed while it waited for a request.
        if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
            return Self::Closed;
        }
        if error.is_parse() {
            return Self::Protocol;
        }
        Self::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_counted_once_and_in_the_sum() {
        let mut faults = Faults::default();
        let all = [
            Fault::Refused,
            Fault::TimedOut,
            Fault::Reset,
            Fault::Closed,
            Fault::Unreachable,
            Fault::NoPort,
            Fault::NoDescriptor,
            Fault::Status,
            Fault::Document,
            Fault::Protocol,
            Fault::Other,
        ];
        for fault in all {
            faults.count(fault);
        }
        faults.unsent += 1;
        let json = serde_json::to_value(&faults).unwrap();
        assert_eq!(json.as_object().unwrap().len(), all.len() + 1);
        assert!(
            json.as_object().unwrap().values().all(|n| *n == 1),
            "{json}"
        );
        let mut twice = Faults::default();
        twice.add(&faults);
        twice.add(&faults);
        assert_eq!(twice.sum(), 2 * (all.len() as u64 + 1));
    }

    #[test]
    fn the_systems_errors_have_their_kinds() {
        let kind = |number: Errno| Fault::from(&io::Error::from(number));
        assert_eq!(kind(Errno::ECONNREFUSED), Fault::Refused);
        assert_eq!(kind(Errno::EMFILE), Fault::NoDescriptor);
        assert_eq!(kind(Errno::EADDRNOTAVAIL), Fault::NoPort);
        assert_eq!(kind(Errno::ECONNRESET), Fault::Reset);
        assert_eq!(kind(Errno::EINVAL), Fault::Other);
    }
}
