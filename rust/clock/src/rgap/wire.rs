//! The datagram: 80 bytes, big-endian, the same length both ways, so that a server sends nobody more
//! than it got.
//!
//! | bytes | |
//! |---|---|
//! | 0–3 | `RGAP` |
//! | 4 | version, 2 |
//! | 5 | 1 request, 2 response |
//! | 6 | stratum of the server |
//! | 7 | 1: the server was awake |
//! | 8–15 | sequence |
//! | 16–31 | run token |
//! | 32–39 | t1 |
//! | 40–47 | t2 |
//! | 48–55 | t3 |
//! | 56–63 | hard bound of the server's clock |
//! | 64–71 | its statistical bound |
//! | 72–75 | its reasons, [`crate::Reasons::bits`] |
//! | 76–79 | 0 |
//!
//! In a request, 6, 7 and everything from 40 on is 0.

use core::fmt;

use super::Standing;
use crate::Reasons;

/// Bytes of every message.
pub const LENGTH: usize = 80;
const MAGIC: [u8; 4] = *b"RGAP";
const VERSION: u8 = 2;
/// How every message begins.
#[cfg(feature = "std")]
pub(super) const START: [u8; 5] = [MAGIC[0], MAGIC[1], MAGIC[2], MAGIC[3], VERSION];
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
        pairs.fold(0, |all, (a, b)| all | (a ^ b)) == 0
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
    Request,
    /// From a server, with when it received the request and when it answered.
    Response {
        t2: u64,
        t3: u64,
        /// What it says of itself.
        standing: Standing,
    },
}

/// A request or a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub token: Token,
    pub sequence: u64,
    /// When the request was sent, by the client's clock.
    pub t1: u64,
    pub body: Body,
}

/// Not a message of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl Message {
    #[must_use]
    pub fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = REQUEST;
        bytes[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[16..32].copy_from_slice(&self.token.0);
        bytes[32..40].copy_from_slice(&self.t1.to_be_bytes());
        if let Body::Response { t2, t3, standing } = self.body {
            bytes[5] = RESPONSE;
            bytes[6] = standing.stratum;
            bytes[7] = u8::from(standing.awake);
            let numbers = [t2, t3, standing.hard_ns, standing.bound_ns];
            for (place, number) in bytes[40..].chunks_exact_mut(8).zip(numbers) {
                place.copy_from_slice(&number.to_be_bytes());
            }
            bytes[72..76].copy_from_slice(&standing.reasons.bits().to_be_bytes());
        }
        bytes
    }

    /// Every message has exactly one spelling, and anything else is none.
    ///
    /// # Errors
    /// If it is no message.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let bytes: &[u8; LENGTH] = bytes.try_into().map_err(|_| Malformed)?;
        let mut token = [0; 16];
        token.copy_from_slice(&bytes[16..32]);
        let standing = Standing {
            hard_ns: number(bytes, 56),
            bound_ns: number(bytes, 64),
            stratum: bytes[6],
            awake: bytes[7] & 1 == 1,
            reasons: Reasons::from_bits((number(bytes, 72) >> 32) as u32),
        };
        let body = match bytes[5] {
            REQUEST => Body::Request,
            RESPONSE => Body::Response {
                t2: number(bytes, 40),
                t3: number(bytes, 48),
                standing,
            },
            _ => return Err(Malformed),
        };
        let message = Self {
            token: Token(token),
            sequence: number(bytes, 8),
            t1: number(bytes, 32),
            body,
        };
        // Magic, version, and whatever must be 0.
        if message.encode() == *bytes {
            Ok(message)
        } else {
            Err(Malformed)
        }
    }
}

fn number(bytes: &[u8; LENGTH], at: usize) -> u64 {
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
            body: Body::Response {
                t2: 3,
                t3: 4,
                standing: Standing {
                    hard_ns: 5,
                    bound_ns: 6,
                    stratum: 9,
                    awake: true,
                    reasons: Reasons::MOVED,
                },
            },
        };
        let bytes = message.encode();
        assert_eq!(&bytes[..16], b"RGAP\x02\x02\x09\x01\0\0\0\0\0\0\0\x07");
        assert_eq!(&bytes[16..32], b"sixteen bytes ok");
        let numbers = [0x0102, 3, 4, 5, 6].map(u64::to_be_bytes);
        assert_eq!(bytes[32..72], *numbers.as_flattened());
        assert_eq!(bytes[72..], *b"\0\0\x04\0\0\0\0\0");
        assert_eq!(Message::parse(&bytes), Ok(message));
    }

    #[test]
    fn the_token_is_not_shown() {
        assert_eq!(format!("{:?}", Token([65; 16])), "Token(…)");
    }

    #[test]
    fn changed_messages_are_refused_or_are_what_they_say() {
        let request = Message {
            token: Token([7; 16]),
            sequence: 7,
            t1: 5,
            body: Body::Request,
        }
        .encode();
        ullage_mutate::inputs(&[&request], |bytes| {
            if let Ok(message) = Message::parse(bytes) {
                assert_eq!(message.encode()[..], bytes[..]);
            }
        });
    }
}
