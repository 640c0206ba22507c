//! The global clock of this process: its own clock, what it learned of the root's, and what has
//! happened since.

mod short;

use core::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::vec::Vec;

use self::short::Short;
use super::global::WORDS;
use super::seqlock::Seqlock;
use super::slew::{self, Slew};
use super::{Contradiction, Correction, Drift, Fix, Global, Outcome, Reading, Standing};
use crate::{Apart, Clock, LINE_LENGTH, Line, Reasons, Stamp};

/// Bytes of [`Synced::encode`].
pub const SHARE_LENGTH: usize = LINE_LENGTH + 8 * (WORDS + 1);
/// How many synchronisations the rate is fitted through: the first, and the latest others.
const MOST: usize = 16;

/// An instant by the global clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instant {
    /// By this process's own clock, [`Clock::ordered`].
    pub local_ns: u64,
    /// By the root's, and how well that is known. Without a synchronisation it is the own clock's
    /// value, and both bounds are `u64::MAX`.
    pub global: Reading,
    /// What is to be said of it, the server's reasons included.
    pub reasons: Reasons,
}

/// A process's global clock.
#[derive(Debug)]
pub struct Synced {
    clock: &'static Clock,
    /// The line, the slew, and the rest: reasons, stratum and whether, disruptions.
    state: Seqlock<STATE>,
    /// The part of it that [`Synced::now_ns`] needs.
    short: Seqlock<{ short::WORDS }>,
    /// What the line was made of.
    fixes: Mutex<Vec<Fix>>,
}

/// Words of a [`State`].
const STATE: usize = WORDS + slew::WORDS + 2;

/// Why there is no global clock after this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The synchronisations cannot all be true.
    Contradiction,
    /// Another process's clock cannot be read here.
    Apart,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contradiction => Contradiction.fmt(out),
            Self::Apart => Apart.fmt(out),
        }
    }
}

impl core::error::Error for Refusal {}

impl From<Contradiction> for Refusal {
    fn from(_: Contradiction) -> Self {
        Self::Contradiction
    }
}

impl From<Apart> for Refusal {
    fn from(_: Apart) -> Self {
        Self::Apart
    }
}

/// The state, taken apart.
#[derive(Clone, Copy, Debug)]
struct State {
    global: Global,
    slew: Slew,
    reasons: Reasons,
    stratum: u8,
    /// Not before the first synchronisation.
    synchronised: bool,
    /// Of the own clock, when this was found out.
    disruptions: u32,
}

impl State {
    fn words(&self) -> [u64; STATE] {
        let mut words = [0; STATE];
        let (global, rest) = words.split_at_mut(WORDS);
        let (slew, rest) = rest.split_at_mut(slew::WORDS);
        global.copy_from_slice(&self.global.words());
        slew.copy_from_slice(&self.slew.words());
        rest[0] = flags(self.reasons, self.stratum, self.synchronised);
        rest[1] = u64::from(self.disruptions);
        words
    }

    #[inline]
    fn of(words: &[u64; STATE]) -> Self {
        let (mut global, mut slew) = ([0; WORDS], [0; slew::WORDS]);
        let (first, rest) = words.split_at(WORDS);
        let (second, rest) = rest.split_at(slew::WORDS);
        global.copy_from_slice(first);
        slew.copy_from_slice(second);
        let (reasons, stratum, synchronised) = unflag(rest[0]);
        Self {
            global: Global::of_words(&global),
            slew: Slew::of_words(&slew),
            reasons,
            stratum,
            synchronised,
            disruptions: low(rest[1]),
        }
    }
}

