//! Why a connection or a request failed, and how often.

use std::error::Error;
use std::io::{self, ErrorKind};

use nix::errno::Errno;
use serde::{Serialize, Serializer};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    Refused,
    TimedOut,
    Reset,
    /// The server ended the connection before the answer was whole.
    Closed,
    Unreachable,
    /// No port was left here.
    NoPort,
    /// No descriptor was left here.
    NoDescriptor,
    /// The server ended the connection, sent another byte, or sent one too many.
    NotAsAgreed,
    /// Another status than 200.
    Status,
    /// Other bytes than those of the document.
    Document,
    /// What came was no HTTP.
    Protocol,
    Other,
    /// Due, and not even sent when the time after the last one was over.
    Unsent,
}

pub const OF_CONNECTIONS: &[Fault] = &[
    Fault::Refused,
    Fault::TimedOut,
    Fault::Reset,
    Fault::Unreachable,
    Fault::NoPort,
    Fault::NoDescriptor,
    Fault::NotAsAgreed,
    Fault::Other,
];

pub const OF_REQUESTS: &[Fault] = &[
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
    Fault::Unsent,
];

/// How often each of some kinds came. All of them are reported, also those that never came.
pub struct Faults {
    kinds: &'static [Fault],
    counts: Vec<u64>,
}

impl Faults {
    pub fn new(kinds: &'static [Fault]) -> Self {
        let counts = vec![0; kinds.len()];
        Self { kinds, counts }
    }

    /// One more of its kind; of another kind than these it is [`Fault::Other`].
    pub fn count(&mut self, fault: Fault) {
        let place = |fault| self.kinds.iter().position(|kind| *kind == fault);
        if let Some(place) = place(fault).or_else(|| place(Fault::Other)) {
            self.counts[place] += 1;
        }
    }

    /// Take over the counts of another thread, of the same kinds.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum += count;
        }
    }

    pub fn sum(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl Serialize for Faults {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.kinds.iter().zip(&self.counts))
    }
}

impl From<&io::Error> for Fault {
    fn from(error: &io::Error) -> Self {
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ECONNREFUSED) => Self::Refused,
            // The last two: a blocking call that SO_RCVTIMEO or SO_SNDTIMEO ended.
            Some(Errno::ETIMEDOUT | Errno::EAGAIN | Errno::EINPROGRESS) => Self::TimedOut,
            Some(Errno::ECONNRESET | Errno::EPIPE) => Self::Reset,
            Some(Errno::EHOSTUNREACH | Errno::ENETUNREACH) => Self::Unreachable,
            Some(Errno::EADDRNOTAVAIL) => Self::NoPort,
            Some(Errno::EMFILE | Errno::ENFILE) => Self::NoDescriptor,
            None if error.kind() == ErrorKind::UnexpectedEof => Self::Closed,
            None if error.kind() == ErrorKind::InvalidData => Self::NotAsAgreed,
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
    fn every_kind_is_reported_by_its_name_and_counted_in_the_sum() {
        for kinds in [OF_CONNECTIONS, OF_REQUESTS] {
            let mut faults = Faults::new(kinds);
            for fault in kinds {
                faults.count(*fault);
            }
            let json = serde_json::to_value(&faults).unwrap();
            let counts = json.as_object().unwrap();
            assert_eq!(counts.len(), kinds.len());
            assert!(counts.values().all(|n| *n == 1), "{json}");
            let mut twice = Faults::new(kinds);
            twice.add(&faults);
            twice.add(&faults);
            assert_eq!(twice.sum(), 2 * kinds.len() as u64);
        }
        let mut connections = Faults::new(OF_CONNECTIONS);
        connections.count(Fault::TimedOut);
        connections.count(Fault::Protocol);
        let json = serde_json::to_value(&connections).unwrap();
        assert_eq!((&json["timed-out"], &json["other"]), (&1.into(), &1.into()));
    }

    #[test]
    fn the_systems_errors_have_their_kinds() {
        for (number, kind) in [
            (Errno::ECONNREFUSED, Fault::Refused),
            (Errno::EINPROGRESS, Fault::TimedOut),
            (Errno::ECONNRESET, Fault::Reset),
            (Errno::EHOSTUNREACH, Fault::Unreachable),
            (Errno::EADDRNOTAVAIL, Fault::NoPort),
            (Errno::EMFILE, Fault::NoDescriptor),
            (Errno::EINVAL, Fault::Other),
        ] {
            assert_eq!(Fault::from(&io::Error::from(number)), kind);
        }
        let agreed = io::Error::from(ErrorKind::InvalidData);
        assert_eq!(Fault::from(&agreed), Fault::NotAsAgreed);
    }
}
