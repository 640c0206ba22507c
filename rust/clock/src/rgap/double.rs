//! A deterministic stand-in for a network between two machines: each way has its own delay, jitter
//! (so that datagrams overtake each other), loss, duplicates and forgeries, and both clocks run as
//! [`World`] does; either side may be taken off its core. Time passes only when told. A [`Tree`] has
//! more machines.

use std::vec::Vec;

use super::{
    Action, Client, Failure, LENGTH, Outcome, Pending, Rules, Served, Server, Standing, Token,
};
use crate::Counter;
use crate::double::{Thread, World};

mod path;
mod tree;

pub use path::{Dice, Path, Shape};
pub use tree::Tree;

/// Of the run in here.
const TOKEN: Token = Token(*b"a run in a dream");

/// Two machines and what is between them.
#[derive(Debug)]
pub struct Net {
    client: Thread,
    server: Thread,
    between: Between,
}

impl Net {
    /// A server that takes so long to answer. The seed decides everything that is random.
    #[must_use]
    pub fn new(paths: [Path; 2], think_ns: u64, seed: u64) -> Self {
        Self {
            client: machine(),
            server: machine(),
            between: Between::new(paths, think_ns, seed),
        }
    }

    /// The client's machine, whose clock may be skewed. Its time passes by [`Net::pass`] only.
    #[must_use]
    pub fn client(&self) -> &World {
        self.client.world()
    }

    #[must_use]
    pub fn server(&self) -> &World {
        self.server.world()
    }

    /// Both clocks at this moment: the client's, the server's.
    #[must_use]
    pub fn clocks(&self) -> (u64, u64) {
        (ticks(&self.client), ticks(&self.server))
    }

    /// What the server has seen.
    #[must_use]
    pub fn served(&self) -> Served {
        self.between.answering.served()
    }

    /// Other paths from now on.
    pub fn reroute(&mut self, paths: [Path; 2]) {
        self.between.paths = paths;
    }

    /// From now on, the client is taken off its core so many times in a thousand that it looks, for
    /// up to so long.
    pub fn disturb(&mut self, often: u64, most_ns: u64) {
        self.between.naps = (often, most_ns);
    }

    pub fn pass(&self, ns: u64) {
        self.client.world().pass(ns);
        self.server.world().pass(ns);
    }

    /// A whole synchronisation.
    ///
    /// # Errors
    /// As [`Client`] ends.
    pub fn synchronise(&mut self, rules: Rules) -> Result<Outcome, Failure> {
        self.synchronise_with(rules, |ns| (ns, Standing::ROOT))
    }

    /// The same with a server that says this of itself when its clock shows that.
    ///
    /// # Errors
    /// As [`Client`] ends.
    pub fn synchronise_with(
        &mut self,
        rules: Rules,
        mut says: impl FnMut(u64) -> (u64, Standing),
    ) -> Result<Outcome, Failure> {
        let machines = [&self.client, &self.server];
        let serve = || says(ticks(&self.server));
        self.between
            .synchronise(&machines, &self.client, serve, rules)
    }
}

fn machine() -> Thread {
    let world = World::new(1_000_000_000, 1);
    world.delays(&[0]);
    world.thread(0)
}

/// A clock of a billion ticks a second.
fn ticks(machine: &Thread) -> u64 {
    machine.read_ordered().ticks
}

/// What is between a client and its server.
#[derive(Debug)]
struct Between {
    answering: Server,
    /// To the server, and back.
    paths: [Path; 2],
    think_ns: u64,
    /// How often of a thousand times, and for how long at most.
    naps: (u64, u64),
    due: Vec<Event>,
    dice: Dice,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    /// In true time.
    at_ns: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// The server receives this.
    Request([u8; LENGTH]),
    /// It has made up its mind.
    Thought(Pending),
    /// The client receives this.
    Reply([u8; LENGTH]),
}

impl Between {
    fn new(paths: [Path; 2], think_ns: u64, seed: u64) -> Self {
        Self {
            answering: Server::new(TOKEN),
            paths,
            think_ns,
            naps: (0, 0),
            due: Vec::new(),
            dice: Dice::new(seed),
        }
    }

