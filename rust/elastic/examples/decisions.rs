//! How many decisions a second of CPU time: `decisions POLICY NODES ROOM EVENTS` prints one JSON object.
//!
//! Viewers come and finish at random so that about nine tenths of the seats of that many nodes are
//! taken; nodes come and go at once, as the policy has it. Only [`Machine::handle`] is timed, by the CPU
//! time of this thread: by the clock it would tell of what else runs. The random choices are made before.

mod cpu;

use cpu::cpu_s;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::json;
use ullage_elastic::{Action, Allocation, AnyPolicy, Config, Event, Machine};

/// Between two viewers' events.
const STEP_NS: u64 = 1_000_000;
/// What one batch of random choices is made for.
const BATCH: usize = 1 << 16;

/// A machine whose nodes come and go at once.
struct Driver<M> {
    handle: M,
    actions: Vec<Action>,
    due: Vec<Event>,
    events: u64,
}

impl<M: FnMut(u64, Event, &mut Vec<Action>)> Driver<M> {
    #[inline]
    fn step(&mut self, at: u64, event: Event) {
        (self.handle)(at, event, &mut self.actions);
        self.events += 1;
        while !self.actions.is_empty() {
            for action in self.actions.drain(..) {
                match action {
                    Action::Allocate { node } => self.due.push(Event::NodeReady { node }),
                    Action::Release { node } => self.due.push(Event::Released { node }),
                    _ => {}
                }
            }
            while let Some(event) = self.due.pop() {
                (self.handle)(at, event, &mut self.actions);
                self.events += 1;
            }
        }
    }
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [policy, nodes, room, events] = arguments.as_slice() else {
        eprintln!("usage: decisions POLICY NODES ROOM EVENTS");
        std::process::exit(2);
    };
    let number = |text: &str| text.parse::<u64>().expect("a whole number");
    let (nodes, room, events) = (number(nodes), number(room), number(events));
    let policy = AnyPolicy::try_from(json!({"name": policy})).expect("a policy");
    let room = u32::try_from(room).expect("room of a node");
    let config = Config {
        allocation: Allocation::OnePerNeed,
        ..Config::new(room)
    };

    let mut dense = Machine::dense(config, policy.clone()).expect("a configuration");
    let mut hashed = Machine::new(config, policy).expect("a configuration");
    let seats = nodes * u64::from(room) * 9 / 10;
    let small = measure(seats, events, 1, |at, event, out| {
        dense.handle(at, event, out).expect("a possible event");
    });
    let any = measure(seats, events, 0x9e37_79b9_7f4a_7c15, |at, event, out| {
        hashed.handle(at, event, out).expect("a possible event");
    });
    println!(
        "{}",
        json!({"viewers": seats, "small_ids": small, "any_ids": any})
    );
}

/// Events a second of CPU time, after as many viewers have come as there are to be. Ids are 0, 1, 2 … times `spread`.
#[allow(clippy::cast_precision_loss)]
fn measure(
    seats: u64,
    count: u64,
    spread: u64,
    handle: impl FnMut(u64, Event, &mut Vec<Action>),
) -> f64 {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut driver = Driver {
        handle,
        actions: Vec::new(),
        due: Vec::new(),
        events: 0,
    };
    let id = |number: u64| number.wrapping_mul(spread);
    driver.step(0, Event::Tick);
    for number in 0..seats {
        driver.step(0, Event::Request { client: id(number) });
    }
    // One of those present, chosen evenly, finishes, and comes again a little later.
    let (mut at, mut seconds, before) = (0, 0.0, driver.events);
    let mut chosen = Vec::with_capacity(BATCH);
    while driver.events - before < count {
        chosen.clear();
        chosen.extend((0..BATCH).map(|_| id(random.random_range(0..seats))));
        let start = cpu_s();
        for client in &chosen {
            at += STEP_NS;
            driver.step(at, Event::Finished { client: *client });
            driver.step(at, Event::Request { client: *client });
        }
        seconds += cpu_s() - start;
    }
    (driver.events - before) as f64 / seconds
}
