//! RVEC, the strictly increasing clock of one thread: age + (counter − base) × scale.
//!
//! The elapsed time is folded into the age, and the base moved, when the thread has come to another
//! core, when the rate has changed, and once a second, when the counter is compared with the bridge
//! clock. Ages keep the fraction, so folding costs no precision. The cheap path is a counter read,
//! four comparisons and a multiplication.

use crate::{Anchor, Bridging, Counter, NO_CPU, Pair, Reasons, SHIFT, Sample, Shared};

/// How far a reading may lie behind the last one without being looked into: two unordered reads may
/// be executed in the other order, and cores agree within their bound.
const JITTER_NS: u64 = 500;
const NS_PER_S: u64 = 1_000_000_000;

/// The state of one thread. To be used with the same [`Counter`] and [`Shared`] always.
///
/// Two reads in the same nanosecond are told apart by counting on, so a thread that read more often
/// than once per nanosecond would run ahead of time by as much.
#[derive(Clone, Debug)]
pub struct Rvec {
    base: u64,
    mult: u64,
    /// Age at `base`, in 2^-54 ns.
    age: u128,
    /// The last value given away.
    last: u64,
    /// Further from the base than this, in ticks, the bridge is asked: a second.
    limit: u64,
    cpu: u32,
    /// The line this goes by; 0 before the first read.
    epoch: u32,
    /// When counter and bridge last agreed: age in 2^-54 ns, bridge in ns.
    checked: (u128, u64),
    reasons: Reasons,
    folds: u64,
    migrations: u64,
}

impl Default for Rvec {
    fn default() -> Self {
        Self::new()
    }
}

