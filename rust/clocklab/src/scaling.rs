//! How synchronisation scales to more nodes than there are: flat, in two levels, and by
//! trees, simulated with exchange times that were measured.
//!
//! The model: node 0 has the time. Who is synchronised serves others, one synchronisation after the
//! other, each as long as its exchanges take. Every exchange of every synchronisation is drawn by
//! itself from the measured ones, with replacement: nothing is replaced by a normal distribution or
//! by a mean. What is not in it: exchanges that get slower when many nodes share a network.

use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::error::need;
use crate::{Error, Interval, Progress};

mod times;
mod topology;

use times::Source;
pub use times::{Synchronisation, Times};
pub use topology::Topology;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    pub times: Times,
    /// Numbers of nodes, the first server among them, 2 or more.
    #[serde(default = "to_a_million")]
    pub nodes: Vec<u64>,
    /// Who synchronises with whom.
    #[serde(default = "Topology::usual")]
    pub topologies: Vec<Topology>,
    /// Repetitions of each, 1 or more; under six give no 95 % interval.
    #[serde(default = "fifteen")]
    pub repetitions: u32,
    /// Stops after so many seconds, and reports what it has.
    #[serde(default = "ten_minutes")]
    pub cap_s: u64,
    #[serde(default)]
    pub seed: u64,
}

impl Options {
    /// The usual options with these times.
    #[must_use]
    pub fn new(times: Times) -> Self {
        Self {
            times,
            nodes: to_a_million(),
            topologies: Topology::usual(),
            repetitions: fifteen(),
            cap_s: ten_minutes(),
            seed: 0,
        }
    }
}

/// 2, 5, 10, 20, 50 … 10^6.
fn to_a_million() -> Vec<u64> {
    let decades = (0..6).map(|power| 10_u64.pow(power));
    let steps = decades.flat_map(|decade| [2, 5, 10].map(|step| step * decade));
    steps.collect()
}

fn fifteen() -> u32 {
    15
}

fn ten_minutes() -> u64 {
    600
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// One for each number of nodes and topology.
    pub points: Vec<Point>,
    /// The cap came first: points are missing.
    pub capped: bool,
}

/// One number of nodes in one topology.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Who synchronises with whom.
    pub topology: Topology,
    /// How many nodes, the first server among them.
    pub nodes: u64,
    /// Synchronisations between the first server and the furthest node.
    pub depth: u32,
    /// Until the last node is synchronised, in nanoseconds, over the repetitions.
    pub total_ns: Interval,
    pub messages: Interval,
    /// Messages that the busiest node sends and receives.
    pub busiest_messages: Interval,
    /// The error bound of the worst node: RTT/2 of all levels above it added, in nanoseconds.
    pub bound_ns: Interval,
}

/// Simulates: under ten seconds with all defaults and 25 exchanges in a synchronisation.
///
/// # Errors
/// An option out of range.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Outcome, Error> {
    check(options)?;
    let most = options.nodes.iter().max().copied().unwrap_or(0);
    let source = Source::new(&options.times, most)?;
    let deadline = Instant::now() + Duration::from_secs(options.cap_s);
    let of = options.nodes.iter().sum::<u64>() * options.topologies.len() as u64;
    let (mut done, mut points) = (0, Vec::new());
    for nodes in &options.nodes {
        for topology in &options.topologies {
            if Instant::now() < deadline {
                points.extend(point(options, *topology, *nodes, &source));
            }
            done += nodes;
            progress(done, of);
        }
    }
    let combinations = options.nodes.len() * options.topologies.len();
    Ok(Outcome {
        capped: points.len() < combinations,
        points,
    })
}

/// Above this, the nodes would not fit into memory.
const MOST: u64 = 100_000_000;

fn check(options: &Options) -> Result<(), Error> {
    let fit = |nodes: &u64| (2..=MOST).contains(nodes);
    need(options.nodes.iter().all(fit), "nodes", "2 to 10^8")?;
    need(options.repetitions > 0, "repetitions", "1 or more")?;
    need(options.cap_s > 0, "cap_s", "1 or more")?;
    options.topologies.iter().try_for_each(Topology::check)
}

fn point(options: &Options, topology: Topology, nodes: u64, source: &Source) -> Option<Point> {
    // Seeded by number, so that a point is the same whatever else is simulated.
    let once = |repetition| {
        let seed = options
            .seed
            .wrapping_mul(1_000_003)
            .wrapping_add(u64::from(repetition));
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        once(topology, nodes, &mut || source.draw(&mut random))
    };
    let all: Vec<Once> = (0..options.repetitions).map(once).collect();
    let over = |value: fn(&Once) -> u64| {
        #[expect(clippy::cast_precision_loss, reason = "far less than 2^53")]
        let mut values: Vec<f64> = all.iter().map(|once| value(once) as f64).collect();
        Interval::of(&mut values)
    };
    let bound = over(|once| once.round_trips_ns)?;
    Some(Point {
        topology,
        nodes,
        depth: topology.depth(nodes),
        total_ns: over(|once| once.total_ns)?,
        messages: over(|once| once.messages)?,
        busiest_messages: over(|once| once.busiest)?,
        bound_ns: Interval {
            median: bound.median / 2.0,
            low: bound.low / 2.0,
            high: bound.high / 2.0,
            confidence: bound.confidence,
        },
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Once {
    total_ns: u64,
    messages: u64,
    busiest: u64,
    /// Round trips of the worst node's levels, all together: twice its bound.
    round_trips_ns: u64,
}

/// A node that is synchronised.
#[derive(Clone, Copy, Default)]
struct Node {
    /// When it can serve the next one.
    free_ns: u64,
    /// The round trips of all levels above it.
    round_trips_ns: u64,
    messages: u64,
}

/// Everybody in the order of numbers: a server's number is lower than its clients', and it serves
/// them in the order of theirs.
fn once(topology: Topology, nodes: u64, draw: &mut impl FnMut() -> Synchronisation) -> Once {
    let mut all = vec![Node::default(); usize::try_from(nodes).unwrap_or(usize::MAX)];
    for number in 1..all.len() {
        let sync = draw();
        let server = &mut all[topology.server(number, nodes)];
        server.free_ns += sync.ns;
        server.messages += sync.messages;
        let client = Node {
            free_ns: server.free_ns,
            round_trips_ns: server.round_trips_ns + sync.round_trip_ns,
            messages: sync.messages,
        };
        all[number] = client;
    }
    let most = |value: fn(&Node) -> u64| all.iter().map(value).max().unwrap_or(0);
    Once {
        total_ns: most(|node| node.free_ns),
        // Every message is sent by one and received by another.
        messages: all.iter().map(|node| node.messages).sum::<u64>() / 2,
        busiest: most(|node| node.messages),
        round_trips_ns: most(|node| node.round_trips_ns),
    }
}

#[cfg(test)]
#[path = "scaling/tests.rs"]
mod tests;