fn flags(reasons: Reasons, stratum: u8, synchronised: bool) -> u64 {
    u64::from(reasons.bits()) << 32 | u64::from(stratum) << 8 | u64::from(synchronised)
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "that is where it is")]
fn unflag(word: u64) -> (Reasons, u8, bool) {
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

impl Synced {
    /// This process's. The first call takes about 25 ms, as [`Clock::get`].
    pub fn get() -> &'static Self {
        static SYNCED: OnceLock<Synced> = OnceLock::new();
        SYNCED.get_or_init(|| Self::new(Clock::get()))
    }

    fn new(clock: &'static Clock) -> Self {
        Self {
            clock,
            state: Seqlock::new(),
            // All 0: the own clock.
            short: Seqlock::new(),
            fixes: Mutex::default(),
        }
    }

    /// Now. Strictly increasing in the thread as long as the line is, see [`Synced::learn`].
    #[inline]
    pub fn now(&self) -> Instant {
        self.of(self.clock.stamp())
    }

    /// The nanoseconds of [`Synced::now`], give or take one, and nothing else: for whoever asks for
    /// the bound another time. A multiplication more than [`Clock::ordered`].
    #[inline]
    pub fn now_ns(&self) -> u64 {
        let local_ns = self.clock.ordered();
        let short = Short::of_words(&self.short.load());
        short
            .shown(local_ns)
            .unwrap_or_else(|| self.long_ns(local_ns))
    }

    /// Before the first synchronisation, and while something is slewed away.
    #[cold]
    #[inline(never)]
    fn long_ns(&self, local_ns: u64) -> u64 {
        let state = self.state();
        if state.synchronised {
            state.slew.of(state.global.at(local_ns), local_ns).ns
        } else {
            local_ns
        }
    }

    /// What the root's clock showed when this process's showed this, by what is known now.
    pub fn at(&self, local_ns: u64) -> Instant {
        let reasons = self.clock.stamp().reasons;
        self.of(Stamp {
            ns: local_ns,
            reasons,
        })
    }

    #[inline]
    fn of(&self, stamp: Stamp) -> Instant {
        let state = self.state();
        let adrift = self.clock.disruptions() != state.disruptions;
        let reasons = stamp.reasons | state.reasons | Reasons::ADRIFT.when(adrift);
        let local_ns = stamp.ns;
        let mut global = if state.synchronised {
            state.slew.of(state.global.at(local_ns), local_ns)
        } else {
            Reading {
                ns: local_ns,
                bound_ns: u64::MAX,
                hard_ns: u64::MAX,
            }
        };
        if reasons.any(Reasons::ADRIFT) {
            (global.bound_ns, global.hard_ns) = (u64::MAX, u64::MAX);
        }
        Instant {
            local_ns,
            global,
            reasons,
        }
    }

    /// This process is the root: its clock is the global one.
    pub fn lead(&self) {
        let mut fixes = self.fixes();
        fixes.clear();
        let fix = Fix {
            local_ns: self.clock.ordered(),
            offset_ns: 0,
            half_ns: 0,
            sure_ns: 0,
            noise_ns: 0,
            rtt_ns: 0,
        };
        let never = Drift {
            worst_ppb: 0,
            wander_ppb: 0,
            baseline_ns: u64::MAX,
        };
        let global = Global::once(&fix, &never);
        self.store(&State {
            global,
            slew: Slew::NONE,
            reasons: Reasons::NONE,
            stratum: 0,
            synchronised: true,
            disruptions: self.clock.disruptions(),
        });
    }

    /// Takes a synchronisation of this process's [`Clock::ordered`] in. The global time goes on
    /// without a jump: what it was off is slewed away, unless nothing was known before, or what was
    /// known is void.
    ///
    /// `disruptions`: of the clock, before the synchronisation began.
    ///
    /// # Errors
    /// If it contradicts those before it, which are then forgotten: the clock is ADRIFT until the next
    /// one.
    pub fn learn(&self, outcome: &Outcome, drift: &Drift, disruptions: u32) -> Result<(), Refusal> {
        let mut fixes = self.fixes();
        let before = self.state();
        if !before.synchronised || before.disruptions != disruptions {
            fixes.clear();
        }
        fixes.push(outcome.fix);
        let Ok(global) = Global::fit(&fixes, drift) else {
            fixes.clear();
            let reasons = before.reasons | Reasons::ADRIFT;
            self.store(&State { reasons, ..before });
            return Err(Refusal::Contradiction);
        };
        if fixes.len() > MOST {
            fixes.remove(1);
        }
        let slew = if fixes.len() > 1 {
            let local_ns = self.clock.ordered();
            let shown = before.slew.of(before.global.at(local_ns), local_ns);
            Slew::from(shown.ns, global.at(local_ns).ns, local_ns)
        } else {
            Slew::NONE
        };
        let standing = outcome.best.standing();
        let state = State {
            global,
            slew,
            reasons: standing.reasons,
            stratum: standing.stratum.saturating_add(1),
            synchronised: true,
            disruptions,
        };
        self.store(&state);
        Ok(())
    }

    /// The clock's own disruptions, to be asked before a synchronisation begins: what happens after
    /// that voids it.
    pub fn disruptions(&self) -> u32 {
        self.clock.check();
        self.clock.disruptions()
    }

    /// What this process says of itself as a server, with its global time: as it is known, so without
    /// what is still to be slewed away.
    pub fn serve(&self) -> (u64, Standing) {
        let now = self.now();
        let state = self.state();
        let mut known = now.global;
        if state.synchronised && !now.reasons.any(Reasons::ADRIFT) {
            known = state.global.at(now.local_ns);
        }
        let standing = Standing {
            hard_ns: known.hard_ns,
            bound_ns: known.bound_ns,
            stratum: state.stratum,
            awake: true,
            reasons: now.reasons,
        };
        (known.ns, standing)
    }

    /// The nanoseconds of [`Synced::serve`], give or take one: what is asked for right before an answer
    /// goes. The own clock's before the first synchronisation.
    #[inline]
    pub fn known_ns(&self) -> u64 {
        let local_ns = self.clock.ordered();
        let short = Short::of_words(&self.short.load());
        short.known(local_ns).unwrap_or_else(|| {
            let state = self.state();
            let known = state.global.at(local_ns);
            if state.synchronised {
                known.ns
            } else {
                local_ns
            }
        })
    }

    /// How much faster the root runs, and how well that is known, in parts per trillion.
    pub fn rate(&self) -> Option<(i64, u64)> {
        let state = self.state();
        state.global.rate().filter(|_| state.synchronised)
    }

    /// How many synchronisations lie between this clock and the root's; none before the first.
    pub fn stratum(&self) -> Option<u8> {
        let state = self.state();
        state.synchronised.then_some(state.stratum)
    }

    /// How many synchronisations of this process's own the line is made of.
    pub fn synchronisations(&self) -> usize {
        self.fixes().len()
    }

    /// From the first synchronisation to the last, with those in between held against it.
    ///
    /// # Errors
    /// If there are not two, or they contradict each other.
    pub fn correction(&self, drift: &Drift) -> Result<Correction, Contradiction> {
        let fixes = self.fixes();
        let [first, between @ .., last] = &fixes[..] else {
            return Err(Contradiction);
        };
        let mut correction = Correction::new(first, last, drift)?;
        for fix in between {
            correction.check(fix)?;
        }
        Ok(correction)
    }

    /// For the other processes of this kernel: one synchronisation does for all.
    pub fn encode(&self) -> [u8; SHARE_LENGTH] {
        let state = self.state();
        let mut bytes = [0; SHARE_LENGTH];
        bytes[..LINE_LENGTH].copy_from_slice(&self.clock.line().encode());
        let rest = flags(self.now().reasons, state.stratum, state.synchronised);
        let words = state.global.words().into_iter().chain([rest]);
        for (place, word) in bytes[LINE_LENGTH..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// Goes over to what another process of this kernel has learned, see [`Clock::adopt`]. The global
    /// time is then the same in both. Returns how far the own clock moved, in nanoseconds.
    ///
    /// # Errors
    /// If these are not the bytes of a process of this kernel that is synchronised.
    pub fn adopt(&self, bytes: &[u8]) -> Result<i64, Refusal> {
        let bytes: &[u8; SHARE_LENGTH] = bytes.try_into().map_err(|_| Apart)?;
        let mut words = [0; WORDS + 1];
        for (word, place) in words.iter_mut().zip(bytes[LINE_LENGTH..].chunks_exact(8)) {
            *word = u64::from_be_bytes(place.try_into().map_err(|_| Apart)?);
        }
        let [line @ .., rest] = words;
        let (reasons, stratum, synchronised) = unflag(rest);
        if !synchronised {
            return Err(Refusal::Apart);
        }
        let mut fixes = self.fixes();
        let disruptions = self.disruptions();
        let moved = self.clock.adopt(&Line::parse(&bytes[..LINE_LENGTH])?)?;
        fixes.clear();
        let state = State {
            global: Global::of_words(&line),
            slew: Slew::NONE,
            reasons,
            stratum,
            synchronised,
            disruptions,
        };
        self.store(&state);
        Ok(moved)
    }

    #[inline]
    fn state(&self) -> State {
        State::of(&self.state.load())
    }

    /// For whoever has the fixes. Nobody gets the old line from the short one after this.
    fn store(&self, state: &State) {
        self.short.store(&Short::NONE.words());
        self.state.store(&state.words());
        if state.synchronised {
            let short = Short::through(self.clock.ordered(), &state.global, &state.slew);
            self.short.store(&short.words());
        }
    }

    /// Whoever has them may replace the state.
    fn fixes(&self) -> std::sync::MutexGuard<'_, Vec<Fix>> {
        self.fixes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
