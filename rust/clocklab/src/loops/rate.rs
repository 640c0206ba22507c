//! How the rates of two clocks differ, from where they met in the beginning and in the end.

use serde::{Deserialize, Serialize};
use ullage_clock::Clock;

use crate::Error;

/// How much faster RVEC runs than the other clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Apart {
    /// In parts per billion of the other's rate.
    pub ppb: f64,
    /// The difference is not further off than this, in parts per billion, if both were steady: from
    /// how long the readings took that were taken for simultaneous.
    pub bound_ppb: f64,
    /// Between the two meetings, by the other clock.
    pub over_ns: f64,
}

/// The other clock was read between two reads of RVEC.
#[derive(Clone, Copy, Debug)]
pub struct Meeting {
    before_ns: u64,
    other: u64,
    after_ns: u64,
}

/// The narrowest meeting of so many.
const TRIES: u32 = 20;

impl Meeting {
    /// Reads `other` a few times.
    pub fn with(other: &mut dyn FnMut() -> Result<u64, Error>) -> Result<Self, Error> {
        let mut best = Self::once(other)?;
        for _ in 1..TRIES {
            let next = Self::once(other)?;
            if next.width() < best.width() {
                best = next;
            }
        }
        Ok(best)
    }

    fn once(other: &mut dyn FnMut() -> Result<u64, Error>) -> Result<Self, Error> {
        let clock = Clock::get();
        Ok(Self {
            before_ns: clock.ordered(),
            other: other()?,
            after_ns: clock.ordered(),
        })
    }

    fn width(&self) -> u64 {
        self.after_ns - self.before_ns
    }
}

impl Apart {
    /// None if no time has passed.
    #[expect(clippy::cast_precision_loss, reason = "days are less than 2^53 ns")]
    pub(super) fn between(begin: Meeting, end: Meeting, ns_per_tick: f64) -> Option<Self> {
        let over_ns = end.other.checked_sub(begin.other)? as f64 * ns_per_tick;
        let middle = |meeting: &Meeting| meeting.width() as f64 / 2.0;
        let ours = (end.before_ns - begin.before_ns) as f64 + middle(&end) - middle(&begin);
        (over_ns > 0.0).then(|| Self {
            ppb: (ours / over_ns - 1.0) * 1e9,
            bound_ppb: (middle(&begin) + middle(&end)) / over_ns * 1e9,
            over_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Two clocks of known rates, read at unknown moments of their brackets: the truth is inside.
        #[test]
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "exact numbers of the test"
        )]
        fn the_truth_is_within_the_bound(
            ppm in -400_i64..400,
            span in 1_000_000_u64..10_000_000_000,
            widths in [0_u64..5_000, 0_u64..5_000],
            parts in [0.0_f64..=1.0, 0.0_f64..=1.0],
        ) {
            let rate = 1.0 + ppm as f64 * 1e-6;
            let meeting = |number: usize, start: u64| Meeting {
                before_ns: start,
                other: ((start as f64 + parts[number] * widths[number] as f64) / rate) as u64,
                after_ns: start + widths[number],
            };
            let (begin, end) = (meeting(0, 1_000_000), meeting(1, 1_000_000 + span));
            prop_assume!(end.other > begin.other);
            let apart = Apart::between(begin, end, 1.0).expect("apart");
            // The other clock is cut to whole nanoseconds here.
            let slack = 2.0 / apart.over_ns * 1e9 + 1e-3;
            prop_assert!((apart.ppb - ppm as f64 * 1e3).abs() <= apart.bound_ppb * 1.001 + slack);
        }
    }

    #[test]
    fn no_time_is_no_rate() {
        let same = Meeting {
            before_ns: 1,
            other: 5,
            after_ns: 9,
        };
        assert!(Apart::between(same, same, 1.0).is_none());
    }

    #[test]
    fn the_narrowest_meeting_is_kept() {
        let mut calls = 0;
        let meeting = Meeting::with(&mut || {
            calls += 1;
            if calls != 7 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            Ok(calls)
        });
        assert_eq!((meeting.expect("meeting").other, calls), (7, 20));
    }
}
