//! `http`: requests to a web server at a stated rate, each timed from when it was due until the last
//! byte of its answer was here.

use std::net::SocketAddrV4;
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use crate::faults::{Fault, Faults, OF_REQUESTS};
use crate::http_exchange::{Client, Seen, Target};
use crate::http_place::Bytes;
use crate::http_request::{self, Ask};
use crate::needs::{self, Ports};
use crate::pacing::{self, Lateness, LatenessSummary, Pacer, Schedule, Spacing, positive};
use crate::times::{Distribution, Times};
use ullage_common::failure::{Failure, print_json};

/// Descriptors of one connection's thread: the connection, and what its event loop has.
const DESCRIPTORS: u64 = 4;
/// After an error, so that a server that refuses is not stormed.
const AFTER_ERROR: Duration = Duration::from_millis(1);

/// Request a document again and again, open loop.
#[derive(Args)]
pub struct Options {
    /// Address and port of the server.
    server: SocketAddrV4,
    /// The document.
    #[arg(long)]
    path: String,
    #[command(flatten)]
    request: http_request::Options,
    /// Its length: its bytes must be those of `place --document`; absent: any bytes will do.
    #[arg(long, value_parser = clap::value_parser!(u64).range(0..=1 << 28))]
    bytes: Option<u64>,
    /// The status of a good answer.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(100..=599))]
    status: u16,
    /// Requests a second, over all connections.
    #[arg(long, value_parser = positive)]
    rate: f64,
    /// How the instants at which requests are due lie.
    #[arg(long, value_enum, default_value_t = Spacing::Poisson)]
    spacing: Spacing,
    /// Of those instants.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Length in seconds.
    #[arg(long, default_value_t = 1.0, value_parser = positive)]
    time: f64,
    /// No more connections at once; each carries one request at a time.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// A connection for each request.
    #[arg(long)]
    close: bool,
    /// Seconds that a connection rests after an answer before it carries another request.
    #[arg(long, default_value_t = 0.0, value_parser = not_negative)]
    think: f64,
    /// Seconds that a request may take from when it is sent, connecting included.
    #[arg(long, default_value_t = 5.0, value_parser = positive)]
    deadline: f64,
    /// The generator may be so late, in seconds, with one request in a hundred.
    #[arg(long, default_value_t = 0.01, value_parser = positive)]
    late_limit: f64,
}

fn not_negative(text: &str) -> Result<f64, String> {
    if text.parse() == Ok(0.0) {
        Ok(0.0)
    } else {
        positive(text)
    }
}

#[derive(Serialize)]
struct Report {
    mode: &'static str,
    rate: f64,
    spacing: Spacing,
    seed: u64,
    time_s: f64,
    connections: u16,
    close: bool,
    think_s: f64,
    deadline_s: f64,
    bytes: Option<u64>,
    status: u16,
    method: String,
    /// Bytes of the body of each request.
    body_bytes: usize,
    /// From the start until the last answer, or the last failure.
    seconds: f64,
    due: u64,
    /// With that status, and every byte of the document.
    answered: u64,
    errors: Faults,
    /// The first status of another kind that a connection saw.
    #[serde(skip_serializing_if = "Option::is_none")]
    other_status: Option<u16>,
    /// Connections in all, with those in place of kept ones that the server had ended.
    opened: u64,
    /// Of those answered: from when the request was due until the last byte was here.
    latency: Option<Distribution>,
    /// The same from when the request was sent: without what it waited for a free connection, and
    /// without the generator's own lateness.
    exchange: Option<Distribution>,
    /// The quantiles of all that were due: one without an answer is longer than any other, and
    /// quantiles that lie among those are left out.
    quantiles: Vec<(f64, f64)>,
    lateness: LatenessSummary,
    late_limit_s: f64,
    valid: bool,
    reason: Option<String>,
}

/// What one connection saw, and then all together.
struct Measurements {
    due: u64,
    answered: u64,
    errors: Faults,
    latency: Times,
    exchange: Times,
    lateness: Lateness,
    seen: Seen,
}

