//! Messages in a stream of bytes: one after the other, [`LENGTH`] each, nothing in between. What is
//! no message ends the stream: there is no telling where the next one would begin.

use std::io::{self, ErrorKind, Read, Write};

use super::wire::{LENGTH, Message, START};

/// What has come of the next message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inbox {
    bytes: [u8; LENGTH],
    filled: usize,
}

impl Inbox {
    pub fn new() -> Self {
        Self {
            bytes: [0; LENGTH],
            filled: 0,
        }
    }

    /// Reads on, and not further than the end of this message, if it is there.
    ///
    /// # Errors
    /// `InvalidData` as soon as it cannot become a message, `UnexpectedEof` at the end.
    pub fn read(&mut self, from: &mut impl Read) -> io::Result<Option<&[u8; LENGTH]>> {
        self.filled %= LENGTH;
        while self.filled < LENGTH {
            match from.read(&mut self.bytes[self.filled..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(more) => self.filled += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let come = &self.bytes[..self.filled];
        let start = come
            .iter()
            .zip(&START)
            .all(|(byte, expected)| byte == expected);
        if !start || self.filled == LENGTH && Message::parse(come).is_err() {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok((self.filled == LENGTH).then_some(&self.bytes))
    }
}

/// What has not gone yet of the last message: never more than one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outbox {
    bytes: [u8; LENGTH],
    gone: usize,
}

impl Outbox {
    pub fn new() -> Self {
        Self {
            bytes: [0; LENGTH],
            gone: LENGTH,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.gone == LENGTH
    }

    /// Sends this as far as it goes, in place of what was in there.
    ///
    /// # Errors
    /// If nothing more can be sent.
    pub fn send(&mut self, bytes: &[u8; LENGTH], to: &mut impl Write) -> io::Result<()> {
        *self = Self {
            bytes: *bytes,
            gone: 0,
        };
        self.flush(to).map(|_| ())
    }

    /// Sends on. Whether all has gone.
    ///
    /// # Errors
    /// If nothing more can be sent.
    pub fn flush(&mut self, to: &mut impl Write) -> io::Result<bool> {
        while !self.is_empty() {
            match to.write(&self.bytes[self.gone..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(more) => self.gone += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(self.is_empty())
    }
}
