//! A deterministic stand-in for a machine: time passes only when told or when something is read,
//! and its counter can be skewed, wander, step, differ between cores, and be read late or on
//! another core than thought. The bridge clock is the truth.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use crate::{Counter, Rate, RateSource, Reasons, Sample};

const BILLION: i128 = 1_000_000_000;
/// 10^12 millihertz and nanoseconds, 10^9 parts per billion.
const PER_TICK: i128 = 1_000_000_000_000 * BILLION;

/// The machine. Clones are the same machine.
#[derive(Clone, Debug)]
pub struct World(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    now_ns: u64,
    ticks: u64,
    /// What is left of a tick, in 10^-21.
    fraction: i128,
    millihertz: u64,
    skew_ppb: i64,
    wander: Option<Wander>,
    offsets: Vec<i64>,
    delays: Cycle,
    stale: Cycle,
    paired: bool,
    news: Reasons,
}

/// A rate that goes up and down like a triangle.
#[derive(Clone, Copy, Debug)]
struct Wander {
    most_ppb: i64,
    period_ns: u64,
}

impl Wander {
    fn at(self, ns: u64) -> i64 {
        let half = self.period_ns / 2;
        let within = ns % (2 * half);
        // From +most to −most and back, by the distance from the middle of the period.
        let distance = within.abs_diff(half);
        let part = i128::from(self.most_ppb) * (2 * i128::from(distance) - i128::from(half));
        i64::try_from(part / i128::from(half)).unwrap_or(self.most_ppb)
    }
}

/// Numbers, over and over again.
#[derive(Clone, Debug, Default)]
struct Cycle {
    numbers: Vec<u64>,
    next: usize,
}

impl Cycle {
    fn next(&mut self) -> u64 {
        let number = self.numbers.get(self.next).copied().unwrap_or(0);
        self.next = (self.next + 1) % self.numbers.len().max(1);
        number
    }
}