impl Rvec {
    /// A thread that has not read the clock yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            base: 0,
            mult: 0,
            age: 0,
            last: 0,
            limit: 0,
            cpu: NO_CPU,
            epoch: 0,
            checked: (0, 0),
            reasons: Reasons::NONE,
            folds: 0,
            migrations: 0,
        }
    }

    /// Nanoseconds, more than at the last call, whatever the counter does. Good within the thread;
    /// to be compared with another thread's, both must come from [`Rvec::read_ordered`].
    #[inline]
    pub fn read<C: Counter>(&mut self, counter: &C, shared: &Shared) -> u64 {
        let sample = counter.read();
        self.take(sample, shared.epoch(), counter, shared, false)
    }

    /// Nanoseconds, more than at the last call, and not before what other threads had read when
    /// they passed something on to this one, up to the bound of [`crate::Promise::ordered_ns`].
    #[inline]
    pub fn read_ordered<C: Counter>(&mut self, counter: &C, shared: &Shared) -> u64 {
        loop {
            let epoch = shared.epoch();
            let sample = counter.read_ordered();
            // A line that was replaced meanwhile might not hold at this tick any more.
            if epoch.is_multiple_of(2) && shared.epoch() == epoch {
                return self.take(sample, epoch, counter, shared, true);
            }
            core::hint::spin_loop();
        }
    }

    /// What is to be said of this thread's values, beside what is said of all by
    /// [`Shared::reasons`].
    #[must_use]
    pub fn reasons(&self) -> Reasons {
        self.reasons
    }

    /// How often the age was folded, and how many of these were for another core.
    #[must_use]
    pub fn folds(&self) -> (u64, u64) {
        (self.folds, self.migrations)
    }

    #[inline]
    fn take<C: Counter>(
        &mut self,
        at: Sample,
        epoch: u32,
        counter: &C,
        shared: &Shared,
        ordered: bool,
    ) -> u64 {
        let ahead = at.ticks.wrapping_sub(self.base);
        if epoch == self.epoch && at.cpu == self.cpu && ahead < self.limit {
            let now = whole(u128::from(ahead) * u128::from(self.mult) + self.age);
            if now > self.last {
                self.last = now;
                return now;
            }
            if self.last - now <= JITTER_NS {
                return self.give(now);
            }
        }
        self.fold(counter, shared, ordered)
    }

    /// Gives `now` away, or the next value after the last one.
    fn give(&mut self, now: u64) -> u64 {
        // Nobody lives to see 2^64 ns.
        self.last = now.max(self.last.saturating_add(1));
        self.last
    }

    /// Everything that is rare: reads again, with the bridge, and moves the base to here.
    #[cold]
    #[inline(never)]
    fn fold<C: Counter>(&mut self, counter: &C, shared: &Shared, ordered: bool) -> u64 {
        let pair = loop {
            self.follow(shared, ordered);
            let pair = counter.pair();
            if !ordered || shared.epoch() == self.epoch {
                break pair;
            }
        };
        let moved = pair.cpu != self.cpu && self.cpu != NO_CPU;
        let by_bridge = self.bridged(&pair);
        let by_counter = self.counted(&pair, shared);
        let apart_but_moved = moved && shared.bridging() == Bridging::Clock;
        let age = match by_counter {
            Some(age) if !apart_but_moved => age,
            None if !apart_but_moved && pair.width != u64::MAX => {
                shared.disrupt(Reasons::STEPPED);
                by_bridge
            }
            _ => by_bridge,
        };
        self.base = pair.after;
        self.age = age;
        // Kept for a second, so that small errors of many folds add up to one that is noticed. And
        // what a wide bracket says is nothing to compare with.
        let elapsed = pair.ns.saturating_sub(self.checked.1);
        if elapsed >= NS_PER_S && self.long(pair.width) <= shared.tolerance_ns(0) {
            self.checked = (age.saturating_sub(self.since(&pair)), pair.ns);
        }
        let news = counter.news();
        if !news.is_empty() {
            shared.disrupt(news);
        }
        self.folds += 1;
        self.arrive(pair.cpu, moved, shared);
        self.give(whole(age))
    }

    /// The age at the newest reading as the counter has it; none if the bridge says otherwise.
    fn counted(&self, pair: &Pair, shared: &Shared) -> Option<u128> {
        let ahead = pair.after.wrapping_sub(self.base);
        let age = if ahead <= u64::MAX / 2 {
            self.age.saturating_add(self.span(ahead))
        } else {
            // A little behind is another core, within the bound.
            self.age.checked_sub(self.span(ahead.wrapping_neg()))?
        };
        let elapsed = pair.ns.saturating_sub(self.checked.1);
        // A bracket that took long says less.
        let tolerance = shared.tolerance_ns(elapsed);
        let tolerance = tolerance.saturating_add(self.long(pair.width));
        let agree = whole(age).abs_diff(whole(self.bridged(pair))) <= tolerance;
        agree.then_some(age)
    }

    /// The age at the newest reading as the bridge has it.
    fn bridged(&self, pair: &Pair) -> u128 {
        let elapsed = u128::from(pair.ns.saturating_sub(self.checked.1)) << SHIFT;
        let elapsed = elapsed.saturating_add(self.since(pair));
        self.checked.0.saturating_add(elapsed)
    }

    /// From the reading that the bridge's belongs to, to the newest.
    fn since(&self, pair: &Pair) -> u128 {
        self.span(pair.after.wrapping_sub(pair.ticks))
    }

    fn span(&self, ticks: u64) -> u128 {
        u128::from(ticks) * u128::from(self.mult)
    }

    /// So many ticks in nanoseconds; saturates.
    fn long(&self, ticks: u64) -> u64 {
        u64::try_from(self.span(ticks) >> SHIFT).unwrap_or(u64::MAX)
    }

    /// Goes over to the newest line, if there is one. While it is being replaced, the old one does
    /// for whoever need not agree with others.
    fn follow(&mut self, shared: &Shared, wait: bool) {
        let wait = wait || self.epoch == 0;
        let anchor = if wait {
            Some(shared.anchor())
        } else {
            shared.try_anchor()
        };
        let Some(anchor) = anchor.filter(|anchor| anchor.epoch != self.epoch) else {
            return;
        };
        let Anchor {
            epoch,
            ticks,
            age,
            ns,
            scale,
        } = anchor;
        self.epoch = epoch;
        self.base = ticks;
        self.age = age;
        self.mult = scale.mult();
        self.limit = scale.ticks(NS_PER_S);
        self.checked = (age, ns);
        if shared.bridging() == Bridging::Clock {
            // The line was drawn on some core, and its ticks mean nothing on this one.
            self.cpu = ELSEWHERE;
        }
    }

    fn arrive(&mut self, cpu: u32, moved: bool, shared: &Shared) {
        if moved && self.cpu != ELSEWHERE {
            self.migrations += 1;
        }
        if !shared.knows(cpu) {
            self.reasons = self.reasons | Reasons::UNMEASURED;
        }
        self.cpu = cpu;
    }
}

