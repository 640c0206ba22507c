//! All that a process knows of the global clock, as numbers that are read while they are replaced.

use super::super::slew::{self, Slew};
use super::super::{Global, Reading, global};
use crate::Reasons;

pub const WORDS: usize = global::WORDS + slew::WORDS + 4;

/// The state, taken apart.
#[derive(Clone, Copy, Debug)]
pub struct State {
    pub global: Global,
    pub slew: Slew,
    pub catch_up: CatchUp,
    pub reasons: Reasons,
    pub stratum: u8,
    /// Not before the first synchronisation.
    pub synchronised: bool,
    /// Of the own clock, when this was found out.
    pub disruptions: u32,
}

/// A clock that was moved back does not run backwards: until its new line is where the old one was,
/// its values may be ahead of it by as much as it moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatchUp {
    /// Values from here on are on the line.
    until_ns: u64,
    by_ns: u64,
}

impl CatchUp {
    /// Nothing was moved back.
    pub const NONE: Self = Self {
        until_ns: 0,
        by_ns: 0,
    };

    /// The line moved by so much, and now shows no more than this. A thread that goes on by a nanosecond a
    /// reading, which takes longer, is back on it before twice as long has passed.
    pub fn after(moved_ns: i64, now_ns: u64) -> Self {
        if moved_ns >= 0 {
            return Self::NONE;
        }
        let by_ns = moved_ns.unsigned_abs();
        Self {
            until_ns: now_ns.saturating_add(by_ns.saturating_mul(2)),
            by_ns,
        }
    }
}

impl State {
    pub fn words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        let (global, scalars) = words.split_at_mut(global::WORDS);
        let (slew, scalars) = scalars.split_at_mut(slew::WORDS);
        global.copy_from_slice(&self.global.words());
        slew.copy_from_slice(&self.slew.words());
        scalars.copy_from_slice(&[
            self.catch_up.until_ns,
            self.catch_up.by_ns,
            flags(self.reasons, self.stratum, self.synchronised),
            u64::from(self.disruptions),
        ]);
        words
    }

    /// The inverse of [`State::words`].
    #[inline]
    pub fn of(words: &[u64; WORDS]) -> Self {
        let (mut global, mut slew) = ([0; global::WORDS], [0; slew::WORDS]);
        let (first, scalars) = words.split_at(global::WORDS);
        let (second, scalars) = scalars.split_at(slew::WORDS);
        global.copy_from_slice(first);
        slew.copy_from_slice(second);
        let (reasons, stratum, synchronised) = unflag(scalars[2]);
        Self {
            global: Global::of_words(&global),
            slew: Slew::of_words(&slew),
            catch_up: CatchUp {
                until_ns: scalars[0],
                by_ns: scalars[1],
            },
            reasons,
            stratum,
            synchronised,
            disruptions: low(scalars[3]),
        }
    }

    /// What is known of the root's clock at this local instant; the own clock's time before the first
    /// synchronisation.
    #[inline]
    pub fn estimate(&self, local_ns: u64) -> Reading {
        if !self.synchronised {
            return Reading {
                ns: local_ns,
                bound_ns: u64::MAX,
                hard_ns: u64::MAX,
            };
        }
        let reading = self.global.at(local_ns);
        if local_ns < self.catch_up.until_ns {
            reading.wider(self.catch_up.by_ns)
        } else {
            reading
        }
    }

    /// What is shown now, if it is this instant.
    #[inline]
    pub fn shown(&self, local_ns: u64) -> Reading {
        self.slew.now(self.estimate(local_ns), local_ns)
    }
}

pub fn flags(reasons: Reasons, stratum: u8, synchronised: bool) -> u64 {
    u64::from(reasons.bits()) << 32 | u64::from(stratum) << 8 | u64::from(synchronised)
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "that is where it is")]
pub fn unflag(word: u64) -> (Reasons, u8, bool) {
    (
        Reasons::from_bits(low(word >> 32)),
        (word >> 8) as u8,
        word & 1 == 1,
    )
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "that is what is asked for")]
fn low(word: u64) -> u32 {
    word as u32
}

#[cfg(test)]
mod tests {
    use super::super::super::{Drift, Fix};
    use super::*;

    fn state(catch_up: CatchUp) -> State {
        let fix = Fix {
            local_ns: 1_000_000,
            offset_ns: 0,
            half_ns: 100,
            sure_ns: 50,
            noise_ns: 40,
            rtt_ns: 200,
        };
        State {
            global: Global::once(&fix, &Drift::USUAL),
            slew: Slew::from(7, 9, 11),
            catch_up,
            reasons: Reasons::MOVED,
            stratum: 3,
            synchronised: true,
            disruptions: 5,
        }
    }

    #[test]
    fn words_keep_it() {
        let state = state(CatchUp::after(-300, 1_000));
        let back = State::of(&state.words());
        assert_eq!(back.words(), state.words());
        assert_eq!((back.catch_up, back.slew), (state.catch_up, state.slew));
        assert_eq!((back.reasons, back.stratum), (Reasons::MOVED, 3));
        assert!(back.synchronised && back.disruptions == 5);
    }

    /// The line went back by 300 us. A thread had read the old one, so it goes on from there by 1 ns a
    /// reading: the truth is what the new line shows.
    #[test]
    fn who_was_ahead_is_inside_the_bound_until_caught_up() {
        let (moved, now) = (-300_000, 2_000_000);
        let state = state(CatchUp::after(moved, now));
        let mut last = now + moved.unsigned_abs();
        for on_the_line in (now..now + 400_000).step_by(20) {
            last = on_the_line.max(last + 1);
            let (shown, truth) = (state.estimate(last), state.global.at(on_the_line).ns);
            assert!(
                shown.ns.abs_diff(truth) <= shown.bound_ns,
                "{shown:?} {truth}"
            );
        }
        let later = state.estimate(now + 600_001);
        assert_eq!(later, state.global.at(now + 600_001));
        assert_eq!(CatchUp::after(300_000, now), CatchUp::NONE);
    }
}
