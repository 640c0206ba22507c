//! What RVEC reads: a counter, the core it was read on, and now and then another clock beside it.

use crate::Reasons;

/// The core of a counter that is not a matter of cores.
pub const NO_CPU: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The counter, in its own ticks.
    pub ticks: u64,
    /// Where it was read, or [`NO_CPU`].
    pub cpu: u32,
}

/// The counter and the bridge clock at the same moment, as well as two reads can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The counter in the middle of the bracket: what `ns` belongs to.
    pub ticks: u64,
    /// The counter after all this: the newest reading.
    pub after: u64,
    /// Where all readings were taken; two different cores never make a pair.
    pub cpu: u32,
    /// The bridge clock, in nanoseconds.
    pub ns: u64,
    /// How long the bracket was, in ticks: `ns` is true for `ticks` ± half of it.
    pub width: u64,
}

/// How often a bracket is tried again for a narrower one.
const TRIES: u32 = 4;
/// A thread that is moved in every bracket is let go after so many.
const MOST_TRIES: u32 = 64;

/// A counter that runs at a steady rate, and a clock that does not depend on the core.
///
/// Implementors promise that [`Sample::cpu`] is where [`Sample::ticks`] was read when
/// [`Counter::paired`] says so; otherwise the two may be a few instructions, hence a migration,
/// apart.
pub trait Counter {
    /// The counter now. May be executed before instructions that stand earlier in the program.
    fn read(&self) -> Sample;

    /// The counter now, after everything earlier in the program has been done: what this thread has
    /// seen of others happened before.
    fn read_ordered(&self) -> Sample;

    /// A clock in nanoseconds that all cores agree on, for what the counter cannot tell. Slower.
    fn bridge_ns(&self) -> u64;

    /// Whether `ticks` and `cpu` of a sample are read in one go.
    fn paired(&self) -> bool;

    /// What has happened to the machine, since this was last asked, that no counter tells of. Asked in
    /// every fold, so about once a second.
    fn news(&self) -> Reasons {
        Reasons::NONE
    }

    /// Counter and bridge at the same moment: the narrowest of a few brackets.
    fn pair(&self) -> Pair {
        let mut best: Option<Pair> = None;
        for number in 1..=MOST_TRIES {
            let before = self.read_ordered();
            let ns = self.bridge_ns();
            let after = self.read_ordered();
            let width = after.ticks.wrapping_sub(before.ticks);
            let pair = Pair {
                ticks: before.ticks.wrapping_add(width / 2),
                after: after.ticks,
                cpu: after.cpu,
                ns,
                width,
            };
            // Half the range and more is a counter that went backwards in between.
            if before.cpu != after.cpu || width > u64::MAX / 2 {
                continue;
            }
            best = match best {
                // The older bracket is the better one, but now is now.
                Some(best) if best.cpu == pair.cpu && best.width <= width => Some(Pair {
                    after: pair.after,
                    ..best
                }),
                _ => Some(pair),
            };
            if let Some(pair) = best
                && number >= TRIES
            {
                return pair;
            }
        }
        self.torn()
    }

    /// What is left when a thread never stays long enough: wide, and so not to be relied upon.
    #[doc(hidden)]
    fn torn(&self) -> Pair {
        let ns = self.bridge_ns();
        let sample = self.read_ordered();
        Pair {
            ticks: sample.ticks,
            after: sample.ticks,
            cpu: sample.cpu,
            ns,
            width: u64::MAX,
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::double::World;

    #[test]
    fn a_pair_is_the_narrowest_bracket_and_now() {
        let world = World::new(1_000_000_000, 2);
        // Per bracket: a late bridge, a late counter, and one that is quick.
        world.delays(&[10, 900, 10, 10, 10, 900, 10, 10, 10, 10, 400, 10]);
        let thread = world.thread(0);
        let pair = thread.pair();
        let now = thread.world().now_ns();
        assert_eq!((pair.width, pair.cpu), (20, 0));
        let since = pair.after - pair.ticks;
        assert_eq!(now - pair.ns, since);
        assert_eq!(since, 10 + 420);
    }

    #[test]
    fn a_pair_is_of_one_core() {
        let world = World::new(1_000_000_000, 2);
        world.step_core(1, 1 << 50);
        let thread = world.thread(0);
        thread.migrate_every(3);
        for _ in 0..100 {
            let pair = thread.pair();
            assert!(
                pair.width <= 40 && pair.after - pair.ticks < 10_000,
                "{pair:?}"
            );
        }
    }

    #[test]
    fn who_never_stays_gets_a_pair_that_says_so() {
        let thread = World::new(1_000_000_000, 2).thread(0);
        thread.migrate_every(1);
        assert_eq!(thread.pair().width, u64::MAX);
    }
}
