//! Messages in memory that two threads look at.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Thread};

use ullage_clock::rgap::{Channel, LENGTH, Server, Standing};

const WORDS: usize = LENGTH / 8;
/// The server sleeps after so many looks in vain, until somebody asks again.
const LOOKS: u32 = 20_000;
/// Looks in a row are not further apart than this, in nanoseconds, or somebody had the core.
const AWAKE_NS: u64 = 5_000;

/// One way: the last message, and how many there were.
///
/// Who has waited in vain sends the next before the other has read the last: a message that changes
/// while it is read is not taken.
#[derive(Debug, Default)]
struct Slot {
    /// Twice how many there were; odd while one is written.
    number: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl Slot {
    /// Only one thread writes.
    fn put(&self, bytes: &[u8; LENGTH]) {
        let number = self.number.load(Ordering::Relaxed);
        self.number.store(number + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for (place, word) in self.words.iter().zip(bytes.chunks_exact(8)) {
            let word = word.try_into().map_or(0, u64::from_ne_bytes);
            place.store(word, Ordering::Relaxed);
        }
        self.number.store(number + 2, Ordering::Release);
    }

    /// The message after that of `last`, whole; none while it changes.
    fn take(&self, last: &mut u64) -> Option<[u8; LENGTH]> {
        let number = self.number.load(Ordering::Acquire);
        if number == *last || number % 2 == 1 {
            return None;
        }
        let mut bytes = [0; LENGTH];
        for (place, word) in bytes.chunks_exact_mut(8).zip(&self.words) {
            place.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        fence(Ordering::Acquire);
        if self.number.load(Ordering::Relaxed) != number {
            return None;
        }
        *last = number;
        Some(bytes)
    }
}

/// Both ways.
#[derive(Debug, Default)]
pub(super) struct Memory {
    there: Slot,
    back: Slot,
    server: Mutex<Option<Thread>>,
    asleep: AtomicBool,
}

impl Memory {
    /// Answers with this clock until told to stop.
    pub fn serve(
        &self,
        server: &mut Server,
        clock: impl Fn() -> (u64, Standing),
        stop: &AtomicBool,
    ) {
        *self.server() = Some(thread::current());
        let (mut last, mut empty_ns, mut vain) = (0, 0, 0_u32);
        while !stop.load(Ordering::Relaxed) {
            let request = self.there.take(&mut last);
            let (t2, _) = clock();
            let Some(pending) = request.and_then(|bytes| server.receive(&bytes, t2)) else {
                vain += 1;
                empty_ns = t2;
                if vain > LOOKS {
                    // Once more after this is said, so that nobody is missed.
                    if self.asleep.swap(true, Ordering::SeqCst) {
                        thread::park();
                        (vain, empty_ns) = (0, 0);
                        self.asleep.store(false, Ordering::SeqCst);
                    }
                }
                continue;
            };
            if vain > LOOKS {
                self.asleep.store(false, Ordering::SeqCst);
            }
            vain = 0;
            let (t3, standing) = clock();
            let awake = t2.saturating_sub(empty_ns) <= AWAKE_NS;
            self.back
                .put(&pending.answer(t3, Standing { awake, ..standing }));
        }
    }

    pub fn wake(&self) {
        if let Some(server) = &*self.server() {
            server.unpark();
        }
    }

    fn server(&self) -> std::sync::MutexGuard<'_, Option<Thread>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For one synchronisation: what came before is not its business.
    pub fn ask(&self) -> Asking<'_> {
        Asking {
            memory: self,
            last: self.back.number.load(Ordering::Acquire),
            buffer: [0; LENGTH],
        }
    }
}

#[derive(Debug)]
pub(super) struct Asking<'a> {
    memory: &'a Memory,
    last: u64,
    buffer: [u8; LENGTH],
}

impl Channel for Asking<'_> {
    fn send(&mut self, bytes: &[u8; LENGTH]) -> io::Result<()> {
        self.memory.there.put(bytes);
        if self.memory.asleep.load(Ordering::SeqCst) {
            self.memory.wake();
        }
        Ok(())
    }

    fn look(&mut self) -> io::Result<Option<&[u8]>> {
        let Some(bytes) = self.memory.back.take(&mut self.last) else {
            return Ok(None);
        };
        self.buffer = bytes;
        Ok(Some(&self.buffer))
    }

    fn wait(&mut self, _: u64) -> io::Result<()> {
        thread::yield_now();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_changes_while_it_is_read_is_not_taken() {
        let (slot, over) = (Slot::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..500_000_u32 {
                    let mut bytes = [0; LENGTH];
                    for word in bytes.chunks_exact_mut(8) {
                        word.copy_from_slice(&u64::from(number).to_ne_bytes());
                    }
                    slot.put(&bytes);
                }
                over.store(true, Ordering::Relaxed);
            });
            let mut last = 0;
            while !over.load(Ordering::Relaxed) {
                if let Some(bytes) = slot.take(&mut last) {
                    assert!(
                        bytes.chunks_exact(8).all(|word| word == &bytes[..8]),
                        "{bytes:?}"
                    );
                }
            }
            assert!(last > 0);
        });
    }
}