    /// Time passes for all machines alike.
    fn synchronise(
        &mut self,
        machines: &[&Thread],
        client: &Thread,
        mut serve: impl FnMut() -> (u64, Standing),
        rules: Rules,
    ) -> Result<Outcome, Failure> {
        let mut asking = Client::new(rules, TOKEN, ticks(client));
        let (often, most_ns) = self.naps;
        loop {
            if self.dice.happens(often) {
                let woken_ns = now(client) + self.dice.below(most_ns.saturating_add(1));
                while now(client) < woken_ns {
                    self.step(machines, &mut serve, woken_ns, false);
                }
            }
            let now_ns = ticks(client);
            match asking.poll(now_ns) {
                Action::Done(done) => return done,
                Action::Send(bytes) => self.send(Kind::Request(bytes), now(client)),
                Action::Wait { until_ns } => {
                    let until_ns = now(client) + until_ns.saturating_sub(now_ns).max(1);
                    let message = self.step(machines, &mut serve, until_ns, true);
                    if let Some((bytes, awake)) = message {
                        asking.receive(&bytes, ticks(client), awake);
                    }
                }
            }
        }
    }

    fn send(&mut self, kind: Kind, now_ns: u64) {
        let (path, bytes) = match kind {
            Kind::Request(bytes) => (self.paths[0], bytes),
            Kind::Reply(bytes) => (self.paths[1], bytes),
            Kind::Thought(_) => return,
        };
        if !self.dice.happens(path.lost) {
            self.fly(path, kind, now_ns);
        }
        if self.dice.happens(path.twice) {
            self.fly(path, kind, now_ns);
        }
        if self.dice.happens(path.forged) {
            let mut bytes = bytes;
            let place = usize::try_from(self.dice.below(40)).unwrap_or(0);
            bytes[place] ^= 1 << self.dice.below(8);
            let is_request = matches!(kind, Kind::Request(_));
            let forged = if is_request {
                Kind::Request
            } else {
                Kind::Reply
            };
            self.fly(path, forged(bytes), now_ns);
        }
    }

    fn fly(&mut self, path: Path, kind: Kind, now_ns: u64) {
        let at_ns = now_ns.saturating_add(path.delay_ns(&mut self.dice));
        self.due.push(Event { at_ns, kind });
    }

    /// Until something happens anywhere, but no longer than this. What arrived at the client if it
    /// `looks`, and whether it was awake when that came.
    fn step(
        &mut self,
        machines: &[&Thread],
        serve: &mut impl FnMut() -> (u64, Standing),
        until_ns: u64,
        looks: bool,
    ) -> Option<([u8; LENGTH], bool)> {
        let now_ns = machines.first().map_or(until_ns, |it| now(it));
        let pass = |ns| machines.iter().for_each(|it| it.world().pass(ns));
        let noticed = |event: &Event| looks || !matches!(event.kind, Kind::Reply(_));
        let due = self.due.iter().enumerate().filter(|(_, it)| noticed(it));
        let next = due.min_by_key(|(_, it)| it.at_ns);
        let Some((next, _)) = next.filter(|(_, it)| it.at_ns <= until_ns) else {
            pass(until_ns.saturating_sub(now_ns));
            return None;
        };
        let event = self.due.swap_remove(next);
        pass(event.at_ns.saturating_sub(now_ns));
        match event.kind {
            Kind::Request(bytes) => {
                let pending = self.answering.receive(&bytes, serve().0)?;
                let at_ns = event.at_ns.max(now_ns) + self.think_ns;
                let kind = Kind::Thought(pending);
                self.due.push(Event { at_ns, kind });
            }
            Kind::Thought(pending) => {
                let (t3, standing) = serve();
                let bytes = pending.answer(t3, standing);
                self.send(Kind::Reply(bytes), event.at_ns.max(now_ns));
            }
            Kind::Reply(bytes) => return Some((bytes, event.at_ns >= now_ns)),
        }
        None
    }
}

/// In true time.
fn now(machine: &Thread) -> u64 {
    machine.world().now_ns()
}
