//! The datagram: 56 bytes, big-endian, the same length both ways, so that a server sends nobody more
//! than it got.
//!
//! | bytes | |
//! |---|---|
//! | 0–3 | `RGAP` |
//! | 4 | version, 1 |
//! | 5 | 1 request, 2 response |
//! | 6–7 | 0 |
//! | 8–15 | sequence |
//! | 16–31 | run token |
//! | 32–39 | t1 |
//! | 40–47 | t2, 0 in a request |
//! | 48–55 | t3, 0 in a request |

use core::fmt;

/// Bytes of every message.
pub const LENGTH: usize = 56;
const MAGIC: [u8; 4] = *b"RGAP";
const VERSION: u8 = 1;
const REQUEST: u8 = 1;
const RESPONSE: u8 = 2;

/// The secret of a run: keeps runs apart and strangers out. It is sent as it is, so whoever can read
/// the network can use it.
#[derive(Clone, Copy)]
pub struct Token(pub [u8; 16]);

impl PartialEq for Token {
    /// Takes as long whatever differs.
    fn eq(&self, other: &Self) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        pairs.fold(0, |all, (one, two)| all | (one ^ two)) == 0
    }
}

impl Eq for Token {}

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Token(…)")
    }
}

/// What is in a message besides who and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// From a client.
    Request,
    /// From a server, with when it received the request and when it answered.
    Response {
        /// Received.
        t2: u64,
        /// Answered.
        t3: u64,
    },
}

/// A request or a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Of the run.
    pub token: Token,
    /// Which request.
    pub sequence: u64,
    /// When the request was sent, by the client's clock.
    pub t1: u64,
    /// The rest.
    pub body: Body,
}

/// Not a message of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl Message {
    /// As it is sent.
    #[must_use]
    pub fn encode(&self) -> [u8; LENGTH] {
        let (kind, t2, t3) = match self.body {
            Body::Request => (REQUEST, 0, 0),
            Body::Response { t2, t3 } => (RESPONSE, t2, t3),
        };
        let mut bytes = [0; LENGTH];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = kind;
        bytes[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[16..32].copy_from_slice(&self.token.0);
        for (place, instant) in bytes[32..].chunks_exact_mut(8).zip([self.t1, t2, t3]) {
            place.copy_from_slice(&instant.to_be_bytes());
        }
        bytes
    }

    /// Every message has exactly one spelling, and anything else is none.
    ///
    /// # Errors
    /// If it is no message.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let bytes: &[u8; LENGTH] = bytes.try_into().map_err(|_| Malformed)?;
        let [m1, m2, m3, m4, version, kind, 0, 0, rest @ ..] = bytes else {
            return Err(Malformed);
        };
        if [*m1, *m2, *m3, *m4] != MAGIC || *version != VERSION {
            return Err(Malformed);
        }
        let mut token = [0; 16];
        token.copy_from_slice(&rest[8..24]);
        let [t1, t2, t3] = [24, 32, 40].map(|at| number(rest, at));
        let body = match *kind {
            REQUEST if t2 == 0 && t3 == 0 => Body::Request,
            RESPONSE => Body::Response { t2, t3 },
            _ => return Err(Malformed),
        };
        Ok(Self {
            token: Token(token),
            sequence: number(rest, 0),
            t1,
            body,
        })
    }
}

fn number(bytes: &[u8; LENGTH - 8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn the_bytes_are_these() {
        let message = Message {
            token: Token(*b"sixteen bytes ok"),
            sequence: 7,
            t1: 0x0102,
            body: Body::Response { t2: 3, t3: 4 },
        };
        let bytes = message.encode();
        assert_eq!(&bytes[..16], b"RGAP\x01\x02\0\0\0\0\0\0\0\0\0\x07");
        assert_eq!(&bytes[16..32], b"sixteen bytes ok");
        assert_eq!(
            bytes[32..],
            *b"\0\0\0\0\0\0\x01\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04"
        );
        assert_eq!(Message::parse(&bytes), Ok(message));
    }

    #[test]
    fn the_token_is_not_shown() {
        assert_eq!(format!("{:?}", Token([65; 16])), "Token(…)");
    }
}
