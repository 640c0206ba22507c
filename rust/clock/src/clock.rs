//! The clock of this process: decided once, read from everywhere.

use std::cell::UnsafeCell;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;
use std::vec::Vec;

use crate::any::Any;
use crate::distortion::Distortion;
use crate::line::{Apart, Known, Line, STRANGE_NS};
use crate::{
    Bridging, Counter, Facts, Fold, Pair, Promise, Rate, Reasons, Rvec, Scale, Shared, Source,
    Watch, calibrate, gather,
};

/// How long a later burst of pairs takes, and of how many.
const BURST: Duration = Duration::from_millis(2);
const BURST_PAIRS: u32 = 40;
/// Two lines whose rates differ by more than counter and bridge may, both ways, show it in so many
/// nanoseconds.
const RATE_SEEN_NS: u64 = 100_000_000_000;

/// A value with what is to be said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds, as by [`Clock::ordered`].
    pub ns: u64,
    /// Why it is worth less than it could be; mostly empty, but in a virtual machine.
    pub reasons: Reasons,
}

/// The clock: nanoseconds since about the machine's start, not counting suspension, at the rate of
/// `CLOCK_MONOTONIC_RAW`. Not for signal handlers: a value read in one may interrupt another.
#[derive(Debug)]
pub struct Clock {
    counter: Any,
    shared: Shared,
    facts: Facts,
    promise: Promise,
    distortion: Distortion,
    slow: Mutex<Slow>,
}

static CLOCK: OnceLock<Clock> = OnceLock::new();

/// What is only needed now and then.
#[derive(Debug)]
struct Slow {
    watch: Watch,
    /// The first pairs since the last disruption: the far end of every later baseline.
    pairs: Vec<Pair>,
    rate: Rate,
}

std::thread_local! {
    static RVEC: UnsafeCell<Rvec> = const { UnsafeCell::new(Rvec::new()) };
}

