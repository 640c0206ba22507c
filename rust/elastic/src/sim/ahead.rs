//! The next viewers, drawn many at a time: that is quicker than one by one.

use super::time::Draw;
use crate::Schedule;

const MANY: usize = 256;
/// When a viewer comes that does not come.
pub(super) const NEVER: u64 = u64::MAX;

/// Viewers to come: when the next one does, and how long it will watch.
#[derive(Debug)]
pub(super) struct Ahead {
    pub(super) arrival: u64,
    pub(super) watch: u64,
    schedule: Schedule,
    watching: Draw,
    arrivals: [u64; MANY],
    watches: [u64; MANY],
    next: usize,
}

impl Ahead {
    /// At the first one.
    pub(super) fn new(schedule: Schedule, watching: Draw) -> Self {
        let mut new = Self {
            arrival: NEVER,
            watch: 0,
            schedule,
            watching,
            arrivals: [NEVER; MANY],
            watches: [0; MANY],
            next: MANY,
        };
        new.advance();
        new
    }

    /// Goes on to the one after this.
    #[inline]
    pub(super) fn advance(&mut self) {
        if self.next == MANY {
            self.draw();
        }
        self.arrival = self.arrivals[self.next];
        self.watch = self.watches[self.next];
        self.next += 1;
    }

    #[inline(never)]
    fn draw(&mut self) {
        self.next = 0;
        self.schedule.fill(&mut self.arrivals);
        self.watching.fill(&mut self.watches);
    }
}
