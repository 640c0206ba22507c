//! The events to come, of all kinds, in the order of their times.

use std::collections::VecDeque;

use super::ladder::{Entry, Ladder, entry, parts};

/// What happens. Of the same time, in this order: who goes makes room for who waits, and a viewer
/// that is served in the last instant of its patience is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Kind {
    /// A viewer has seen enough.
    Finished,
    Released,
    Ready,
    /// An attempt to allocate a node ended in an error, or was given up.
    Failed,
    Again,
    /// A node that could stream is dead.
    Died,
    /// A viewer that lost its node asks anew.
    Back,
    /// A viewer's patience is at its end.
    TimedOut,
}

const KINDS: [Kind; 8] = [
    Kind::Finished,
    Kind::Released,
    Kind::Ready,
    Kind::Failed,
    Kind::Again,
    Kind::Died,
    Kind::Back,
    Kind::TimedOut,
];

/// Bits of an entry's number that are not its kind.
const BITS: u32 = 61;

/// An event with the number of whom it concerns, below 2^61.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) at: u64,
    pub(super) kind: Kind,
    pub(super) whom: u64,
}

/// Events in the order of their times. Where each viewer watches as long as the others, the ends come
/// in the order of the beginnings, and a plain row does; so with patience. Whatever is out of order
/// goes into the ladder.
pub(super) struct Queue {
    ladder: Ladder,
    finished: Row,
    timed_out: Row,
    /// The first of the two rows.
    first: Entry,
}

/// What comes in the order of its times.
struct Row {
    all: VecDeque<Entry>,
    first: Entry,
    last: Entry,
}

impl Row {
    const EMPTY: Self = Self {
        all: VecDeque::new(),
        first: NONE,
        last: 0,
    };

    #[inline]
    fn push(&mut self, new: Entry) {
        self.first = self.first.min(new);
        self.last = new;
        self.all.push_back(new);
    }

    #[inline]
    fn pop(&mut self) {
        self.all.pop_front();
        self.first = self.all.front().copied().unwrap_or(NONE);
    }
}

/// Later than anything.
const NONE: Entry = Entry::MAX;

impl Queue {
    pub(super) fn new() -> Self {
        Self {
            ladder: Ladder::default(),
            finished: Row::EMPTY,
            timed_out: Row::EMPTY,
            first: NONE,
        }
    }

    #[inline]
    pub(super) fn push(&mut self, due: Due) {
        let new = entry(due.at, (due.kind as u64) << BITS | due.whom);
        let row = match due.kind {
            Kind::Finished => &mut self.finished,
            Kind::TimedOut => &mut self.timed_out,
            _ => return self.ladder.push(new),
        };
        if row.last <= new {
            row.push(new);
            self.first = self.first.min(new);
        } else {
            self.ladder.push(new);
        }
    }

    /// Takes the next event if it is due until then.
    #[inline]
    pub(super) fn pop_until(&mut self, latest: u64) -> Option<Due> {
        let ladder = self.ladder.peek().unwrap_or(NONE);
        let first = ladder.min(self.first);
        let (at, event) = parts(first);
        if at > latest || first == NONE {
            return None;
        }
        if ladder < self.first {
            self.ladder.pop();
        } else {
            self.pop_row();
        }
        let kind = KINDS[(event >> BITS) as usize];
        let whom = event & ((1 << BITS) - 1);
        Some(Due { at, kind, whom })
    }

    fn pop_row(&mut self) {
        if self.finished.first == self.first {
            self.finished.pop();
        } else {
            self.timed_out.pop();
        }
        self.first = self.finished.first.min(self.timed_out.first);
    }
}
