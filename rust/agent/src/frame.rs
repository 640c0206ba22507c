//! Frames: an eight-byte header and a body.
//!
//! The mark in front of every frame is what lets a reader that met garbage (a banner in the middle
//! of the stream, half a frame of a controller that went away) find its feet again instead of
//! giving up.

use std::ops::Range;

pub const MARK: [u8; 2] = [0xA1, 0x55];
pub const HEADER: usize = 8;
/// Bytes of the id in front of the raw bytes in bodies of kind 1 to 3.
pub const ID: usize = 4;
pub const MAX_BODY: usize = 1 << 20;
pub const MAX_JSON: usize = 64 << 10;
/// A buffer that grew beyond this is given back once it is empty.
const KEEP_CAPACITY: usize = 128 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Json = 0,
    Stdout = 1,
    Stderr = 2,
    Data = 3,
    Clock = 4,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        [
            Self::Json,
            Self::Stdout,
            Self::Stderr,
            Self::Data,
            Self::Clock,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
    }

    /// How long its body may be.
    fn most(self) -> usize {
        match self {
            Self::Json => MAX_JSON,
            Self::Stdout | Self::Stderr | Self::Data => MAX_BODY,
            Self::Clock => ullage_clock::rgap::LENGTH,
        }
    }
}

/// A frame as it came in; the body is borrowed from the decoder.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub kind: Kind,
    pub body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The id and the bytes behind it, of a body of kind 1 to 3; None when the body is too short
    /// for an id.
    pub fn split_id(&self) -> Option<(u32, &'a [u8])> {
        let (id, body) = self.body.split_first_chunk::<ID>()?;
        Some((u32::from_be_bytes(*id), body))
    }
}

/// Why bytes are not a frame.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    Mark,
    Kind(u8),
    Reserved(u8),
    TooLong { kind: Kind, length: usize },
}

/// The header of a frame with a body of `length` bytes; the caller keeps `length` within
/// `MAX_BODY`.
pub fn header(kind: Kind, length: usize) -> [u8; HEADER] {
    debug_assert!(length <= MAX_BODY);
    let length = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    [
        MARK[0], MARK[1], kind as u8, 0, length[0], length[1], length[2], length[3],
    ]
}

/// What the header says, when all of it is there.
fn parse_header(bytes: [u8; HEADER]) -> Result<(Kind, usize), Fault> {
    let [_, _, kind, reserved, a, b, c, d] = bytes;
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    let kind = Kind::from_byte(kind).ok_or(Fault::Kind(kind))?;
    if reserved != 0 {
        return Err(Fault::Reserved(reserved));
    }
    if length > kind.most() {
        return Err(Fault::TooLong { kind, length });
    }
    Ok((kind, length))
}

/// Cuts a stream of bytes into frames and faults.
#[derive(Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Everything before this index has been dealt with.
    done: usize,
    /// Bytes still to come of a body that is not wanted.
    discard: usize,
    /// A fault has been reported and no frame was found since: report no other.
    lost: bool,
}

impl Decoder {
    /// Adds bytes that have arrived.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.compact();
        self.buffer.extend_from_slice(bytes);
    }

    /// Forgets half a frame: its other half will never come.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// The next frame or fault; None when more bytes are needed.
    pub fn next_frame(&mut self) -> Option<Result<Frame<'_>, Fault>> {
        loop {
            match self.step()? {
                Ok((kind, range)) => {
                    self.lost = false;
                    let body = self.buffer.get(range).unwrap_or_default();
                    return Some(Ok(Frame { kind, body }));
                }
                Err(_) if self.lost => {}
                Err(fault) => {
                    self.lost = true;
                    return Some(Err(fault));
                }
            }
        }
    }

    /// One step: a frame, a fault (already skipped), or None for "more bytes, please".
    fn step(&mut self) -> Option<Result<(Kind, Range<usize>), Fault>> {
        let skipped = self.discard.min(self.buffer.len() - self.done);
        self.discard -= skipped;
        self.done += skipped;
        let unread = &self.buffer[self.done..];
        let garbage = garbage_before_mark(unread);
        if garbage > 0 {
            self.done += garbage;
            return Some(Err(Fault::Mark));
        }
        let head = *unread.first_chunk::<HEADER>()?;
        match parse_header(head) {
            Ok((kind, length)) => {
                let start = self.done + HEADER;
                let end = start + length;
                if self.buffer.len() < end {
                    return None;
                }
                self.done = end;
                Some(Ok((kind, start..end)))
            }
            Err(fault) => {
                self.skip(&fault);
                Some(Err(fault))
            }
        }
    }

    /// Skips what a bad header spoiled: the whole body where its length can be believed, else the
    /// mark alone.
    fn skip(&mut self, fault: &Fault) {
        match *fault {
            Fault::TooLong { length, .. } if length <= MAX_BODY => {
                self.done += HEADER;
                self.discard = length;
            }
            _ => self.done += MARK.len(),
        }
    }

    fn compact(&mut self) {
        self.buffer.drain(..self.done);
        self.done = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > KEEP_CAPACITY {
            self.buffer = Vec::new();
        }
    }
}

