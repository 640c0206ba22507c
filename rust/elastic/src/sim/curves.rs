//! Curves of a bounded number of points, however long the run.

use serde::{Deserialize, Serialize};

use super::levels::ratio;
use crate::units::seconds;

/// How many series there are: see [`Curves`].
pub(super) const SERIES: usize = 6;
pub(super) const WATCHING: usize = 0;
pub(super) const WAITING: usize = 1;
pub(super) const COMING: usize = 2;
pub(super) const READY: usize = 3;
pub(super) const LEAVING: usize = 4;
pub(super) const NODES: usize = 5;

/// The first steps are of a millisecond; they double.
const FIRST_NS: u64 = 1_000_000;

/// Mean and peak of each in steps of equal length, the last one cut off by the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curves {
    pub step_s: f64,
    pub watching: Vec<f64>,
    pub watching_most: Vec<u64>,
    pub waiting: Vec<f64>,
    pub waiting_most: Vec<u64>,
    pub coming: Vec<f64>,
    pub ready: Vec<f64>,
    pub leaving: Vec<f64>,
    /// Coming, ready and leaving.
    pub nodes_most: Vec<u64>,
}

/// Area and peak of each series in a step.
pub(super) type Step = [(u128, u64); SERIES];

/// Steps so far. When there are too many, each two become one.
#[derive(Debug)]
pub(super) struct Steps {
    all: Vec<Step>,
    /// Even, so that steps can be joined in pairs.
    most: usize,
    width: u64,
}

impl Steps {
    pub(super) fn new(points: u32) -> Self {
        Self {
            all: Vec::new(),
            most: (points as usize).next_multiple_of(2),
            width: FIRST_NS,
        }
    }

    /// Where the current step ends.
    pub(super) fn end(&self) -> u64 {
        self.width.saturating_mul(self.all.len() as u64 + 1)
    }

    /// The current step has ended; another one begins.
    pub(super) fn push(&mut self, step: Step) {
        self.all.push(step);
        if self.all.len() == self.most {
            self.all = self
                .all
                .chunks(2)
                .map(|pair| joined(&pair[0], &pair[1]))
                .collect();
            self.width = self.width.saturating_mul(2);
        }
    }

    /// The curves with the step in which the run ended, unless it ended where the step begins.
    pub(super) fn curves(mut self, last: Step, end: u64) -> Curves {
        let begin = self.width * self.all.len() as u64;
        let whole = self.all.len();
        if end > begin {
            self.all.push(last);
        }
        let length = |i: usize| if i < whole { self.width } else { end - begin };
        let mean = |of: usize| {
            let steps = self.all.iter().enumerate();
            steps
                .map(|(i, step)| ratio(step[of].0, length(i)))
                .collect()
        };
        let most = |of: usize| self.all.iter().map(|step| step[of].1).collect();
        Curves {
            step_s: seconds(self.width),
            watching: mean(WATCHING),
            watching_most: most(WATCHING),
            waiting: mean(WAITING),
            waiting_most: most(WAITING),
            coming: mean(COMING),
            ready: mean(READY),
            leaving: mean(LEAVING),
            nodes_most: most(NODES),
        }
    }
}

fn joined(first: &Step, second: &Step) -> Step {
    std::array::from_fn(|of| (first[of].0 + second[of].0, first[of].1.max(second[of].1)))
}
