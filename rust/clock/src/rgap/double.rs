//! A deterministic stand-in for a network between two machines: each way has its own delay, jitter
//! (so that datagrams overtake each other), loss, duplicates and forgeries, and both clocks run as
//! [`World`] does. Time passes only when told.

use std::vec::Vec;

use super::{
    Action, Client, Failure, LENGTH, Outcome, Pending, Rules, Served, Server, Standing, Token,
};
use crate::Counter;
use crate::double::{Thread, World};

/// Of the run in here.
const TOKEN: Token = Token(*b"a run in a dream");

/// One way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Path {
    /// No datagram takes less, in nanoseconds.
    pub least_ns: u64,
    /// Some take up to so much more.
    pub jitter_ns: u64,
    /// How many of a thousand do not arrive.
    pub lost: u64,
    /// How many of a thousand arrive twice.
    pub twice: u64,
    /// How many of a thousand are followed by one with a wrong byte outside of its answer.
    pub forged: u64,
}

/// Two machines and what is between them.
#[derive(Debug)]
pub struct Net {
    client: Thread,
    server: Thread,
    answering: Server,
    /// To the server, and back.
    paths: [Path; 2],
    think_ns: u64,
    due: Vec<Event>,
    state: u64,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    /// In true time.
    at_ns: u64,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// The server receives this.
    There([u8; LENGTH]),
    /// It has made up its mind.
    Thought(Pending),
    /// The client receives this.
    Back([u8; LENGTH]),
}

impl Net {
    /// A server that takes so long to answer. The seed decides everything that is random.
    #[must_use]
    pub fn new(paths: [Path; 2], think_ns: u64, seed: u64) -> Self {
        let machine = || {
            let world = World::new(1_000_000_000, 1);
            world.delays(&[0]);
            world.thread(0)
        };
        Self {
            client: machine(),
            server: machine(),
            answering: Server::new(TOKEN),
            paths,
            think_ns,
            due: Vec::new(),
            state: seed | 1,
        }
    }

    /// The client's machine, whose clock may be skewed. Its time passes by [`Net::pass`] only.
    #[must_use]
    pub fn client(&self) -> &World {
        self.client.world()
    }

    /// The server's.
    #[must_use]
    pub fn server(&self) -> &World {
        self.server.world()
    }

    /// Both clocks at this moment: the client's, the server's.
    #[must_use]
    pub fn clocks(&self) -> (u64, u64) {
        (
            self.client.read_ordered().ticks,
            self.server.read_ordered().ticks,
        )
    }

    /// What the server has seen.
    #[must_use]
    pub fn served(&self) -> Served {
        self.answering.served()
    }

    /// Other paths from now on.
    pub fn reroute(&mut self, paths: [Path; 2]) {
        self.paths = paths;
    }

    /// Time passes, for both.
    pub fn pass(&self, ns: u64) {
        self.client.world().pass(ns);
        self.server.world().pass(ns);
    }

    /// A whole synchronisation.
    ///
    /// # Errors
    /// As [`Client`] ends.
    pub fn synchronise(&mut self, rules: Rules) -> Result<Outcome, Failure> {
        let mut client = Client::new(rules, TOKEN, self.clocks().0);
        loop {
            let now_ns = self.clocks().0;
            match client.poll(now_ns) {
                Action::Done(done) => return done,
                Action::Send(bytes) => self.send(What::There(bytes)),
                Action::Wait { until_ns } => {
                    if let Some(bytes) = self.step(until_ns.saturating_sub(now_ns).max(1)) {
                        client.receive(&bytes, self.clocks().0, true);
                    }
                }
            }
        }
    }

    fn now_ns(&self) -> u64 {
        self.client.world().now_ns()
    }

    fn send(&mut self, what: What) {
        let (path, bytes) = match what {
            What::There(bytes) => (self.paths[0], bytes),
            What::Back(bytes) => (self.paths[1], bytes),
            What::Thought(_) => return,
        };
        if !self.happens(path.lost) {
            self.fly(path, what);
        }
        if self.happens(path.twice) {
            self.fly(path, what);
        }
        if self.happens(path.forged) {
            let mut bytes = bytes;
            let place = usize::try_from(self.random() % 40).unwrap_or(0);
            bytes[place] ^= 1 << (self.random() % 8);
            let there = matches!(what, What::There(_));
            let forged = if there { What::There } else { What::Back };
            self.fly(path, forged(bytes));
        }
    }

    fn fly(&mut self, path: Path, what: What) {
        let late_ns = self.random() % path.jitter_ns.saturating_add(1);
        let at_ns = self.now_ns() + path.least_ns + late_ns;
        self.due.push(Event { at_ns, what });
    }

    /// Until something happens anywhere, but no longer than this. What arrived at the client.
    fn step(&mut self, most_ns: u64) -> Option<[u8; LENGTH]> {
        let until_ns = self.now_ns() + most_ns;
        let next = self.due.iter().enumerate().min_by_key(|(_, it)| it.at_ns);
        let Some((next, _)) = next.filter(|(_, it)| it.at_ns <= until_ns) else {
            self.pass(most_ns);
            return None;
        };
        let event = self.due.swap_remove(next);
        self.pass(event.at_ns.saturating_sub(self.now_ns()));
        match event.what {
            What::There(bytes) => {
                let pending = self.answering.receive(&bytes, self.clocks().1)?;
                let at_ns = self.now_ns() + self.think_ns;
                let what = What::Thought(pending);
                self.due.push(Event { at_ns, what });
            }
            What::Thought(pending) => {
                let bytes = pending.answer(self.clocks().1, Standing::ROOT);
                self.send(What::Back(bytes));
            }
            What::Back(bytes) => return Some(bytes),
        }
        None
    }

    fn happens(&mut self, of_a_thousand: u64) -> bool {
        self.random() % 1_000 < of_a_thousand
    }

    /// Marsaglia's xorshift64.
    fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state >> 8
    }
}