/// How many bytes cannot be the beginning of a frame. A mark cut in two at the end counts as one.
fn garbage_before_mark(bytes: &[u8]) -> usize {
    let mark = bytes.windows(MARK.len()).position(|pair| pair == MARK);
    let cut = usize::from(bytes.last() == Some(&MARK[0]));
    mark.unwrap_or(bytes.len() - cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(kind: Kind, body: &[u8]) -> Vec<u8> {
        [&header(kind, body.len())[..], body].concat()
    }

    /// All that a decoder makes of the bytes, given to it in pieces of `piece` bytes.
    fn decode(bytes: &[u8], piece: usize) -> Vec<Result<(Kind, Vec<u8>), Fault>> {
        let mut decoder = Decoder::default();
        let mut frames = Vec::new();
        for chunk in bytes.chunks(piece.max(1)) {
            decoder.feed(chunk);
            while let Some(next) = decoder.next_frame() {
                frames.push(next.map(|frame| (frame.kind, frame.body.to_vec())));
            }
        }
        frames
    }

    #[test]
    fn frames_come_out_whole_whatever_the_pieces() {
        let stream = [
            encode(Kind::Json, b"{}"),
            encode(Kind::Data, b"\0\0\0\x07hello"),
        ]
        .concat();
        for piece in 1..=stream.len() {
            let frames = decode(&stream, piece);
            assert_eq!(
                frames,
                [
                    Ok((Kind::Json, b"{}".to_vec())),
                    Ok((Kind::Data, b"\0\0\0\x07hello".to_vec()))
                ]
            );
        }
    }

    #[test]
    fn one_error_for_one_run_of_garbage() {
        let stream = [&b"login: \xA1\xA1"[..], &encode(Kind::Json, b"{}")].concat();
        for piece in 1..=stream.len() {
            let frames = decode(&stream, piece);
            assert_eq!(frames, [Err(Fault::Mark), Ok((Kind::Json, b"{}".to_vec()))]);
        }
    }

    #[test]
    fn bad_kind_and_reserved_are_named_and_skipped() {
        let good = encode(Kind::Json, b"{}");
        let mut kind = encode(Kind::Json, b"xy");
        kind[2] = 9;
        let frames = decode(&[kind, good.clone()].concat(), 3);
        assert_eq!(frames[0], Err(Fault::Kind(9)));
        assert_eq!(frames[1], Ok((Kind::Json, b"{}".to_vec())));
        let mut reserved = encode(Kind::Json, b"xy");
        reserved[3] = 1;
        let frames = decode(&[reserved, good].concat(), 3);
        assert_eq!(frames[0], Err(Fault::Reserved(1)));
        assert_eq!(frames.len(), 2);
    }

    #[test]
    fn a_long_json_body_is_skipped_even_with_marks_in_it() {
        let body = [&MARK[..], &[0, 0, 0, 0, 0, 1]]
            .concat()
            .repeat(MAX_JSON / 8 + 1);
        let length = body.len();
        let stream = [encode(Kind::Json, &body), encode(Kind::Json, b"{}")].concat();
        let frames = decode(&stream, 1000);
        let kind = Kind::Json;
        assert_eq!(
            frames,
            [
                Err(Fault::TooLong { kind, length }),
                Ok((kind, b"{}".to_vec()))
            ]
        );
    }

    #[test]
    fn an_unbelievable_length_skips_the_mark_only() {
        let mut stream = encode(Kind::Data, b"");
        stream[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        stream.extend(encode(Kind::Json, b"{}"));
        let frames = decode(&stream, 5);
        assert!(matches!(frames[0], Err(Fault::TooLong { .. })));
        assert_eq!(frames[1], Ok((Kind::Json, b"{}".to_vec())));
    }

    #[test]
    fn a_body_without_room_for_an_id_has_none() {
        let frame = Frame {
            kind: Kind::Data,
            body: b"abc",
        };
        assert_eq!(frame.split_id(), None);
        let frame = Frame {
            kind: Kind::Data,
            body: b"\0\0\x01\x00z",
        };
        assert_eq!(frame.split_id(), Some((256, &b"z"[..])));
    }

    fn bytes(
        of: impl Strategy<Value = u8>,
        size: std::ops::Range<usize>,
    ) -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(of, size)
    }

    /// Random bytes hardly ever hold a mark; these often do.
    fn near_frames() -> impl Strategy<Value = u8> {
        prop_oneof![Just(MARK[0]), Just(MARK[1]), Just(0), 0u8..5, any::<u8>()]
    }

    #[test]
    fn changed_frames_never_panic() {
        let one = encode(Kind::Json, b"{\"op\":\"bye\",\"id\":1}");
        let data = encode(Kind::Data, b"\0\0\0\x07hello");
        ullage_mutate::inputs(&[&[&one[..], &data, &one].concat(), &data], |stream| {
            decode(stream, 1 + stream.len() % 50);
        });
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(stream in bytes(any::<u8>(), 0..1000), piece in 1usize..300) {
            decode(&stream, piece);
        }

        #[test]
        fn near_frames_never_panic(stream in bytes(near_frames(), 0..999), piece in 1usize..300) {
            decode(&stream, piece);
        }

        #[test]
        fn a_frame_after_garbage_is_found(
            garbage in bytes(any::<u8>(), 0..1000),
            body in bytes(any::<u8>(), ID..1000),
            piece in 1usize..300,
        ) {
            let garbage: Vec<u8> = garbage.into_iter().filter(|byte| *byte != MARK[0]).collect();
            let stream = [garbage.clone(), encode(Kind::Data, &body)].concat();
            let frames = decode(&stream, piece);
            prop_assert_eq!(frames.last(), Some(&Ok((Kind::Data, body))));
            prop_assert_eq!(frames.len(), if garbage.is_empty() { 1 } else { 2 });
        }

        #[test]
        fn any_run_of_frames_comes_back(
            bodies in proptest::collection::vec(bytes(any::<u8>(), ID..200), 0..8),
            piece in 1usize..300,
        ) {
            let frames = bodies.iter().flat_map(|body| encode(Kind::Stdout, body));
            let frames = decode(&frames.collect::<Vec<_>>(), piece);
            let expected = bodies.into_iter().map(|body| Ok((Kind::Stdout, body)));
            prop_assert_eq!(frames, expected.collect::<Vec<_>>());
        }
    }
}
