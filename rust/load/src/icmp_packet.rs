//! Echo requests and replies of ICMP, as bytes (RFC 792).

use clap::ValueEnum;
use serde::Serialize;

const REQUEST: u8 = 8;
const REPLY: u8 = 0;
/// Bytes before the payload.
pub const HEADER: usize = 8;

/// Which socket the requests leave by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Needs root or `CAP_NET_RAW`.
    Raw,
    /// Needs a group in `net.ipv4.ping_group_range`.
    Ping,
}

/// An echo request with a payload that counts up, as ping's does.
pub fn request(size: usize) -> Vec<u8> {
    let mut packet = vec![0; HEADER + size];
    packet[0] = REQUEST;
    for (byte, value) in packet[HEADER..].iter_mut().zip((0..=u8::MAX).cycle()) {
        *byte = value;
    }
    packet
}

/// Write id, sequence number and checksum.
pub fn address(packet: &mut [u8], id: u16, sequence: u16) {
    packet[2..4].fill(0);
    packet[4..6].copy_from_slice(&id.to_be_bytes());
    packet[6..8].copy_from_slice(&sequence.to_be_bytes());
    let sum = checksum(packet);
    packet[2..4].copy_from_slice(&sum.to_be_bytes());
}

/// The checksum of RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| {
        u32::from(u16::from_be_bytes([
            pair[0],
            pair.get(1).copied().unwrap_or(0),
        ]))
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    #[allow(clippy::cast_possible_truncation)]
    let sum = !(sum as u16);
    sum
}

#[derive(Debug, PartialEq)]
pub struct Reply<'a> {
    pub id: u16,
    pub sequence: u16,
    pub payload: &'a [u8],
}

/// The reply in a message; None: it is something else. A raw socket gives the IPv4 header too.
pub fn read(message: &[u8], kind: Kind) -> Option<Reply<'_>> {
    let start = match kind {
        Kind::Ping => 0,
        Kind::Raw => usize::from(message.first()? & 0x0f) * 4,
    };
    let icmp = message.get(start..)?;
    if icmp.len() < HEADER || icmp[0] != REPLY || icmp[1] != 0 {
        return None;
    }
    Some(Reply {
        id: u16::from_be_bytes([icmp[4], icmp[5]]),
        sequence: u16::from_be_bytes([icmp[6], icmp[7]]),
        payload: &icmp[HEADER..],
    })
}

/// The newest of so many requests that had this sequence number, which counts to 65,535 and begins
/// again.
pub fn nearest(sent: usize, sequence: u16) -> Option<usize> {
    let newest = sent.checked_sub(1)?;
    #[allow(clippy::cast_possible_truncation)]
    let back = usize::from((newest as u16).wrapping_sub(sequence));
    newest.checked_sub(back)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        // Its own example, section 3: the sum is ddf2.
        let words = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&words), !0xddf2);
        assert_eq!(checksum(&[0x01]), !0x0100);
    }

    #[test]
    fn a_request_sums_to_zero_and_keeps_its_payload() {
        for size in [0, 1, 12, 16, 300] {
            let mut packet = request(size);
            address(&mut packet, 0xbeef, 7);
            assert_eq!(checksum(&packet), 0);
            assert_eq!(packet.len(), HEADER + size);
            packet[0] = REPLY;
            let reply = read(&packet, Kind::Ping).unwrap();
            assert_eq!((reply.id, reply.sequence), (0xbeef, 7));
            assert_eq!(reply.payload, &request(size)[HEADER..]);
        }
    }

    #[test]
    fn sequence_numbers_begin_again_and_still_name_their_request() {
        assert_eq!(nearest(0, 0), None);
        assert_eq!(nearest(1, 0), Some(0));
        assert_eq!(nearest(1, 1), None);
        assert_eq!(nearest(65_537, 0), Some(65_536));
        assert_eq!(nearest(65_537, 1), Some(1));
        assert_eq!(nearest(70_000, 65_535), Some(65_535));
    }

    #[test]
    fn changed_packets_are_survived() {
        let mut reply = request(40);
        reply[0] = REPLY;
        let behind = [&[0x45; 20][..], &reply].concat();
        ullage_mutate::inputs(&[&reply, &behind], |message| {
            for kind in [Kind::Raw, Kind::Ping] {
                if let Some(reply) = read(message, kind) {
                    assert!(message.ends_with(reply.payload));
                }
            }
        });
    }

    proptest! {
        #[test]
        fn no_message_breaks_the_reader(message in proptest::collection::vec(any::<u8>(), 0..80)) {
            for kind in [Kind::Raw, Kind::Ping] {
                if let Some(reply) = read(&message, kind) {
                    prop_assert!(message.ends_with(reply.payload));
                }
            }
        }

        #[test]
        fn a_reply_behind_any_ip_header_is_found(words in 5u8..=15, sequence: u16) {
            let mut packet = request(12);
            address(&mut packet, 1, sequence);
            packet[0] = REPLY;
            let mut message = vec![0; usize::from(words) * 4];
            message[0] = 0x40 | words;
            message.extend(&packet);
            let reply = read(&message, Kind::Raw).unwrap();
            prop_assert_eq!(reply.sequence, sequence);
        }
    }
}