impl Measurements {
    fn new() -> Self {
        Self {
            due: 0,
            answered: 0,
            errors: Faults::new(OF_REQUESTS),
            latency: Times::new(),
            exchange: Times::new(),
            lateness: Lateness::new(),
            seen: Seen::default(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.due += other.due;
        self.answered += other.answered;
        self.errors.add(&other.errors);
        self.latency.add(&other.latency);
        self.exchange.add(&other.exchange);
        self.lateness.add(&other.lateness);
        self.seen.add(other.seen);
    }
}

/// Make the requests and print the report.
pub fn run(options: &Options) -> Result<(), Failure> {
    check(options)?;
    pacing::exact_timers();
    let document = options.bytes.map(document).transpose()?;
    let target = Target {
        server: options.server,
        ask: Ask::new(
            &options.request,
            options.server,
            &options.path,
            options.close,
        )?,
        document,
        status: options.status,
        deadline: Duration::from_secs_f64(options.deadline),
        close: options.close,
    };
    let (all, took) = requests(options, &target)?;
    print_json(&report(options, &target.ask, all, took))
}

fn document(length: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    Bytes::new(length)
        .copy(&mut bytes)
        .map_err(|error| Failure::new("document", error))?;
    Ok(bytes)
}

/// The needs of the whole run against the limits of this host.
fn check(options: &Options) -> Result<(), Failure> {
    let connections = u64::from(options.connections);
    needs::descriptors(connections * DESCRIPTORS)?;
    let ports = Ports::here(options.server)?;
    // Of connections that are not kept, either side may be the first to close.
    ports.check(if options.close {
        ports.needed(options.rate, options.time, connections)
    } else {
        connections
    })
}

/// Every connection in a thread of its own: whoever is free takes the next request.
fn requests(options: &Options, target: &Target) -> Result<(Measurements, Duration), Failure> {
    let clients: Result<Vec<Client>, _> = (0..options.connections)
        .map(|_| Client::new(target))
        .collect();
    let clients = clients.map_err(|error| Failure::new("connections", error))?;
    let ready = Barrier::new(clients.len() + 1);
    let pacer = OnceLock::new();
    let length = Duration::from_secs_f64(options.time);
    Ok(thread::scope(|scope| {
        let threads: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                scope.spawn(|| {
                    client.warm();
                    ready.wait();
                    ready.wait();
                    let (start, pacer): &(Instant, Pacer) = pacer.get().expect("set between");
                    work(options, client, pacer, *start + length)
                })
            })
            .collect();
        ready.wait(); // all are connected
        let start = Instant::now();
        let schedule = Schedule::new(options.rate, options.spacing, options.seed);
        assert!(
            pacer
                .set((start, Pacer::new(start, length, schedule)))
                .is_ok()
        );
        ready.wait();
        let mut all = Measurements::new();
        for thread in threads {
            all.add(&thread.join().expect("no thread panics"));
        }
        (all, start.elapsed())
    }))
}

/// What was due before the end is sent, also after it, but not for ever.
fn work(options: &Options, mut client: Client, pacer: &Pacer, end: Instant) -> Measurements {
    let drained = end + Duration::from_secs_f64(options.deadline);
    let think = Duration::from_secs_f64(options.think);
    let mut measurements = Measurements::new();
    while let Some(due) = pacer.next() {
        measurements.due += 1;
        if Instant::now() > drained {
            measurements.errors.count(Fault::Unsent);
            continue;
        }
        measurements.lateness.wait(due);
        let sent = Instant::now();
        match client.exchange() {
            Ok(ended) => {
                measurements.answered += 1;
                measurements.latency.record(ended - due);
                measurements.exchange.record(ended - sent);
                thread::sleep(think);
            }
            Err(fault) => {
                measurements.errors.count(fault);
                thread::sleep(AFTER_ERROR);
            }
        }
    }
    measurements.seen = client.seen;
    measurements
}

fn report(options: &Options, ask: &Ask, all: Measurements, took: Duration) -> Report {
    let reason = all.lateness.complaint(options.late_limit);
    let latency = all.latency.distribution();
    let quantiles = latency.as_ref().map_or_else(Vec::new, |answered| {
        of_all(answered, &all.latency, all.errors.sum())
    });
    Report {
        mode: "http",
        rate: options.rate,
        spacing: options.spacing,
        seed: options.seed,
        time_s: options.time,
        connections: options.connections,
        close: options.close,
        think_s: options.think,
        deadline_s: options.deadline,
        bytes: options.bytes,
        status: options.status,
        method: ask.method().into(),
        body_bytes: ask.body_bytes(),
        seconds: took.as_secs_f64(),
        due: all.due,
        answered: all.answered,
        errors: all.errors,
        other_status: all.seen.other_status,
        opened: all.seen.opened,
        latency,
        exchange: all.exchange.distribution(),
        quantiles,
        lateness: all.lateness.summary(),
        late_limit_s: options.late_limit,
        valid: reason.is_none(),
        reason,
    }
}