impl Clock {
    /// The clock of this process. The first call takes about 25 ms, to look at the machine.
    #[inline]
    pub fn get() -> &'static Self {
        CLOCK.get_or_init(|| Self::start(None))
    }

    /// The clock of this process, begun by what another one on this kernel has found out: fitting
    /// the rate takes 20 ms of the 25. What does not fit a reading here is not believed. Where there
    /// is a clock already, it stays as it is.
    ///
    /// It reads a line of its own: [`Clock::adopt`] is what makes the times one.
    pub fn begin(known: &Known) -> &'static Self {
        CLOCK.get_or_init(|| Self::start(Some(known)))
    }

    /// The clock of this process, if it has begun.
    pub fn begun() -> Option<&'static Self> {
        CLOCK.get()
    }

    pub(crate) fn start(known: Option<&Known>) -> Self {
        let watch = Watch::new();
        let (facts, pairs) = gather::facts(&watch, known);
        let promise = Promise::decide(&facts);
        let paired = promise.bridging == Bridging::Clock;
        let native = gather::native(paired).filter(|_| promise.source == Source::Counter);
        let native = native.zip(Scale::of(&promise.rate));
        let (counter, promise, scale) = if let Some((native, scale)) = native {
            (Any::new(Some(native)), promise, scale)
        } else {
            let promise = Promise::fallback(promise.reasons);
            (Any::new(None), promise, Scale::NANOSECONDS)
        };
        let cpus = facts.synchrony.map(|cores| cores.cpus);
        let cpus = cpus.filter(|_| promise.source == Source::Counter);
        let distortion = Distortion::of_environment();
        let drift_ppb = promise.drift_ppb.saturating_add(distortion.rate_ppb());
        let shared = Shared::new(&counter, scale, promise.bridging, drift_ppb, cpus);
        if !distortion.is_none() {
            shared.adopt(&distortion.of(&shared.anchor()));
        }
        shared.blame(promise.reasons | Reasons::DISTORTED.when(!distortion.is_none()));
        let slow = Mutex::new(Slow {
            watch,
            pairs,
            rate: promise.rate,
        });
        Self {
            counter,
            shared,
            facts,
            promise,
            distortion,
            slow,
        }
    }

    /// Nanoseconds, strictly increasing in this thread. As cheap as can be; may be executed early,
    /// so not to be compared with other threads' values.
    #[inline]
    pub fn now(&self) -> u64 {
        // SAFETY: nothing that `read` calls comes back here, and the reference does not get out.
        RVEC.with(|rvec| unsafe { (*rvec.get()).read(&self.counter, &self.shared) })
    }

    /// Nanoseconds, strictly increasing in this thread, and to be compared with other threads'
    /// ordered values within [`Promise::ordered_ns`].
    #[inline]
    pub fn ordered(&self) -> u64 {
        // SAFETY: as above.
        RVEC.with(|rvec| unsafe { (*rvec.get()).read_ordered(&self.counter, &self.shared) })
    }

    /// An ordered value with the reasons that hold for it.
    #[inline]
    pub fn stamp(&self) -> Stamp {
        let ns = self.ordered();
        // SAFETY: as above.
        let own = RVEC.with(|rvec| unsafe { (*rvec.get()).reasons() });
        Stamp {
            ns,
            reasons: self.shared.reasons() | own,
        }
    }

    /// What was promised at the start. What has happened since is in [`Clock::check`] and in every
    /// [`Stamp`].
    pub fn promise(&self) -> &Promise {
        &self.promise
    }

    /// What was found out about this machine.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The rate in use now.
    pub fn rate(&self) -> Rate {
        self.slow().rate
    }

    /// Looks for suspension, live migration and the kernel's loss of trust, and says it of every
    /// later time-stamp. After such a thing the old rate means nothing, so the line starts anew by
    /// the bridge clock, with a rate fitted in 20 ms. A few microseconds when nothing has happened.
    /// Every thread that reads the clock looks for the first two by itself once a second, and says
    /// so, but goes on with the old rate.
    ///
    /// Only the move of a virtual machine with vmclock can be noticed, see
    /// [`Reasons::MOVES_UNSEEN`]. Where the kernel keeps time by the same counter, its clocks jump
    /// with it, and a change of the counter's rate is only visible from another machine.
    pub fn check(&self) -> Reasons {
        let mut slow = self.slow();
        let news = slow.watch.check();
        if !news.is_empty() {
            self.shared.disrupt(news);
            slow.watch.renew();
            // The threads need not find the same again: what is learned from here on is not void.
            let _known = self.counter.news();
            self.calibrate(&mut slow);
        }
        self.shared.reasons()
    }

    fn calibrate(&self, slow: &mut Slow) {
        if self.promise.source == Source::MonotonicRaw || !self.distortion.is_none() {
            return;
        }
        slow.pairs = calibrate::measure(&self.counter, 10 * BURST, BURST_PAIRS);
        let fitted = calibrate::fit(&slow.pairs, self.one_core());
        let rate = fitted.unwrap_or(slow.rate);
        self.shared
            .blame(Reasons::RATE_UNKNOWN.when(fitted.is_none()));
        if let Some(scale) = Scale::of(&rate) {
            slow.rate = rate;
            self.shared.publish(&self.counter, scale, Fold::Bridge);
        }
    }

    /// Fits the rate again over everything since the start, so the later the better, and goes on
    /// with it if its bound is better than the one in use. Takes 2 ms. Time goes on without a jump.
    ///
    /// To be done before this clock is synchronised with others or its line is handed on: what they know
    /// of its rate afterwards may be wrong by as much as it changes, which can be more than
    /// [`wander_ppb`](crate::rgap::Drift::wander_ppb).
    pub fn refine(&self) -> Rate {
        let mut slow = self.slow();
        if self.promise.source == Source::Counter && self.distortion.is_none() {
            let mut pairs = slow.pairs.clone();
            pairs.extend(calibrate::measure(&self.counter, BURST, BURST_PAIRS));
            let better = calibrate::fit(&pairs, self.one_core())
                .filter(|rate| rate.bound_ppb < slow.rate.bound_ppb);
            if let Some((rate, scale)) = better.and_then(|rate| Some((rate, Scale::of(&rate)?))) {
                slow.rate = rate;
                self.shared.publish(&self.counter, scale, Fold::Counter);
            }
        }
        slow.rate
    }

    /// How often something has happened to this clock that voids what was known of others: see
    /// [`Clock::check`].
    #[inline]
    pub fn disruptions(&self) -> u32 {
        self.shared.disruptions()
    }

    /// What others on this kernel need not find out again: see [`Clock::begin`].
    pub fn known(&self) -> Known {
        let slow = self.slow();
        Known {
            line: self.line(),
            rate: slow.rate,
        }
    }

    /// The line that this process reads time from, for others on this kernel: see [`Clock::adopt`].
    pub fn line(&self) -> Line {
        Line::of(self.promise.source, self.shared.anchor())
    }

    /// Goes over to the line of another process on this kernel, so that both read the same time from
    /// the same counter, to the nanosecond and for ever. Returns how far this clock's time moved, in
    /// nanoseconds; where it moved back, each thread's values go on by 1 ns until it has caught up.
    ///
    /// # Errors
    /// If the counters are not the same, or the line is not what this clock could show.
    pub fn adopt(&self, line: &Line) -> Result<i64, Apart> {
        let _slow = self.slow();
        if line.source != self.promise.source || self.one_core() {
            return Err(Apart);
        }
        let ticks = self.counter.pair().ticks;
        let theirs = line.at(ticks).ok_or(Apart)?;
        let own = Line::of(line.source, self.shared.anchor());
        let before = own.at(ticks).ok_or(Apart)?;
        // Both began with the bridge clock's time, and run at one counter's rate.
        let old = own.elapsed_ns(ticks).max(line.elapsed_ns(ticks));
        let most = STRANGE_NS.saturating_add(self.shared.tolerance_ns(old));
        let later = ticks.wrapping_add(own.anchor.scale.ticks(RATE_SEEN_NS));
        let [further, own_further] = [line, &own].map(|it| it.at(later));
        let faster = further
            .zip(own_further)
            .map_or(u64::MAX, |(line_ns, own_ns)| {
                line_ns
                    .wrapping_sub(theirs)
                    .abs_diff(own_ns.wrapping_sub(before))
            });
        let strange =
            theirs.abs_diff(before) > most || faster > self.shared.tolerance_ns(2 * RATE_SEEN_NS);
        if self.distortion.is_none() && strange {
            return Err(Apart);
        }
        self.shared.adopt(&self.distortion.of(&line.anchor));
        let after = Line::of(line.source, self.shared.anchor()).at(ticks);
        Ok(after.unwrap_or(theirs).wrapping_sub(before).cast_signed())
    }

    /// As if the machine had just slept.
    #[cfg(test)]
    pub(crate) fn sleep(&self) {
        self.slow().watch.sleep();
        self.counter.watch().sleep();
    }

    fn one_core(&self) -> bool {
        self.promise.bridging == Bridging::Clock
    }

    fn slow(&self) -> std::sync::MutexGuard<'_, Slow> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Raw;

    #[test]
    fn the_process_has_one_clock() {
        let clock = Clock::get();
        assert!(std::ptr::eq(clock, Clock::get()));
        let first = clock.now();
        assert!(clock.ordered() > first);
        assert!(clock.stamp().ns > first);
    }

    #[test]
    fn it_is_about_the_bridge_clocks_time() {
        let clock = Clock::get();
        let before = Raw::ns();
        let stamp = clock.stamp();
        let after = Raw::ns();
        // A minute of a rate that is as wrong as it may be.
        let slack = 1_000 + u64::from(clock.rate().bound_ppb) * 60;
        assert!(
            stamp.ns + slack >= before && stamp.ns <= after + slack,
            "{stamp:?} {before}"
        );
        assert!(!stamp.reasons.any(Reasons::STEPPED), "{}", stamp.reasons);
    }

    /// By a clock of its own: it is the whole process's that others read.
    #[test]
    fn what_was_noticed_is_not_noticed_again() {
        std::thread::spawn(|| {
            let clock = Clock::start(None);
            let before = clock.ordered();
            clock.sleep();
            assert!(clock.check().any(Reasons::SUSPENDED));
            let noticed = clock.disruptions();
            assert_eq!(noticed, 1);
            // The line is new, so this folds and looks.
            assert!(clock.ordered() > before);
            assert_eq!(clock.disruptions(), noticed);
        })
        .join()
        .expect("noticed once");
    }

    #[test]
    fn what_is_known_is_taken_over() {
        let clock = Clock::get();
        clock.refine();
        let known = clock.known();
        std::thread::spawn(move || {
            let other = Clock::start(Some(&known));
            if other.promise().source == Source::Counter {
                assert_eq!(other.rate(), known.rate);
            }
            // The baseline begins here: a better fit needs no more than that it is longer.
            assert!(other.refine().bound_ppb <= known.rate.bound_ppb);
            assert!(other.adopt(&known.line).is_ok());
        })
        .join()
        .expect("begun");
    }

    #[test]
    fn what_does_not_fit_is_found_out_anew() {
        let clock = Clock::get();
        if clock.promise().source == Source::MonotonicRaw {
            return;
        }
        let rate = Rate {
            bound_ppb: 0,
            ..clock.rate()
        };
        let mut bytes = clock.line().encode();
        bytes[19] ^= 1;
        let later = Line::parse(&bytes).expect("a line");
        let standing = Rate {
            millihertz: 0,
            ..rate
        };
        let faster = Rate {
            millihertz: rate.millihertz + rate.millihertz / 10_000,
            ..rate
        };
        for (line, rate) in [
            (later, rate),
            (clock.line(), standing),
            (clock.line(), faster),
        ] {
            let known = Known { line, rate };
            std::thread::spawn(move || {
                let other = Clock::start(Some(&known));
                assert!(other.rate().bound_ppb > 0, "{}", other.rate());
            })
            .join()
            .expect("begun");
        }
    }

    #[test]
    fn a_longer_baseline_makes_it_better_and_time_goes_on() {
        let clock = Clock::get();
        let before = (clock.rate(), clock.ordered());
        let after = (clock.refine(), clock.ordered());
        assert!(after.0.bound_ppb <= before.0.bound_ppb && after.1 > before.1);
        assert!(!clock.check().any(Reasons::STEPPED | Reasons::SUSPENDED));
    }
}
