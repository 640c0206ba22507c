//! The global clock of this process: its own clock, what it learned of the root's, and what has
//! happened since.

mod share;
mod short;
mod state;

use core::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::vec::Vec;

pub use self::share::SHARE_LENGTH;
use self::short::Short;
use self::state::{CatchUp, State};
use super::seqlock::Seqlock;
use super::slew::Slew;
use super::{Contradiction, Correction, Drift, Fix, Global, Outcome, Reading, Standing};
use crate::{Apart, Clock, Reasons, Stamp};

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
    /// How far the cores may see its time apart: [`Promise::apart_ns`](crate::Promise::apart_ns). On
    /// which of them something was read, nobody knows afterwards.
    apart_ns: u64,
    state: Seqlock<{ state::WORDS }>,
    /// The part of it that [`Synced::now_ns`] needs.
    short: Seqlock<{ short::WORDS }>,
    fixes: Mutex<Fixes>,
}

/// What the line was made of.
#[derive(Debug, Default)]
struct Fixes {
    all: Vec<Fix>,
    /// There were others, which mean nothing any more.
    void: bool,
}

impl Fixes {
    /// From now on, nothing before counts.
    fn clear(&mut self) {
        self.void = true;
        self.all.clear();
    }
}

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

impl Synced {
    /// This process's. The first call takes about 25 ms, as [`Clock::get`].
    pub fn get() -> &'static Self {
        static SYNCED: OnceLock<Synced> = OnceLock::new();
        SYNCED.get_or_init(|| Self::new(Clock::get()))
    }

    fn new(clock: &'static Clock) -> Self {
        Self {
            clock,
            apart_ns: clock.promise().apart_ns(),
            state: Seqlock::new(),
            // All 0: the own clock.
            short: Seqlock::new(),
            fixes: Mutex::default(),
        }
    }

    /// Now. Strictly increasing in the thread as long as the line is, see [`Synced::learn`].
    #[inline]
    pub fn now(&self) -> Instant {
        let stamp = self.clock.stamp();
        let state = self.state();
        self.of(stamp, &state, state.shown(stamp.ns))
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
        self.state().shown(local_ns).ns
    }

    /// What the root's clock showed when this process's showed this, by what is known now.
    pub fn at(&self, local_ns: u64) -> Instant {
        let reasons = self.clock.stamp().reasons;
        let state = self.state();
        let global = state.slew.of(state.estimate(local_ns), local_ns);
        let ns = local_ns;
        self.of(Stamp { ns, reasons }, &state, global)
    }

    #[inline]
    fn of(&self, stamp: Stamp, state: &State, mut global: Reading) -> Instant {
        let adrift = self.clock.disruptions() != state.disruptions;
        let reasons = stamp.reasons | state.reasons | Reasons::ADRIFT.when(adrift);
        if reasons.any(Reasons::ADRIFT) {
            (global.bound_ns, global.hard_ns) = (u64::MAX, u64::MAX);
        }
        Instant {
            local_ns: stamp.ns,
            global: global.wider(self.apart_ns),
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
            catch_up: CatchUp::NONE,
            reasons: Reasons::NONE,
            stratum: 0,
            synchronised: true,
            disruptions: self.clock.disruptions(),
        });
    }

    /// Takes a synchronisation of this process's [`Clock::ordered`] in. The global time goes on
    /// without a jump: what it was off is slewed away, unless it is the first of this process (a line that
    /// was adopted is not one), or what was known is void.
    ///
    /// `disruptions`: of the clock, before the synchronisation began.
    ///
    /// # Errors
    /// If it contradicts those before it, which are then forgotten: the clock is ADRIFT until the next
    /// one.
    pub fn learn(&self, outcome: &Outcome, drift: &Drift, disruptions: u32) -> Result<(), Refusal> {
        let mut fixes = self.fixes();
        let before = self.state();
        if before.synchronised && before.disruptions != disruptions {
            fixes.clear();
        }
        fixes.all.push(outcome.fix);
        let Ok(global) = Global::fit(&fixes.all, drift) else {
            fixes.clear();
            let reasons = before.reasons | Reasons::ADRIFT;
            self.store(&State { reasons, ..before });
            return Err(Refusal::Contradiction);
        };
        if fixes.all.len() > MOST {
            fixes.all.remove(1);
        }
        let slew = if fixes.all.len() > 1 {
            let local_ns = self.clock.ordered();
            Slew::from(before.shown(local_ns).ns, global.at(local_ns).ns, local_ns)
        } else {
            Slew::NONE
        };
        let standing = outcome.best.standing();
        let state = State {
            global,
            slew,
            catch_up: before.catch_up,
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
        let stamp = self.clock.stamp();
        let state = self.state();
        let now = self.of(stamp, &state, state.estimate(stamp.ns));
        let global = now.global;
        let standing = Standing {
            hard_ns: global.hard_ns,
            bound_ns: global.bound_ns,
            stratum: state.stratum,
            awake: true,
            reasons: now.reasons,
        };
        (global.ns, standing)
    }

    /// The nanoseconds of [`Synced::serve`], give or take one: what is asked for right before an answer
    /// goes. The own clock's before the first synchronisation.
    #[inline]
    pub fn known_ns(&self) -> u64 {
        let local_ns = self.clock.ordered();
        let short = Short::of_words(&self.short.load());
        short
            .estimate(local_ns)
            .unwrap_or_else(|| self.state().estimate(local_ns).ns)
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
        self.fixes().all.len()
    }

    /// From the first synchronisation to the last, with those in between held against it. If something
    /// has happened to the own clock before or after that, it bounds nothing there.
    ///
    /// # Errors
    /// If there are not two, or they contradict each other.
    pub fn correction(&self, drift: &Drift) -> Result<Correction, Contradiction> {
        let fixes = self.fixes();
        let [first, between @ .., last] = &fixes.all[..] else {
            return Err(Contradiction);
        };
        let mut correction = Correction::new(first, last, drift)?;
        for fix in between {
            correction.check(fix)?;
        }
        let learned = self.state().disruptions;
        let adrift = self.disruptions() != learned;
        Ok(correction.voided(fixes.void || learned > 0, adrift))
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
    fn fixes(&self) -> std::sync::MutexGuard<'_, Fixes> {
        self.fixes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