/// The quantiles of the known times and of `failed` ones that are longer than all of these.
#[allow(clippy::cast_precision_loss)]
fn of_all(answered: &Distribution, times: &Times, failed: u64) -> Vec<(f64, f64)> {
    let stretch = (answered.count + failed) as f64 / answered.count as f64;
    let share_of_answered = |share: f64| share * stretch;
    // Beside the nines: agreements on service are often about it. Five samples are above it.
    let usual = (answered.count >= 100).then_some(0.95);
    let nines = answered.quantiles.iter().map(|(share, _)| *share);
    let mut shares: Vec<f64> = nines.chain(usual).collect();
    shares.sort_by(f64::total_cmp);
    shares
        .into_iter()
        .filter(|share| share_of_answered(*share) <= 1.0)
        .map(|share| (share, times.quantile(share_of_answered(share))))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};

    use super::*;

    /// Answers on one connection; the first time only after so long.
    fn stalls(listener: &TcpListener, first: Duration) {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        let mut stall = first;
        while stream.read(&mut request).unwrap() > 0 {
            thread::sleep(stall);
            stall = Duration::ZERO;
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                .unwrap();
        }
    }

    #[test]
    fn what_had_to_wait_for_a_stalled_server_has_waited() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let SocketAddr::V4(server) = listener.local_addr().unwrap() else {
            unreachable!("it was bound to an IPv4 address")
        };
        let options = Options {
            server,
            path: "/".into(),
            request: http_request::Options::default(),
            bytes: Some(0),
            status: 200,
            rate: 100.0,
            spacing: Spacing::Constant,
            seed: 1,
            time: 0.1,
            connections: 1,
            close: false,
            think: 0.0,
            deadline: 60.0,
            late_limit: 1.0,
        };
        let target = Target {
            server,
            ask: Ask::new(&options.request, server, "/", false).unwrap(),
            document: Some(vec![]),
            status: 200,
            deadline: Duration::from_secs(60),
            close: false,
        };
        let measurements = thread::scope(|scope| {
            scope.spawn(|| stalls(&listener, Duration::from_millis(100)));
            requests(&options, &target).unwrap().0
        });
        assert_eq!((measurements.due, measurements.answered), (10, 10));
        // Due every 10 ms, and all answered only after 100: the fifth took 60 ms at least.
        assert!(measurements.latency.quantile(0.5) > 0.05);
        // Nobody was free when these were due, and that is not the generator's lateness.
        assert_eq!(measurements.lateness.summary().behind, 10);
    }

    fn times() -> Times {
        let mut times = Times::new();
        for n in 1..=900 {
            times.record(Duration::from_micros(n));
        }
        times
    }

    #[test]
    fn without_failures_the_quantiles_are_those_of_the_answers() {
        let times = times();
        let answered = times.distribution().unwrap();
        let mut quantiles = of_all(&answered, &times, 0);
        assert_eq!(quantiles.remove(2).0.to_bits(), 0.95f64.to_bits());
        assert_eq!(quantiles, answered.quantiles);
    }

    #[test]
    fn failures_are_the_longest_of_all() {
        let times = times();
        let answered = times.distribution().unwrap();
        // Of 1,000, the 500th; the 900th is the last with an answer, and the 990th has none.
        let quantiles = of_all(&answered, &times, 100);
        assert_eq!(
            quantiles
                .iter()
                .map(|(share, _)| *share)
                .collect::<Vec<_>>(),
            [0.5, 0.9]
        );
        for ((_, time), want) in quantiles.iter().zip([500e-6, 900e-6]) {
            assert!((time / want - 1.0).abs() < 2e-3, "{time}");
        }
        assert!(of_all(&answered, &times, 901).is_empty());
    }

    #[test]
    fn thinking_may_be_none() {
        assert!(not_negative("0").is_ok());
        assert!(not_negative("0.5").is_ok());
        for bad in ["-1", "nan", "inf", "x"] {
            assert!(not_negative(bad).is_err(), "{bad}");
        }
    }
}
