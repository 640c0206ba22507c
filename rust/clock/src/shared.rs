//! What all threads of a process share: the line through (ticks, nanoseconds) that they read time
//! from, so that two threads that look at the same tick tell the same time, whatever each of them
//! has folded. A change of rate is folded here once, not by every thread at a moment of its own.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::{Counter, CpuSet, Reasons, SHIFT, Scale};

/// How a thread gets from one core to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bridging {
    /// By the counter: all cores agree, so moving costs nothing in precision.
    Counter,
    /// By the bridge clock: the counters are apart, and each is only good on its own core.
    Clock,
}

/// What a new line goes on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// The counter: its rate is better known now, nothing else happened.
    Counter,
    /// The bridge clock: the counter may have jumped.
    Bridge,
}

/// The line: at `ticks`, the age was `age` and the bridge clock said `ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Which line this is; even.
    pub epoch: u32,
    /// The counter there.
    pub ticks: u64,
    /// Time there, in 2^-54 ns.
    pub age: u128,
    /// The bridge clock there, in nanoseconds.
    pub ns: u64,
    /// Nanoseconds per tick from there on.
    pub scale: Scale,
}

/// The line, readable while it is replaced (a sequence lock), and what all threads must know.
#[derive(Debug)]
pub struct Shared {
    /// Odd while the line is being replaced; 0 is never a whole line.
    epoch: AtomicU32,
    reasons: AtomicU32,
    disruptions: AtomicU32,
    ticks: AtomicU64,
    age_low: AtomicU64,
    age_high: AtomicU64,
    ns: AtomicU64,
    mult: AtomicU64,
    bridging: Bridging,
    drift_ppb: u32,
    cpus: Option<CpuSet>,
}

impl Shared {
    /// A line through now. Its age is the bridge clock's time, so that processes with the same
    /// bridge clock tell about the same time.
    ///
    /// `drift_ppb`: more than this between counter and bridge is a jump, not drift. `cpus`: the
    /// cores that may be trusted; none for a counter that is not a matter of cores.
    pub fn new<C: Counter>(
        counter: &C,
        scale: Scale,
        bridging: Bridging,
        drift_ppb: u32,
        cpus: Option<CpuSet>,
    ) -> Self {
        let pair = counter.pair();
        let age = u128::from(pair.ns) << SHIFT;
        let [low, high] = halves(age);
        Self {
            epoch: AtomicU32::new(2),
            reasons: AtomicU32::new(0),
            disruptions: AtomicU32::new(0),
            ticks: AtomicU64::new(pair.ticks),
            age_low: AtomicU64::new(low),
            age_high: AtomicU64::new(high),
            ns: AtomicU64::new(pair.ns),
            mult: AtomicU64::new(scale.mult()),
            bridging,
            drift_ppb,
            cpus,
        }
    }

    /// The number of the line; odd while it is being replaced.
    #[inline]
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The line, unless it is being replaced right now.
    pub fn try_anchor(&self) -> Option<Anchor> {
        let epoch = self.epoch();
        if epoch % 2 == 1 {
            return None;
        }
        let age_low = u128::from(self.age_low.load(Ordering::Relaxed));
        let age_high = u128::from(self.age_high.load(Ordering::Relaxed));
        let (ticks, ns) = (
            self.ticks.load(Ordering::Relaxed),
            self.ns.load(Ordering::Relaxed),
        );
        let mult = self.mult.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let whole = self.epoch.load(Ordering::Relaxed) == epoch;
        let scale = Scale::from_mult(mult).filter(|_| whole)?;
        Some(Anchor {
            epoch,
            ticks,
            age: age_high << 64 | age_low,
            ns,
            scale,
        })
    }

    /// The line; waits for whoever replaces it.
    pub fn anchor(&self) -> Anchor {
        loop {
            if let Some(anchor) = self.try_anchor() {
                return anchor;
            }
            core::hint::spin_loop();
        }
    }

    /// Replaces the line from now on. Time goes on without a jump where the counter did; after a
    /// jump, by what the bridge clock says.
    pub fn publish<C: Counter>(&self, counter: &C, scale: Scale, fold: Fold) {
        let old = self.begin();
        let pair = counter.pair();
        let ahead = pair.ticks.wrapping_sub(old.ticks);
        let by_bridge = u128::from(pair.ns.saturating_sub(old.ns)) << SHIFT;
        let counts = self.bridging == Bridging::Counter && fold == Fold::Counter;
        let elapsed = if counts && ahead <= u64::MAX / 2 {
            old.scale.span(ahead)
        } else {
            by_bridge
        };
        self.end(&Anchor {
            epoch: old.epoch,
            ticks: pair.ticks,
            age: old.age.saturating_add(elapsed),
            ns: pair.ns,
            scale,
        });
    }

    /// Goes over to another process's line, whose counter and bridge clock are these.
    pub fn adopt(&self, line: &Anchor) {
        let Anchor { epoch, .. } = self.begin();
        self.end(&Anchor { epoch, ..*line });
    }