/// No core, and not [`NO_CPU`] either: whoever comes from here has moved.
const ELSEWHERE: u32 = NO_CPU - 1;

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "2^64 ns are 584 years")]
fn whole(age: u128) -> u64 {
    (age >> SHIFT) as u64
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::double::World;
    use crate::{Fold, Scale};

    fn shared(world: &World, bridging: Bridging) -> Shared {
        let scale = Scale::of(&world.rate()).expect("scale");
        Shared::new(&world.thread(0), scale, bridging, 5_000, None)
    }

    #[test]
    fn reads_in_no_time_are_told_apart() {
        let world = World::new(2_000_000_000, 1);
        world.delays(&[0]);
        let (thread, mut rvec) = (world.thread(0), Rvec::new());
        let shared = shared(&world, Bridging::Counter);
        let first = rvec.read(&thread, &shared);
        assert_eq!(
            [1, 2, 3].map(|_| rvec.read(&thread, &shared) - first),
            [1, 2, 3]
        );
        world.pass(1_000);
        assert_eq!(rvec.read(&thread, &shared) - first, 1_000);
    }

    #[test]
    fn folds_are_rare_and_counted() {
        let world = World::new(2_000_000_000, 2);
        let (thread, mut rvec) = (world.thread(0), Rvec::new());
        let shared = shared(&world, Bridging::Counter);
        for _ in 0..1_000 {
            rvec.read(&thread, &shared);
        }
        assert_eq!(rvec.folds(), (1, 0));
        thread.migrate(1);
        rvec.read(&thread, &shared);
        assert_eq!(rvec.folds(), (2, 1));
        world.pass(1_000_000_000);
        rvec.read(&thread, &shared);
        assert_eq!(rvec.folds(), (3, 1));
        let scale = Scale::of(&world.rate()).expect("scale");
        shared.publish(&thread, scale, Fold::Counter);
        rvec.read(&thread, &shared);
        assert_eq!(rvec.folds(), (4, 1));
    }

    #[test]
    fn a_counter_that_freezes_does_not_freeze_time() {
        let world = World::new(2_000_000_000, 1);
        let (thread, mut rvec) = (world.thread(0), Rvec::new());
        let shared = shared(&world, Bridging::Counter);
        rvec.read(&thread, &shared);
        world.skew(-999_999_999);
        for _ in 0..1_000_000 {
            let now = rvec.read(&thread, &shared);
            assert!(now.abs_diff(world.now_ns()) < 40_000, "{now}");
        }
        assert_eq!(shared.reasons(), Reasons::STEPPED);
    }

    #[test]
    fn news_are_said_to_all() {
        let world = World::new(2_000_000_000, 1);
        let (thread, mut rvec) = (world.thread(0), Rvec::new());
        let shared = shared(&world, Bridging::Counter);
        rvec.read(&thread, &shared);
        world.happen(Reasons::MOVED);
        world.pass(2_000_000_000);
        rvec.read(&thread, &shared);
        assert_eq!(shared.reasons(), Reasons::MOVED);
    }
}
