//! Whether two curves move the same way: each now, beside itself a while ago.

use std::collections::VecDeque;

/// Keeps what the curves were within the window, and nothing older.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) ns: u64,
    /// Changes later than a window ago, each with its instant.
    corners: VecDeque<(u64, [u64; 2])>,
    /// What they were a window ago.
    then: [u64; 2],
}

impl Window {
    pub(super) fn new(ns: u64) -> Self {
        Self {
            ns: ns.max(1),
            corners: VecDeque::new(),
            then: [0; 2],
        }
    }

    /// The curves were so from `from` until `to`: in how many nanoseconds of that they had not moved
    /// the same way. The first window of all does not count: nothing is known before it.
    pub(super) fn pass(&mut self, from: u64, to: u64, now: [u64; 2]) -> u64 {
        self.corners.push_back((from, now));
        let mut at = from.max(self.ns);
        let mut apart = 0;
        while at < to {
            while let Some((begun, were)) = self.corners.front().copied() {
                if begun + self.ns > at {
                    break;
                }
                self.then = were;
                self.corners.pop_front();
            }
            let next = self.corners.front();
            let until = next.map_or(to, |(begun, _)| to.min(begun + self.ns));
            if now[0].cmp(&self.then[0]) != now[1].cmp(&self.then[1]) {
                apart += until - at;
            }
            at = until;
        }
        apart
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_apart_does_so_until_the_window_is_past() {
        let mut window = Window::new(10);
        assert_eq!(window.pass(0, 5, [1, 1]), 0);
        // Beside 0 to 5 in 10 to 15: both more. Beside 5 to 15: the same.
        assert_eq!(window.pass(5, 20, [2, 3]), 0);
        // The first stays, the second falls: apart until 30, when both have long been so.
        assert_eq!(window.pass(20, 40, [2, 1]), 10);
        assert!(window.corners.is_empty());
        // The first falls, the second rises; then the first falls, the second stays.
        assert_eq!(window.pass(40, 44, [1, 2]), 4);
        assert_eq!(window.pass(44, 60, [1, 1]), 6 + 4);
    }

    #[test]
    fn only_the_window_is_kept() {
        let mut window = Window::new(10);
        for at in 0..1_000 {
            window.pass(at, at + 1, [at, 1_000 - at]);
        }
        assert!(window.corners.len() <= 10);
    }
}
