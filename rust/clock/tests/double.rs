//! RVEC on the double, whatever it does.

use proptest::prelude::*;
use ullage_clock::double::{Thread, World};
use ullage_clock::{Bridging, CpuSet, Fold, Rate, Reasons, Rvec, Scale, Shared};

const CORES: u32 = 4;
const HERTZ: u64 = 2_100_000_000;
const DRIFT_PPB: u32 = 5_000;

#[derive(Clone, Debug)]
enum Event {
    Read { thread: usize, ordered: bool },
    Pass(u64),
    Migrate { thread: usize, cpu: u32 },
    Force { thread: usize, every: u32 },
    Skew(i64),
    Wander(i64, u64),
    Step(i64),
    StepCore(u32, i64),
    Rate { off_ppb: i64, fold: Fold },
}

/// What happens to a good counter: it is read, and threads are moved.
fn harmless() -> impl Strategy<Value = Event> {
    prop_oneof![
        10 => (0..3_usize, any::<bool>()).prop_map(|(thread, ordered)| Event::Read { thread, ordered }),
        2 => prop_oneof![0..200_u64, 0..10_000_000_u64, 0..100_000_000_000_u64].prop_map(Event::Pass),
        2 => (0..3_usize, 0..CORES).prop_map(|(thread, cpu)| Event::Migrate { thread, cpu }),
        1 => (0..3_usize, 0..9_u32).prop_map(|(thread, every)| Event::Force { thread, every }),
    ]
}

fn anything() -> impl Strategy<Value = Event> {
    let jump = prop_oneof![-100..100_i64, -1_000_000..1_000_000_i64, any::<i64>()];
    let fold = prop_oneof![Just(Fold::Counter), Just(Fold::Bridge)];
    prop_oneof![
        12 => harmless(),
        1 => (-900_000_000..900_000_000_i64).prop_map(Event::Skew),
        1 => (0..200_000_i64, 1_000_000_000..100_000_000_000_u64)
            .prop_map(|(most, period)| Event::Wander(most, period)),
        1 => jump.clone().prop_map(Event::Step),
        1 => (0..CORES, jump).prop_map(|(cpu, ticks)| Event::StepCore(cpu, ticks)),
        1 => (-500_000_000..500_000_000_i64, fold)
            .prop_map(|(off_ppb, fold)| Event::Rate { off_ppb, fold }),
    ]
}

struct Machine {
    world: World,
    shared: Shared,
    threads: Vec<(Thread, Rvec)>,
}

impl Machine {
    fn new(world: World, bridging: Bridging) -> Self {
        let mut cpus = CpuSet::EMPTY;
        (0..CORES).for_each(|cpu| cpus.add(cpu));
        let scale = Scale::of(&world.rate()).expect("scale");
        let shared = Shared::new(&world.thread(0), scale, bridging, DRIFT_PPB, Some(cpus));
        let threads = (0..3).map(|cpu| (world.thread(cpu), Rvec::new())).collect();
        Self {
            world,
            shared,
            threads,
        }
    }

    fn read(&mut self, thread: usize, ordered: bool) -> u64 {
        let (counter, rvec) = &mut self.threads[thread];
        if ordered {
            rvec.read_ordered(counter, &self.shared)
        } else {
            rvec.read(counter, &self.shared)
        }
    }

    /// What was read, if it was a read.
    fn happen(&mut self, event: &Event) -> Option<(usize, bool, u64)> {
        match *event {
            Event::Read { thread, ordered } => {
                return Some((thread, ordered, self.read(thread, ordered)));
            }
            Event::Pass(ns) => self.world.pass(ns),
            Event::Migrate { thread, cpu } => self.threads[thread].0.migrate(cpu),
            Event::Force { thread, every } => self.threads[thread].0.migrate_every(every),
            Event::Skew(ppb) => self.world.skew(ppb),
            Event::Wander(most, period) => self.world.wander(most, period),
            Event::Step(ticks) => self.world.step(ticks),
            Event::StepCore(cpu, ticks) => self.world.step_core(cpu, ticks),
            Event::Rate { off_ppb, fold } => self.publish(off_ppb, fold),
        }
        None
    }

    fn publish(&self, off_ppb: i64, fold: Fold) {
        let rate = self.world.rate();
        let parts = i128::from(rate.millihertz) * (1_000_000_000 + i128::from(off_ppb));
        let millihertz = u64::try_from(parts / 1_000_000_000).expect("rate");
        let scale = Scale::of(&Rate { millihertz, ..rate }).expect("scale");
        self.shared.publish(&self.threads[0].0, scale, fold);
    }

    fn reasons(&self) -> Reasons {
        let all = self.threads.iter().map(|(_, rvec)| rvec.reasons());
        all.fold(self.shared.reasons(), |all, reasons| all | reasons)
    }
}

