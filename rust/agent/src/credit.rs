//! Credit: how many bytes of output may still be sent. Whoever wants to send waits here, and so
//! does, by way of its full pipe, the program whose output nobody takes.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::frame;

/// What both sides start with.
pub const INITIAL: u64 = 1 << 20;
/// Less than an id and one byte is of no use.
const LEAST: u64 = frame::ID as u64 + 1;

pub struct Credit {
    left: Mutex<u64>,
    more: Condvar,
}

impl Default for Credit {
    fn default() -> Self {
        Self {
            left: Mutex::new(INITIAL),
            more: Condvar::new(),
        }
    }
}

impl Credit {
    /// Takes at most `wanted` (at least enough for one byte behind an id), waiting until there is
    /// some.
    pub fn take(&self, most: u64) -> u64 {
        let left = self.lock();
        let enough = self.more.wait_while(left, |left| *left < LEAST);
        let mut left = enough.unwrap_or_else(PoisonError::into_inner);
        let taken = most.max(LEAST).min(*left);
        *left -= taken;
        taken
    }

    /// Puts back what was taken but not sent.
    pub fn put_back(&self, bytes: u64) {
        let mut left = self.lock();
        *left = left.saturating_add(bytes);
        self.more.notify_all();
    }

    /// The controller gives `bytes`; false when that is more than it was ever sent, and then all is
    /// given.
    pub fn give(&self, bytes: u64) -> bool {
        let mut left = self.lock();
        let sum = left.saturating_add(bytes);
        *left = sum.min(INITIAL);
        self.more.notify_all();
        sum <= INITIAL
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn takes_what_there_is() {
        let credit = Credit::default();
        assert_eq!(credit.take(INITIAL - 10), INITIAL - 10);
        assert_eq!(credit.take(100), 10);
        credit.put_back(7);
        assert_eq!(credit.take(1), LEAST);
    }

    #[test]
    fn waits_for_more() {
        let credit = Arc::new(Credit::default());
        credit.take(INITIAL);
        let other = Arc::clone(&credit);
        let waiter = std::thread::spawn(move || other.take(100));
        assert!(credit.give(LEAST - 1));
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!waiter.is_finished());
        assert!(credit.give(50));
        assert_eq!(waiter.join().expect("join"), 50 + LEAST - 1);
    }

    #[test]
    fn too_much_is_noticed_and_capped() {
        let credit = Credit::default();
        assert!(!credit.give(u64::MAX));
        assert_eq!(credit.take(u64::MAX), INITIAL);
    }
}
