//! One connection: what has come, what is to go.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use ullage_elastic::ClientId;

use crate::http::{self, MOST_BODY, MOST_HEAD, Parsed};
use crate::token::Token;

/// Bytes that are read at once, and kept of a client that sends ahead of its answers.
const PART: usize = MOST_HEAD + MOST_BODY;

/// Where bytes are read to, one connection after the other.
pub type Part = [u8; PART];

pub fn part() -> Box<Part> {
    Box::new([0; PART])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A request may come.
    Reading,
    /// One has come, and is not answered yet.
    Answering,
    /// An answer is on its way, and the client takes its time.
    Writing,
    /// The last answer is sent; what still comes is thrown away, so that it does not undo that.
    Lingering,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is with the kernel, and the connection can be used again.
    Done,
    /// Not yet all of it.
    Partly,
    /// It is with the kernel, and was the last.
    Close,
    /// It could not be sent.
    Failed,
}

// Five things that are so or not, each apart from the others.
#[allow(clippy::struct_excessive_bools)]
pub struct Connection {
    stream: TcpStream,
    pub token: Token,
    pub state: State,
    /// Who asks, where it is a viewer.
    pub client: Option<ClientId>,
    /// Since when, by the front's clock, it has been idle, or has had a part of a request.
    pub since: u64,
    /// It came beyond the limit of connections: its first answer is its last.
    pub beyond: bool,
    /// It is registered with epoll.
    pub watched: bool,
    /// The client sends no more.
    pub ended: bool,
    /// There may be something to read.
    readable: bool,
    keep: bool,
    buffers: Buffers,
    sent: usize,
}

/// What a connection leaves to the next.
#[derive(Default)]
pub struct Buffers {
    input: Vec<u8>,
    pub output: Vec<u8>,
}

impl Connection {
    pub fn new(stream: TcpStream, token: Token, now: u64, beyond: bool, buffers: Buffers) -> Self {
        Self {
            stream,
            token,
            state: State::Reading,
            client: None,
            since: now,
            beyond,
            watched: false,
            ended: false,
            readable: true,
            keep: true,
            buffers,
            sent: 0,
        }
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub fn end(self) -> Buffers {
        let mut buffers = self.buffers;
        for buffer in [&mut buffers.input, &mut buffers.output] {
            buffer.clear();
            buffer.shrink_to(PART);
        }
        buffers
    }

    /// It may have something to read again.
    pub fn readable(&mut self) {
        self.readable = true;
    }

    /// Part of a request has come.
    pub fn begun(&self) -> bool {
        !self.buffers.input.is_empty()
    }

    /// The next request, as far as it has come. `Err`: the connection is to be closed.
    pub fn next(&mut self, now: u64, part: &mut Part) -> io::Result<Option<Parsed>> {
        loop {
            if self.begun() {
                match http::parse(&self.buffers.input) {
                    Parsed::Partial => {}
                    whole => return Ok(Some(self.accept(whole))),
                }
            }
            if !self.readable {
                return Ok(None);
            }
            if !self.begun() {
                self.since = now;
            }
            self.read(part)?;
        }
    }

    fn accept(&mut self, parsed: Parsed) -> Parsed {
        self.state = State::Answering;
        match parsed {
            Parsed::Whole { length, keep, .. } => {
                self.keep = keep && !self.beyond;
                self.buffers.input.drain(..length);
            }
            _ => self.keep = false,
        }
        parsed
    }

    /// Once, and no more than a request may have.
    fn read(&mut self, part: &mut Part) -> io::Result<()> {
        let room = PART - self.buffers.input.len().min(PART - 1);
        match self.stream.read(&mut part[..room]) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(length) => {
                // Fewer than there was room for: there were no more.
                self.readable = length == room || self.ended;
                self.buffers.input.extend_from_slice(&part[..length]);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The answer to what was asked, as `write` puts it; it is told whether the connection is kept.
    pub fn answer(&mut self, write: impl FnOnce(&mut Vec<u8>, bool)) -> Sent {
        self.sent = 0;
        self.buffers.output.clear();
        write(&mut self.buffers.output, self.keep);
        self.send()
    }

    /// Sends what is left of the answer.
    pub fn send(&mut self) -> Sent {
        self.state = State::Writing;
        while self.sent < self.buffers.output.len() {
            match self.stream.write(&self.buffers.output[self.sent..]) {
                Ok(0) => return Sent::Failed,
                Ok(length) => self.sent += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Sent::Partly,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Sent::Failed,
            }
        }
        if self.keep {
            self.state = State::Reading;
            Sent::Done
        } else {
            Sent::Close
        }
    }

    /// No more requests are taken after the one that is being answered.
    pub fn last(&mut self) {
        self.keep = false;
    }

    /// Something has come that was not read, or may come: closed now, the kernel would reset the
    /// connection, and the answer with it.
    pub fn unread(&self) -> bool {
        self.readable || self.begun()
    }

    /// Says that nothing follows, and throws away what comes.
    pub fn linger(&mut self, now: u64) {
        self.state = State::Lingering;
        self.since = now;
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        self.readable = true;
    }

    /// Throws away what has come; true when there is nothing to wait for.
    pub fn discard(&mut self, part: &mut Part) -> bool {
        // So many at a time: others are waiting.
        for _ in 0..16 {
            match self.stream.read(part) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return true,
            }
        }
        true
    }
}