fn bridging() -> impl Strategy<Value = Bridging> {
    prop_oneof![Just(Bridging::Counter), Just(Bridging::Clock)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The one promise that always holds.
    #[test]
    fn strictly_increasing_whatever_happens(
        events in proptest::collection::vec(anything(), 1..300),
        bridging in bridging(),
        paired in any::<bool>(),
        delays in proptest::collection::vec(0..100_000_u64, 1..8),
        stale in proptest::collection::vec(0..2_000_u64, 1..8),
    ) {
        let world = World::new(HERTZ, CORES as usize);
        world.delays(&delays);
        world.stale(&stale);
        world.paired(paired);
        let mut machine = Machine::new(world, bridging);
        let mut last = [0; 3];
        for event in &events {
            if let Some((thread, _, ns)) = machine.happen(event) {
                prop_assert!(ns > last[thread], "{ns} after {} at {event:?}", last[thread]);
                last[thread] = ns;
            }
        }
    }

    /// A good counter: ordered reads of all threads in one order, every value the truth, and nothing
    /// to complain of, however long the threads stay away or are moved.
    #[test]
    fn exact_and_comparable_on_a_good_counter(
        events in proptest::collection::vec(harmless(), 1..300),
    ) {
        let mut machine = Machine::new(World::new(HERTZ, CORES as usize), Bridging::Counter);
        let mut last = 0;
        for event in &events {
            let Some((_, ordered, ns)) = machine.happen(event) else { continue };
            // The line is off by half a bracket, of 40 ns.
            prop_assert!(ns.abs_diff(machine.world.now_ns()) <= 21 + 2);
            if ordered {
                prop_assert!(ns > last, "{ns} after {last}");
                last = ns;
            }
        }
        prop_assert_eq!(machine.reasons(), Reasons::NONE);
    }

    /// Cores that are within the bound of each other: never further back than the bound.
    #[test]
    fn comparable_within_the_bound(
        events in proptest::collection::vec(harmless(), 1..300),
        offsets in proptest::collection::vec(-210..=210_i64, CORES as usize),
    ) {
        let world = World::new(HERTZ, CORES as usize);
        for (cpu, ticks) in (0..CORES).zip(&offsets) {
            world.step_core(cpu, *ticks);
        }
        let mut machine = Machine::new(world, Bridging::Counter);
        let mut last = 0;
        for event in &events {
            if let Some((_, true, ns)) = machine.happen(event) {
                prop_assert!(ns + 201 > last, "{ns} after {last}");
                last = last.max(ns);
            }
        }
        prop_assert_eq!(machine.reasons(), Reasons::NONE);
    }

    /// Cores that are far apart: every thread tells the truth, but for what a migration costs.
    #[test]
    fn cores_apart_are_bridged(
        events in proptest::collection::vec(harmless(), 1..300),
        offsets in proptest::collection::vec(any::<i64>(), CORES as usize),
    ) {
        let world = World::new(HERTZ, CORES as usize);
        for (cpu, ticks) in (0..CORES).zip(&offsets) {
            world.step_core(cpu, *ticks);
        }
        let mut machine = Machine::new(world, Bridging::Clock);
        for event in &events {
            if let Some((_, _, ns)) = machine.happen(event) {
                let off = ns.abs_diff(machine.world.now_ns());
                prop_assert!(off <= 300, "{off} off at {event:?}");
            }
        }
    }

    /// A jump of the counter is noticed at the next fold, said, and time goes on by the bridge.
    #[test]
    fn a_jump_is_absorbed_aloud(
        ticks in prop_oneof![i64::MIN / 4..-1_000_000_000, 3_000_000_000..i64::MAX / 4],
        ordered in any::<bool>(),
        bridging in bridging(),
    ) {
        let mut machine = Machine::new(World::new(HERTZ, CORES as usize), bridging);
        machine.read(0, ordered);
        machine.world.pass(100_000_000);
        machine.read(0, ordered);
        machine.world.step(ticks);
        let ns = machine.read(0, ordered);
        prop_assert!(ns.abs_diff(machine.world.now_ns()) <= 100);
        prop_assert_eq!(machine.reasons(), Reasons::STEPPED);
    }

    /// Changes of rate at any moment leave no jump, and all threads tell the same time after them,
    /// whenever each of them notices.
    #[test]
    fn a_change_of_rate_is_no_jump(
        changes in proptest::collection::vec((-5_000..5_000_i64, 0..900_000_000_u64), 1..20),
    ) {
        let mut machine = Machine::new(World::new(HERTZ, CORES as usize), Bridging::Counter);
        let mut last = machine.read(0, true);
        for (number, (off_ppb, ns)) in changes.iter().enumerate() {
            let before = machine.read(0, true);
            machine.publish(*off_ppb, Fold::Counter);
            let after = machine.read(1, true);
            prop_assert!(before > last && after > before && after - before < 1_000);
            last = after;
            machine.world.pass(*ns);
            if number % 3 == 0 {
                let both = (machine.read(1, true), machine.read(2, true));
                prop_assert!(both.1 > both.0 && both.1 - both.0 < 400, "{both:?}");
                last = both.0;
            }
        }
    }
}

#[test]
fn a_core_that_was_not_measured_is_said() {
    let world = World::new(HERTZ, 6);
    let mut machine = Machine::new(world, Bridging::Counter);
    machine.read(0, false);
    assert_eq!(machine.reasons(), Reasons::NONE);
    machine.threads[0].0.migrate(5);
    machine.read(0, false);
    machine.threads[0].0.migrate(0);
    machine.read(0, false);
    assert_eq!(machine.reasons(), Reasons::UNMEASURED);
    assert_eq!(machine.threads[0].1.folds(), (3, 2));
}

#[test]
fn wander_within_the_drift_is_no_jump() {
    let world = World::new(HERTZ, CORES as usize);
    world.wander(4_000, 30_000_000_000);
    let mut machine = Machine::new(world, Bridging::Counter);
    for _ in 0..10_000 {
        machine.read(0, false);
        machine.world.pass(70_000_000);
    }
    assert_eq!(machine.reasons(), Reasons::NONE);
}
