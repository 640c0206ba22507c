//! A stream of bytes over TCP, through this system's own network stack and back: each thread sends
//! blocks to a receiver of its own at 127.0.0.1, who holds every byte against what it must be and at
//! the end says how many there were and their sum, which the sender holds against its own. The last
//! byte has arrived, and is acknowledged so, before the time ends.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use ullage_common::Failure;

use crate::events::{self, Done, Limit, Worker};
use crate::random::Random;

/// A gibibyte: more is no block.
const MOST: usize = 1 << 30;
/// What a receiver says at the end: bytes, and their sum.
const REPORT: usize = 16;

/// Of bytes that have passed.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    bytes: u64,
    sum: u64,
}

impl Count {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.sum = self.sum.wrapping_add(sum(bytes));
    }

    fn pack(self) -> [u8; REPORT] {
        let mut packed = [0; REPORT];
        packed[..8].copy_from_slice(&self.bytes.to_le_bytes());
        packed[8..].copy_from_slice(&self.sum.to_le_bytes());
        packed
    }
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte)).sum()
}

struct Sender<'a> {
    connection: TcpStream,
    pattern: &'a [u8],
    /// Of one block.
    sum: u64,
    sent: Count,
    failure: &'a Mutex<Option<String>>,
}

impl Sender<'_> {
    fn fail(&self, reason: &impl ToString) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert_with(|| reason.to_string());
    }

    /// The receiver's report, once all has arrived.
    fn close(&mut self) -> io::Result<bool> {
        self.connection.shutdown(Shutdown::Write)?;
        let mut report = [0; REPORT];
        self.connection.read_exact(&mut report)?;
        Ok(report == self.sent.pack())
    }
}

impl Worker for Sender<'_> {
    type Request = ();

    fn request(&mut self) {}

    fn event(&mut self, (): ()) -> u64 {
        if let Err(error) = self.connection.write_all(self.pattern) {
            self.fail(&error);
            return 0;
        }
        self.sent.bytes += self.pattern.len() as u64;
        self.sent.sum = self.sent.sum.wrapping_add(self.sum);
        self.pattern.len() as u64
    }

    fn end(&mut self) {
        match self.close() {
            Ok(true) => {}
            Ok(false) => self.fail(&"what arrived is not what was sent"),
            Err(error) => self.fail(&error),
        }
    }
}

/// Takes all that comes, and says how much of it was right: nothing after the first wrong byte.
fn receive(mut connection: TcpStream, pattern: &[u8]) -> io::Result<u64> {
    let (mut buffer, mut count, mut place) = (vec![0; pattern.len()], Count::default(), 0);
    loop {
        let room = buffer.len() - place;
        let length = connection.read(&mut buffer[..room])?;
        if length == 0 {
            break;
        }
        let came = &buffer[..length];
        if came != &pattern[place..place + length] {
            break;
        }
        count.add(came);
        place = (place + length) % pattern.len();
    }
    connection.write_all(&count.pack())?;
    Ok(count.bytes)
}

/// Both ends of a connection that nobody else can have made.
fn connect(listener: &TcpListener) -> io::Result<(TcpStream, TcpStream)> {
    let near = TcpStream::connect(listener.local_addr()?)?;
    loop {
        let (far, peer) = listener.accept()?;
        if peer == near.local_addr()? {
            return Ok((near, far));
        }
    }
}

pub fn run(block: usize, seed: u64, threads: u32, limit: Limit) -> Result<Done, Failure> {
    if !(1..=MOST).contains(&block) {
        let message = format!("--block: {block} is no number of bytes from 1 to {MOST}");
        return Err(Failure::input(message));
    }
    let failed = |error| Failure::new("stream", error);
    let mut random = Random::new(seed, 0);
    let pattern: Vec<u8> = (0..block).map(|_| random.bits().to_le_bytes()[7]).collect();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let pairs: io::Result<Vec<_>> = (0..threads).map(|_| connect(&listener)).collect();
    let (near, far): (Vec<_>, Vec<_>) = pairs.map_err(failed)?.into_iter().unzip();
    let near = Mutex::new(near);
    let (failure, received) = (Mutex::new(None), AtomicU64::new(0));
    let (pattern, received) = (pattern.as_slice(), &received);
    let done = thread::scope(|scope| {
        for connection in far {
            scope.spawn(move || {
                let bytes = receive(connection, pattern).unwrap_or(0);
                received.fetch_add(bytes, Ordering::Relaxed);
            });
        }
        events::run(threads, limit, |_| Sender {
            connection: near
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop()
                .expect("one for each thread"),
            pattern,
            sum: sum(pattern),
            sent: Count::default(),
            failure: &failure,
        })
    });
    let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    match failure {
        Some(reason) => Err(Failure::new("stream", reason)),
        None => Ok(Done {
            // By those who had them in their hands.
            result: received.load(Ordering::Relaxed),
            ..done
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives() {
        for (block, threads) in [(1, 1), (1000, 3), (1 << 20, 2)] {
            let done = run(block, 1, threads, Limit::Events(50)).expect("a stream");
            assert_eq!((done.events, done.result), (50, 50 * block as u64));
            assert!(done.seconds > 0.0);
        }
        assert!(run(0, 1, 1, Limit::Events(1)).is_err());
    }

    #[test]
    fn a_wrong_byte_is_not_counted() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listen");
        let (mut near, far) = connect(&listener).expect("connect");
        let receiver = thread::spawn(move || receive(far, &[1, 2, 3, 4]));
        near.write_all(&[1, 2, 3, 4, 1, 2, 9]).expect("send");
        near.shutdown(Shutdown::Write).expect("shut down");
        let mut report = [0; REPORT];
        near.read_exact(&mut report).expect("a report");
        let counted = receiver.join().expect("no panic").expect("a count");
        assert!(counted < 7, "{counted}");
        assert_ne!(report, Count { bytes: 7, sum: 22 }.pack());
    }
}
