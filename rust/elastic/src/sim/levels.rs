//! A number over time: its area, its square's, and its peak.

use serde::{Deserialize, Serialize};

/// A number over a length of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Level {
    pub mean: f64,
    /// Over time, not over events.
    pub variance: f64,
    pub most: u64,
}

/// A number that changes now and then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Series {
    value: u64,
    since: u64,
    /// Until `since`.
    pub(super) sum: Sum,
    /// The most since it was looked at last.
    recent: u64,
    /// Peaks of the step, the steady part and the whole, until then.
    step: u64,
    pub(super) steady: u64,
    pub(super) whole: u64,
}

/// A value × time, and its square × time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) area: u128,
    squares: u128,
}

impl Series {
    #[inline]
    pub(super) fn settle(&mut self, at: u64) {
        let ns = u128::from(at - self.since);
        self.sum.area += u128::from(self.value) * ns;
        // Viewers and nodes are fewer than 2^32: their numbers have 32 bits.
        self.sum.squares += u128::from(self.value * self.value) * ns;
        self.since = at;
    }

    #[inline]
    pub(super) fn set(&mut self, at: u64, value: u64) {
        if value != self.value {
            self.settle(at);
            self.value = value;
            self.recent = self.recent.max(value);
        }
    }

    /// Settles, and adds the latest peak to the three.
    pub(super) fn look(&mut self, at: u64) {
        self.settle(at);
        for most in [&mut self.step, &mut self.steady, &mut self.whole] {
            *most = self.recent.max(*most);
        }
        self.recent = self.value;
    }

    /// What was before does not count for the steady part.
    pub(super) fn begin_steady(&mut self) {
        self.steady = self.value;
    }

    /// The peak of the step that ends; the next one begins.
    pub(super) fn end_step(&mut self) -> u64 {
        std::mem::replace(&mut self.step, self.value)
    }
}

impl Sum {
    /// The level of what has been added since `before`.
    pub(super) fn level(self, before: Self, ns: u64, most: u64) -> Level {
        let mean = ratio(self.area - before.area, ns);
        let square = ratio(self.squares - before.squares, ns);
        Level {
            mean,
            variance: (square - mean * mean).max(0.0),
            most,
        }
    }
}

/// An area by its length; 0 for none.
#[expect(clippy::cast_precision_loss, reason = "a mean of 53 bits will do")]
pub(super) fn ratio(area: u128, ns: u64) -> f64 {
    if ns == 0 {
        0.0
    } else {
        area as f64 / ns as f64
    }
}
