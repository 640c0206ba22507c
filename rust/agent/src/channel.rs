//! The one channel to the controller: stdin and stdout, or a device.
//!
//! All writers share one lock and every frame leaves in one `write`, so frames never mix. A device
//! differs in two ways: either side may come first, so the magic line is repeated until somebody
//! speaks; and "0 bytes read" means that nobody is connected on the host's side, not that the end
//! has come.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ullage_clock::rgap;

use crate::credit::Credit;
use crate::frame::{self, Kind};
use crate::protocol::MAGIC;
use crate::responses::Response;
use crate::system::ends::{Receiver, Sender};
use crate::system::sys;
use crate::{shutdown, time};

const BEACON_EVERY: Duration = Duration::from_millis(100);
const NOBODY_THERE: Duration = Duration::from_millis(20);

/// The sending side, shared by all threads.
pub struct Channel {
    sender: Sender,
    turn: Mutex<()>,
    pub credit: Credit,
    /// A frame has come in: whoever is there has found us.
    met: AtomicBool,
}

/// The receiving side, for the dispatcher alone.
pub struct Input {
    receiver: Receiver,
    buffer: Vec<u8>,
}

pub enum Arrival<'a> {
    Bytes(&'a [u8]),
    /// The host's side of a device is not connected (any more).
    Nobody,
    End,
}

/// The channel over two ends that the system has opened.
pub fn open(receiver: Receiver, sender: Sender) -> (Arc<Channel>, Input) {
    let channel = Channel {
        sender,
        turn: Mutex::new(()),
        credit: Credit::default(),
        met: AtomicBool::new(false),
    };
    (
        Arc::new(channel),
        Input {
            receiver,
            buffer: vec![0; 64 << 10],
        },
    )
}

impl Channel {
    /// Sends the magic line: once on a pipe, and on a device until the first frame has come in.
    pub fn announce(self: &Arc<Self>, input: &Input) -> io::Result<()> {
        if !input.receiver.device() {
            self.write(MAGIC);
            return Ok(());
        }
        let channel = Arc::clone(self);
        let beacon = move || {
            while !channel.met() {
                channel.call_out();
                std::thread::sleep(BEACON_EVERY);
            }
        };
        sys::start_thread("beacon", beacon)
    }

    /// One magic line, when somebody could hear it and nobody has answered yet.
    fn call_out(&self) {
        let heard = self.sender.heard();
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if heard && !self.met() {
            // A port that fails now fails for the dispatcher too, which says so.
            let _ = self.sender.write_all(MAGIC);
        }
    }

    fn met(&self) -> bool {
        self.met.load(Ordering::Acquire)
    }

    /// A whole frame has come in: no more magic lines.
    pub fn meet(&self) {
        self.met.store(true, Ordering::Release);
    }

    pub fn send(&self, answer: &Response) {
        let bytes = encode(answer);
        self.write(&bytes);
    }

    /// Answers a request for the time. The clock is read at the last moment, when the channel is
    /// already ours.
    pub fn send_time(&self, request: &rgap::Pending) {
        let mut bytes = [0; frame::HEADER + rgap::LENGTH];
        let (header, body) = bytes.split_at_mut(frame::HEADER);
        header.copy_from_slice(&frame::header(Kind::Clock, rgap::LENGTH));
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (now_ns, standing) = time::standing();
        body.copy_from_slice(&request.answer(now_ns, standing));
        let sent = self.sender.write_all(&bytes);
        drop(turn);
        lost_if_failed(sent);
    }

    /// Sends raw bytes for which credit has been taken. `buffer` begins with `Raw::ROOM` free
    /// bytes.
    pub fn send_raw(&self, kind: Kind, id: u32, raw: &mut Raw) {
        let bytes = raw.seal(kind, id);
        self.write(bytes);
    }

    fn write(&self, bytes: &[u8]) {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = self.sender.write_all(bytes);
        drop(turn);
        lost_if_failed(sent);
    }
}

/// Without the channel nobody would know what our children do: the end.
fn lost_if_failed(sent: io::Result<()>) {
    if let Err(error) = sent {
        shutdown::end(
            1,
            Some(&format!(
                "cannot write to the controller: {}",
                sys::text(&error)
            )),
        );
    }
}

fn encode(answer: &Response) -> Vec<u8> {
    let mut bytes = vec![0; frame::HEADER];
    // Our own types have string keys only and no failing serializers.
    let _ = serde_json::to_writer(&mut bytes, answer);
    let header = frame::header(Kind::Json, bytes.len() - frame::HEADER);
    bytes[..frame::HEADER].copy_from_slice(&header);
    bytes
}

/// A buffer with room for header and id in front of the bytes, so that a frame leaves in one piece.
pub struct Raw {
    buffer: Vec<u8>,
    length: usize,
}

impl Raw {
    const ROOM: usize = frame::HEADER + frame::ID;

    pub fn new(capacity: usize) -> Self {
        Self {
            buffer: vec![0; Self::ROOM + capacity],
            length: 0,
        }
    }

    pub fn capacity(&self) -> usize {
        self.buffer.len() - Self::ROOM
    }

    /// Fills it by one call of `read`, with at most `limit` bytes; the number of bytes read.
    pub fn fill(
        &mut self,
        limit: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let end = Self::ROOM + limit.min(self.capacity());
        self.length = 0;
        self.length = read(&mut self.buffer[Self::ROOM..end])?.min(limit);
        Ok(self.length)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.buffer[Self::ROOM..Self::ROOM + self.length]
    }

    fn seal(&mut self, kind: Kind, id: u32) -> &[u8] {
        let header = frame::header(kind, frame::ID + self.length);
        self.buffer[..frame::HEADER].copy_from_slice(&header);
        self.buffer[frame::HEADER..Self::ROOM].copy_from_slice(&id.to_be_bytes());
        &self.buffer[..Self::ROOM + self.length]
    }
}

impl Input {
    pub fn receive(&mut self) -> io::Result<Arrival<'_>> {
        match self.receiver.read(&mut self.buffer) {
            Ok(0) if !self.receiver.device() => Ok(Arrival::End),
            Ok(0) => Ok(self.nobody()),
            Ok(count) => Ok(Arrival::Bytes(self.buffer.get(..count).unwrap_or_default())),
            Err(error) => Err(error),
        }
    }

    #[allow(
        clippy::unused_self,
        reason = "reads as what it is: this input has nobody"
    )]
    fn nobody(&self) -> Arrival<'_> {
        std::thread::sleep(NOBODY_THERE);
        Arrival::Nobody
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_frame() {
        let bytes = encode(&Response::done(5));
        let body = br#"{"op":"done","id":5}"#;
        assert_eq!(&bytes[..8], frame::header(Kind::Json, body.len()));
        assert_eq!(&bytes[8..], body);
    }

    #[test]
    fn raw_bytes_get_header_and_id() {
        let mut raw = Raw::new(10);
        let read = |room: &mut [u8]| {
            room.copy_from_slice(b"seven");
            Ok(room.len())
        };
        assert_eq!(raw.fill(5, read).expect("fill"), 5);
        assert_eq!(raw.bytes(), b"seven");
        assert_eq!(
            raw.seal(Kind::Stderr, 258),
            b"\xA1\x55\x02\0\0\0\0\x09\0\0\x01\x02seven"
        );
    }

    #[test]
    fn a_limit_beyond_the_buffer_is_cut() {
        let mut raw = Raw::new(4);
        let count = raw.fill(100, |room| Ok(room.len())).expect("fill");
        assert_eq!(count, 4);
    }
}