    /// Makes the number odd, and so keeps others from doing it.
    fn begin(&self) -> Anchor {
        loop {
            let anchor = self.anchor();
            let (even, odd) = (anchor.epoch, anchor.epoch.wrapping_add(1));
            if self
                .epoch
                .compare_exchange(even, odd, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
            {
                // Only now, so that nobody reads the old line at a later tick, see
                // `Rvec::read_ordered`.
                fence(Ordering::SeqCst);
                return anchor;
            }
        }
    }

    /// Replaces the line that [`Shared::begin`] returned.
    fn end(&self, line: &Anchor) {
        let [low, high] = halves(line.age);
        self.ticks.store(line.ticks, Ordering::Relaxed);
        self.age_low.store(low, Ordering::Relaxed);
        self.age_high.store(high, Ordering::Relaxed);
        self.ns.store(line.ns, Ordering::Relaxed);
        self.mult.store(line.scale.mult(), Ordering::Relaxed);
        // Skips 0 when the number wraps: to a thread, 0 means that it has no line yet.
        let next = match line.epoch.wrapping_add(2) {
            0 => 2,
            next => next,
        };
        self.epoch.store(next, Ordering::Release);
    }

    /// Says it of every time-stamp from now on.
    pub fn blame(&self, reasons: Reasons) {
        // Mostly nothing new, and then the line of cache that everybody reads stays shared.
        if self.reasons().bits() & reasons.bits() == reasons.bits() {
            return;
        }
        self.reasons.fetch_or(reasons.bits(), Ordering::Relaxed);
    }

    /// Something has happened to the machine: what was known of other clocks is void.
    pub fn disrupt(&self, reasons: Reasons) {
        self.blame(reasons);
        self.disruptions.fetch_add(1, Ordering::AcqRel);
    }

    /// How often that was.
    #[inline]
    pub fn disruptions(&self) -> u32 {
        self.disruptions.load(Ordering::Acquire)
    }

    /// What is to be said of every time-stamp.
    #[inline]
    pub fn reasons(&self) -> Reasons {
        Reasons::from_bits(self.reasons.load(Ordering::Relaxed))
    }

    /// How a thread gets from one core to the next.
    pub fn bridging(&self) -> Bridging {
        self.bridging
    }

    /// Whether this core was compared with the others.
    pub fn knows(&self, cpu: u32) -> bool {
        self.cpus.as_ref().is_none_or(|cpus| cpus.has(cpu))
    }

    /// How far counter and bridge may be from each other after `elapsed_ns`, and still be believed.
    pub fn tolerance_ns(&self, elapsed_ns: u64) -> u64 {
        let drift = u128::from(elapsed_ns) * u128::from(self.drift_ppb) / 1_000_000_000;
        u64::try_from(drift)
            .unwrap_or(u64::MAX)
            .saturating_add(SLACK_NS)
    }
}

/// Less than this is no jump: readings come late by this much when a hypervisor has something else
/// to do between two instructions.
const SLACK_NS: u64 = 20_000;

#[expect(clippy::cast_possible_truncation, reason = "that is what halves are")]
fn halves(whole: u128) -> [u64; 2] {
    [whole as u64, (whole >> 64) as u64]
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::Rate;
    use crate::double::World;

    fn line(world: &World) -> Shared {
        let scale = Scale::of(&world.rate()).expect("scale");
        Shared::new(&world.thread(0), scale, Bridging::Counter, 5_000, None)
    }

    #[test]
    fn a_line_goes_on_from_the_last_one() {
        let world = World::new(1_000_000_000, 1);
        let (shared, thread) = (line(&world), world.thread(0));
        let before = shared.anchor();
        assert_eq!(
            (before.age >> SHIFT, before.epoch),
            (u128::from(before.ns), 2)
        );
        world.pass(1_000_000);
        let rate = Rate {
            millihertz: 2_000_000_000_000,
            ..world.rate()
        };
        let scale = Scale::of(&rate).expect("scale");
        shared.publish(&thread, scale, Fold::Counter);
        let after = shared.anchor();
        assert_eq!(
            after.age - before.age,
            before.scale.span(after.ticks - before.ticks)
        );
        assert_eq!((after.scale, after.epoch), (scale, 4));
    }

    #[test]
    fn after_a_jump_it_goes_on_from_the_bridge() {
        let world = World::new(1_000_000_000, 1);
        let (shared, thread) = (line(&world), world.thread(0));
        let before = shared.anchor();
        world.step(-(1 << 39));
        world.pass(1_000);
        shared.publish(&thread, before.scale, Fold::Bridge);
        let after = shared.anchor();
        assert_eq!(
            (after.age - before.age) >> SHIFT,
            u128::from(after.ns - before.ns)
        );
    }

    #[test]
    fn the_number_skips_zero() {
        let world = World::new(1_000_000_000, 1);
        let (shared, thread) = (line(&world), world.thread(0));
        shared.epoch.store(u32::MAX - 1, Ordering::Relaxed);
        shared.publish(&thread, Scale::NANOSECONDS, Fold::Counter);
        assert_eq!(shared.epoch(), 2);
    }

    #[test]
    fn nobody_sees_half_a_line() {
        let world = World::new(1_000_000_000, 1);
        let shared = line(&world);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let thread = world.thread(0);
                for _ in 0..2_000 {
                    shared.publish(&thread, Scale::NANOSECONDS, Fold::Bridge);
                }
            });
            while shared.epoch() < 4_000 {
                if let Some(line) = shared.try_anchor() {
                    assert_eq!(line.age >> SHIFT, u128::from(line.ns));
                }
            }
        });
    }

    #[test]
    fn reasons_stay() {
        let shared = line(&World::new(1_000_000_000, 1));
        shared.blame(Reasons::MOVED);
        shared.blame(Reasons::NONE);
        shared.blame(Reasons::STEPPED);
        assert_eq!(shared.reasons(), Reasons::MOVED | Reasons::STEPPED);
    }
}
