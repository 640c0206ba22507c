//! Words that are read while they are replaced.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A sequence lock (Linux, Documentation/locking/seqlock.rst) over N words. Whoever writes is to be
/// alone: see [`Seqlock::store`].
#[derive(Debug)]
pub(super) struct Seqlock<const N: usize> {
    /// Odd while the words are being replaced.
    number: AtomicU32,
    words: [AtomicU64; N],
}

impl<const N: usize> Seqlock<N> {
    pub const fn new() -> Self {
        Self {
            number: AtomicU32::new(0),
            words: [const { AtomicU64::new(0) }; N],
        }
    }

    /// All of one writing.
    #[inline]
    pub fn load(&self) -> [u64; N] {
        loop {
            let before = self.number.load(Ordering::Acquire);
            let words = core::array::from_fn(|at| self.words[at].load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.number.load(Ordering::Relaxed) == before {
                return words;
            }
            core::hint::spin_loop();
        }
    }

    /// Replaces them. Two at a time would mix: the caller holds a lock.
    pub fn store(&self, words: &[u64; N]) {
        let number = self.number.load(Ordering::Relaxed);
        self.number.store(number.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        for (place, word) in self.words.iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
        self.number.store(number.wrapping_add(2), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_sees_half_of_it() {
        let lock = Seqlock::<9>::new();
        std::thread::scope(|scope| {
            scope.spawn(|| (1..20_000).for_each(|number| lock.store(&[number; 9])));
            while lock.load()[0] < 19_999 {
                let words = lock.load();
                assert!(words.iter().all(|word| *word == words[0]), "{words:?}");
            }
        });
    }
}
