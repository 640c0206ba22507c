//! The first synchronisation beside the published rule, which has no caps, over the same loopback.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use serde::{Deserialize, Serialize};
use ullage_clock::Clock;
use ullage_clock::rgap::{Body, LENGTH, Message, Rules, Stop};

use super::Options;
use super::peer::{Peers, TOKEN};
use crate::Error;
use crate::stats::Summary;

/// The published rule goes on for ever on some machines: this is an experiment that ends.
const MOST: u64 = 100_000;

/// Pairs of synchronisations, one right after the other, in turns which is first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct First {
    /// How long each took with the caps, in nanoseconds.
    pub capped_ns: Vec<u64>,
    /// And by the published rule alone.
    pub published_ns: Vec<u64>,
    /// Messages with the caps.
    pub capped_messages: Summary,
    /// Messages by the published rule alone.
    pub published_messages: Summary,
    /// How many ended by the rule and not by a cap.
    pub by_the_rule: u64,
    /// By how much the longest went over the cap on time, in nanoseconds: one exchange at most.
    pub overrun_ns: u64,
}

pub(super) fn measure(peers: &mut Peers<'_>, options: &Options) -> Result<First, Error> {
    let socket = naive_socket(peers.address).map_err(refused)?;
    let (mut capped, mut published) = (Vec::new(), Vec::new());
    let (mut by_the_rule, mut overrun_ns) = (0, 0);
    for number in 0..options.firsts.max(1) {
        if number % 2 == 0 {
            published.push(naive(&socket).map_err(refused)?);
        }
        let outcome = peers.by_udp()?;
        let messages = outcome.counts.sent + outcome.counts.answers;
        capped.push((outcome.took_ns, u64::from(messages)));
        by_the_rule += u64::from(outcome.stop == Stop::Alike);
        overrun_ns = overrun_ns.max(outcome.took_ns.saturating_sub(Rules::PUBLISHED.time_ns));
        if number % 2 == 1 {
            published.push(naive(&socket).map_err(refused)?);
        }
    }
    let times = |of: &[(u64, u64)]| of.iter().map(|it| it.0).collect();
    Ok(First {
        capped_ns: times(&capped),
        published_ns: times(&published),
        capped_messages: messages(&capped)?,
        published_messages: messages(&published)?,
        by_the_rule,
        overrun_ns,
    })
}

fn refused(source: io::Error) -> Error {
    Error::system("follow the published rule over UDP", source)
}

fn messages(of: &[(u64, u64)]) -> Result<Summary, Error> {
    let mut numbers: Vec<i64> = of.iter().map(|it| it.1.cast_signed()).collect();
    Summary::of(&mut numbers, 1.0).ok_or(Error::Option {
        name: "firsts",
        allowed: "at least 1",
    })
}

fn naive_socket(server: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(("127.0.0.1", 0))?;
    socket.connect(server)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// S4.9 to the letter: D = 5, K = 500 ns, N = 20, and nothing else. How long it took, in nanoseconds,
/// and in messages.
fn naive(socket: &UdpSocket) -> io::Result<(u64, u64)> {
    let clock = Clock::get();
    let start = clock.ordered();
    let mut rtts: Vec<u64> = Vec::new();
    for sequence in 1..=MOST {
        let t1 = clock.ordered();
        let body = Body::Request;
        let token = TOKEN;
        socket.send(
            &Message {
                token,
                sequence,
                t1,
                body,
            }
            .encode(),
        )?;
        let mut answer = [0; LENGTH];
        while let Err(error) = socket.recv(&mut answer) {
            if error.kind() != io::ErrorKind::WouldBlock || clock.ordered() - t1 > 1_000_000_000 {
                return Err(error);
            }
        }
        if sequence > 5 {
            let rtt = clock.ordered() - t1;
            let place = rtts.partition_point(|other| *other <= rtt);
            rtts.insert(place, rtt);
        }
        if rtts.len() >= 20 && sd(&rtts[..20]) < 500.0 {
            return Ok((clock.ordered() - start, 2 * sequence));
        }
    }
    Ok((clock.ordered() - start, 2 * MOST))
}

#[expect(clippy::cast_precision_loss, reason = "round trips are short")]
fn sd(numbers: &[u64]) -> f64 {
    let n = numbers.len() as f64;
    let mean = numbers.iter().map(|it| *it as f64).sum::<f64>() / n;
    let squares = numbers.iter().map(|it| (*it as f64 - mean).powi(2));
    (squares.sum::<f64>() / (n - 1.0)).sqrt()
}
