//! Locks: sysbench's `threads` and `mutex` (`tests/threads/sb_threads.c`, `tests/mutex/sb_mutex.c`).

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::thread;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use ullage_common::Failure;

use crate::events::{self, Done, Limit};

/// A choice of as many as there are.
pub struct Choice {
    random: Xoshiro256PlusPlus,
    count: u64,
}

impl Choice {
    /// Each thread has its own.
    pub fn new(seed: u64, thread: u32, count: u64) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed ^ u64::from(thread) << 32);
        Self { random, count }
    }

    pub fn next(&mut self) -> u64 {
        self.random.next_u64() % self.count
    }
}

fn some(count: u32, option: &str) -> Result<Vec<Mutex<u64>>, Failure> {
    if count == 0 {
        return Err(Failure::input(format!("{option}: 0 is too few")));
    }
    Ok((0..count).map(|_| Mutex::new(0)).collect())
}

fn choose<'a>(mutexes: &'a [Mutex<u64>], choice: &mut Choice) -> &'a Mutex<u64> {
    let number = usize::try_from(choice.next()).unwrap_or(0);
    &mutexes[number % mutexes.len()]
}

/// Per event one mutex is chosen, and taken and given back so many times, with a yield in between.
pub fn threads(
    yields: u32,
    locks: u32,
    seed: u64,
    threads: u32,
    limit: Limit,
) -> Result<Done, Failure> {
    let mutexes = some(locks, "--locks")?;
    let mutexes = mutexes.as_slice();
    Ok(events::run(threads, limit, |number| {
        let mut choice = Choice::new(seed, number, locks.into());
        move || {
            let mutex = choose(mutexes, &mut choice);
            for _ in 0..yields {
                let mut held = mutex.lock().unwrap_or_else(PoisonError::into_inner);
                thread::yield_now();
                *held += 1;
            }
            u64::from(yields)
        }
    }))
}

/// All of one thread: empty loops, then a lock, so many times.
pub fn mutex(
    [mutexes, locks, loops]: [u32; 3],
    seed: u64,
    threads: u32,
    limit: Limit,
) -> Result<Done, Failure> {
    let all = some(mutexes, "--mutexes")?;
    let all = all.as_slice();
    Ok(events::run(threads, limit, |number| {
        let mut choice = Choice::new(seed, number, mutexes.into());
        move || {
            for _ in 0..locks {
                idle(loops);
                let mutex = choose(all, &mut choice);
                *mutex.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            }
            u64::from(locks)
        }
    }))
}

/// A loop that does nothing, and is there all the same.
fn idle(loops: u32) {
    for _ in 0..black_box(loops) {
        black_box(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_is_taken() {
        let done = threads(10, 3, 1, 4, Limit::events(20)).expect("done");
        assert_eq!((done.events, done.result), (20, 200));
        let done = mutex([16, 100, 5], 1, 4, Limit::events(4)).expect("done");
        assert_eq!((done.events, done.result), (4, 400));
        assert!(threads(1, 0, 1, 1, Limit::events(1)).is_err());
    }

    #[test]
    fn choices_are_the_seeds_and_the_threads() {
        let some = |seed, thread| Choice::new(seed, thread, 1000).next();
        assert_eq!(some(1, 0), some(1, 0));
        assert!(some(1, 0) != some(2, 0) || some(1, 1) != some(1, 0));
    }
}
