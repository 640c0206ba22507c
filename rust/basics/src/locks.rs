//! Locks: sysbench's `threads` and `mutex` (`tests/threads/sb_threads.c`, `tests/mutex/sb_mutex.c`).

use std::arch::asm;
use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use ullage_common::Failure;

use crate::events::{self, Done, Limit, Worker};
use crate::lock::Lock;
use crate::random::Random;

/// As many mutexes as were asked for.
fn some<T: Default>(count: u32, option: &str) -> Result<Vec<T>, Failure> {
    if count == 0 {
        return Err(Failure::input(format!("{option}: 0 is too few")));
    }
    Ok((0..count).map(|_| T::default()).collect())
}

struct Switches<'a> {
    mutexes: &'a [Lock],
    next: &'a AtomicU32,
    yields: u32,
}

impl Worker for Switches<'_> {
    type Request = usize;

    /// One mutex after the other, whoever asks.
    fn request(&mut self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed) as usize % self.mutexes.len()
    }

    fn event(&mut self, request: usize) -> u64 {
        let mutex = &self.mutexes[request];
        for _ in 0..self.yields {
            mutex.hold(thread::yield_now);
        }
        u64::from(self.yields)
    }
}

/// Per event a mutex is taken and given back so many times, with a yield in between.
pub fn threads(yields: u32, locks: u32, threads: u32, limit: Limit) -> Result<Done, Failure> {
    let mutexes = some(locks, "--locks")?;
    let next = AtomicU32::new(0);
    Ok(events::run(threads, limit, |_| Switches {
        mutexes: &mutexes,
        next: &next,
        yields,
    }))
}

/// Far from its neighbours, as there.
#[repr(C)]
struct Padded {
    mutex: Lock,
    _pad: [u8; 256],
}

impl Default for Padded {
    fn default() -> Self {
        Self {
            mutex: Lock::default(),
            _pad: [0; 256],
        }
    }
}

struct Takes<'a> {
    mutexes: &'a [Padded],
    /// What each of them guards; they are many, so it is no sum.
    global: &'a AtomicU32,
    locks: u32,
    loops: Cell<u32>,
    random: Random,
}

impl Worker for Takes<'_> {
    type Request = ();

    fn request(&mut self) {}

    fn event(&mut self, (): ()) -> u64 {
        for _ in 0..self.locks {
            let number = self.random.below(self.mutexes.len() as u64);
            idle(black_box(&self.loops));
            let mutex = &self.mutexes[usize::try_from(number).unwrap_or(0)].mutex;
            mutex.hold(|| {
                let before = self.global.load(Ordering::Relaxed);
                self.global.store(before.wrapping_add(1), Ordering::Relaxed);
            });
        }
        u64::from(self.locks)
    }
}

/// All of one thread: empty loops, then a lock, so many times.
pub fn mutex(
    [mutexes, locks, loops]: [u32; 3],
    seed: u64,
    threads: u32,
    limit: Limit,
) -> Result<Done, Failure> {
    let mutexes = some(mutexes, "--mutexes")?;
    let global = AtomicU32::new(0);
    Ok(events::run(threads, limit.in_parts(), |number| Takes {
        mutexes: &mutexes,
        global: &global,
        locks,
        loops: loops.into(),
        random: Random::new(seed, number),
    }))
}

/// A loop that does nothing, and is there all the same: an empty instruction may change all memory, as far as
/// the compiler knows, so that the loop's length is read again each time, as in sysbench.
#[inline(never)]
fn idle(loops: &Cell<u32>) {
    let mut turn = 0;
    while turn < loops.get() {
        // SAFETY: it is empty.
        unsafe { asm!("", options(nostack, preserves_flags)) };
        turn += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_is_taken() {
        let done = threads(10, 3, 4, Limit::Events(20)).expect("done");
        assert_eq!((done.events, done.result), (20, 200));
        let done = mutex([16, 100, 5], 1, 4, Limit::Events(4)).expect("done");
        assert_eq!((done.events, done.result), (4, 400));
        assert!(threads(1, 0, 1, Limit::Events(1)).is_err());
    }
}