impl World {
    /// A machine with so many cores and a counter of so many hertz, all alike. A read takes 20 ns.
    #[must_use]
    pub fn new(hertz: u64, cores: usize) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            now_ns: 1_000_000_000,
            ticks: 1 << 40,
            fraction: 0,
            millihertz: hertz.saturating_mul(1000),
            skew_ppb: 0,
            wander: None,
            offsets: std::vec![0; cores.max(1)],
            delays: Cycle {
                numbers: std::vec![20],
                next: 0,
            },
            stale: Cycle::default(),
            paired: true,
            news: Reasons::NONE,
        })))
    }

    /// The rate that the machine states: that of its counter without skew or wander.
    #[must_use]
    pub fn rate(&self) -> Rate {
        let millihertz = self.inner().millihertz;
        Rate {
            millihertz,
            sigma_ppb: 0,
            bound_ppb: 0,
            source: RateSource::Exact,
        }
    }

    /// The truth, in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.inner().now_ns
    }

    pub fn pass(&self, ns: u64) {
        self.inner().pass(ns);
    }

    /// From now on, the counter runs faster by so much than stated, or slower.
    pub fn skew(&self, ppb: i64) {
        self.inner().skew_ppb = ppb.max(1 - 1_000_000_000);
    }

    /// From now on, its rate goes up and down by so much in this time (at least 4 ns).
    pub fn wander(&self, most_ppb: i64, period_ns: u64) {
        self.inner().wander = Some(Wander {
            most_ppb,
            period_ns: period_ns.max(4),
        });
    }

    /// All cores' counters jump.
    pub fn step(&self, ticks: i64) {
        let mut inner = self.inner();
        inner.ticks = inner.ticks.wrapping_add_signed(ticks);
    }

    /// One core's counter jumps, and is apart from then on.
    pub fn step_core(&self, cpu: u32, ticks: i64) {
        let mut inner = self.inner();
        let core = inner.core(cpu);
        if let Some(offset) = inner.offsets.get_mut(core) {
            *offset = offset.wrapping_add(ticks);
        }
    }

    /// How long reads take, one after the other, over and over again.
    pub fn delays(&self, ns: &[u64]) {
        self.inner().delays = Cycle {
            numbers: ns.to_vec(),
            next: 0,
        };
    }

    /// How many ticks old the value of an unordered read is, likewise.
    pub fn stale(&self, ticks: &[u64]) {
        self.inner().stale = Cycle {
            numbers: ticks.to_vec(),
            next: 0,
        };
    }

    /// Whether counter and core are read in one go. Otherwise a forced migration comes in between.
    pub fn paired(&self, paired: bool) {
        self.inner().paired = paired;
    }

    /// Something happens to the machine that no counter tells of.
    pub fn happen(&self, news: Reasons) {
        let mut inner = self.inner();
        inner.news = inner.news | news;
    }

    /// A thread on a core (modulo their number).
    #[must_use]
    pub fn thread(&self, cpu: u32) -> Thread {
        let place = Place {
            cpu,
            every: 0,
            reads: 0,
        };
        Thread {
            world: self.clone(),
            place: Mutex::new(place),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn pass(&mut self, ns: u64) {
        let mut left = ns;
        while left > 0 {
            // A wandering rate is taken as steady for a 32nd of its period.
            let slice = self
                .wander
                .map_or(left, |wander| (wander.period_ns / 32).max(1).min(left));
            let slice = slice.min(1_000_000_000_000);
            let wander = self.wander.map_or(0, |wander| wander.at(self.now_ns));
            let parts = (BILLION + i128::from(self.skew_ppb) + i128::from(wander)).max(1);
            self.fraction += i128::from(slice) * i128::from(self.millihertz) * parts;
            let whole = u64::try_from(self.fraction / PER_TICK).unwrap_or(u64::MAX);
            self.fraction %= PER_TICK;
            self.ticks = self.ticks.wrapping_add(whole);
            self.now_ns = self.now_ns.saturating_add(slice);
            left -= slice;
        }
    }

    fn core(&self, cpu: u32) -> usize {
        cpu as usize % self.offsets.len()
    }

    fn ticks_on(&self, cpu: u32) -> u64 {
        let offset = self.offsets.get(self.core(cpu)).copied().unwrap_or(0);
        self.ticks.wrapping_add_signed(offset)
    }
}

/// A thread of that machine, and the counter as it sees it.
#[derive(Debug)]
pub struct Thread {
    world: World,
    place: Mutex<Place>,
}

#[derive(Debug)]
struct Place {
    cpu: u32,
    every: u32,
    reads: u32,
}

impl Thread {
    /// The machine it runs on.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Moves the thread to a core (modulo their number).
    pub fn migrate(&self, cpu: u32) {
        self.place().cpu = cpu;
    }

    /// Forces it to the next core in every so many-th read; 0 for never.
    pub fn migrate_every(&self, reads: u32) {
        self.place().every = reads;
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sample(&self, ordered: bool) -> Sample {
        let mut place = self.place();
        let mut inner = self.world.inner();
        let delay = inner.delays.next();
        inner.pass(delay);
        let cpu_before = inner.core(place.cpu);
        place.reads = place.reads.wrapping_add(1);
        if place.every > 0 && place.reads.is_multiple_of(place.every) {
            place.cpu = place.cpu.wrapping_add(1);
        }
        let stale = if ordered { 0 } else { inner.stale.next() };
        let cpu_after = inner.core(place.cpu);
        let cpu_shown = if inner.paired { cpu_after } else { cpu_before };
        Sample {
            ticks: inner.ticks_on(place.cpu).wrapping_sub(stale),
            cpu: u32::try_from(cpu_shown).unwrap_or(0),
        }
    }
}

impl Counter for Thread {
    fn read(&self) -> Sample {
        self.sample(false)
    }

    fn read_ordered(&self) -> Sample {
        self.sample(true)
    }

    fn bridge_ns(&self) -> u64 {
        let mut inner = self.world.inner();
        let delay = inner.delays.next();
        inner.pass(delay);
        inner.now_ns
    }

    fn paired(&self) -> bool {
        self.world.inner().paired
    }

    fn news(&self) -> Reasons {
        self.world.inner().news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_as_told() {
        let world = World::new(2_000_000_000, 2);
        world.delays(&[0]);
        let thread = world.thread(0);
        let first = thread.read().ticks;
        world.pass(1_000);
        assert_eq!(thread.read().ticks - first, 2_000);
        world.skew(50_000);
        world.pass(1_000_000_000);
        assert_eq!(thread.read().ticks - first, 2_000_000_000 + 2_000 + 100_000);
        world.step(-500);
        assert_eq!(thread.read().ticks - first, 2_000_000_000 + 2_000 + 99_500);
        assert_eq!(thread.bridge_ns(), 2_000_001_000);
    }

    #[test]
    fn a_wander_comes_back() {
        let world = World::new(1_000_000_000, 1);
        world.delays(&[0]);
        world.wander(10_000, 1 << 30);
        let thread = world.thread(0);
        let first = thread.read().ticks;
        let mut most = 0;
        for _ in 0..32 {
            world.pass(1 << 25);
            let off = (thread.read().ticks - first).abs_diff(world.now_ns() - 1_000_000_000);
            most = off.max(most);
        }
        // Half a period at 5 ppm on average is 2.7 us either way.
        assert!((1_000..6_000).contains(&most), "{most}");
        assert!((thread.read().ticks - first).abs_diff(1 << 30) < 1_000);
    }

    #[test]
    fn cores_are_apart_and_threads_are_moved() {
        let world = World::new(1_000_000_000, 2);
        world.delays(&[0]);
        world.step_core(1, 77);
        let thread = world.thread(0);
        let first = thread.read();
        thread.migrate(1);
        let moved = Sample {
            ticks: first.ticks + 77,
            cpu: 1,
        };
        assert_eq!(thread.read(), moved);
        thread.migrate_every(1);
        assert_eq!(thread.read(), first);
        world.paired(false);
        assert_eq!(thread.read(), Sample { cpu: 0, ..moved });
    }

    #[test]
    fn unordered_reads_are_stale() {
        let world = World::new(1_000_000_000, 1);
        world.delays(&[10]);
        world.stale(&[0, 30]);
        let thread = world.thread(0);
        let ticks = [
            thread.read().ticks,
            thread.read().ticks,
            thread.read_ordered().ticks,
        ];
        assert_eq!((ticks[0] - ticks[1], ticks[2] - ticks[0]), (20, 20));
    }
}
