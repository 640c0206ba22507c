//! `connect`: TCP connections made and ended as fast as they go, or at a stated rate.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use nix::libc::linger;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, sockopt};
use nix::sys::socket::{MsgFlags, connect, recv, setsockopt, socket};
use nix::sys::time::{TimeVal, TimeValLike};
use serde::Serialize;

use crate::faults::{Faults, OF_CONNECTIONS};
use crate::listen::Closer;
use crate::needs::{self, Ports};
use crate::pacing::{self, Lateness, LatenessSummary, Pacer, Schedule, Spacing, positive};
use crate::times::{Distribution, Times};
use ullage_common::failure::{Failure, print_json};

const BYTE: [u8; 1] = [b'u'];
/// After an error, so that a server that refuses is not asked a million times a second.
const AFTER_ERROR: Duration = Duration::from_millis(1);

/// Make TCP connections: socket, connect, one byte there and back if asked to, close.
#[derive(Args)]
pub struct Options {
    /// Address and port of `listen`.
    peer: SocketAddrV4,
    /// Threads, each with one connection at a time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Connections a second (open loop); absent: each thread makes the next when it has ended one.
    #[arg(long, value_parser = positive)]
    rate: Option<f64>,
    /// How the instants of the open loop lie.
    #[arg(long, value_enum, default_value_t = Spacing::Poisson)]
    spacing: Spacing,
    /// Of the open loop's instants.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Length in seconds.
    #[arg(long, default_value_t = 1.0, value_parser = positive)]
    time: f64,
    /// No more connections than this.
    #[arg(long)]
    connections: Option<u64>,
    /// One byte there and back on each.
    #[arg(long)]
    echo: bool,
    /// Ask any web server for this path on each instead, and read until it closes.
    #[arg(long, conflicts_with = "echo")]
    get: Option<String>,
    /// Which side ends a connection; as `listen` was told.
    #[arg(long, value_enum, default_value_t = Closer::Server)]
    close: Closer,
    /// Seconds that each step of a connection may take.
    #[arg(long, default_value_t = 5.0, value_parser = positive)]
    timeout: f64,
    /// The generator may be so late, in seconds, with one event in a hundred.
    #[arg(long, default_value_t = 0.01, value_parser = positive)]
    late_limit: f64,
}

/// What one thread saw, and then all together.
struct Measurements {
    started: u64,
    completed: u64,
    in_time: u64,
    unsent: u64,
    errors: Faults,
    latency: Times,
    established: Times,
    lateness: Lateness,
}

impl Measurements {
    fn new() -> Self {
        Self {
            started: 0,
            completed: 0,
            in_time: 0,
            unsent: 0,
            errors: Faults::new(OF_CONNECTIONS),
            latency: Times::new(),
            established: Times::new(),
            lateness: Lateness::new(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.started += other.started;
        self.completed += other.completed;
        self.in_time += other.in_time;
        self.unsent += other.unsent;
        self.errors.add(&other.errors);
        self.latency.add(&other.latency);
        self.established.add(&other.established);
        self.lateness.add(&other.lateness);
    }
}

#[derive(Serialize)]
struct Report {
    mode: &'static str,
    #[serde(rename = "loop")]
    kind: &'static str,
    threads: u16,
    rate: Option<f64>,
    spacing: Option<Spacing>,
    echo: bool,
    close: Closer,
    time_s: f64,
    seconds: f64,
    started: u64,
    completed: u64,
    /// Of these, before the time was over: what the rate counts.
    in_time: u64,
    connections_per_second: f64,
    /// Due, and not even begun when the drain after the time was over.
    unsent: u64,
    errors: Faults,
    /// From when it was due (closed loop: begun) until it was closed.
    latency: Option<Distribution>,
    /// The same until `connect` returned.
    established: Option<Distribution>,
    /// None of the closed loop, where nothing is due.
    lateness: Option<LatenessSummary>,
    valid: bool,
    reason: Option<String>,
}

/// What all threads share.
struct Job<'a> {
    options: &'a Options,
    left: AtomicU64,
    timeout: TimeVal,
    request: Option<String>,
}

/// Make the connections and print the report.
pub fn run(options: &Options) -> Result<(), Failure> {
    check(options)?;
    pacing::exact_timers();
    let job = Job {
        options,
        left: AtomicU64::new(options.connections.unwrap_or(u64::MAX)),
        timeout: TimeVal::microseconds(micros(options.timeout)),
        request: options.get.as_ref().map(|path| {
            format!(
                "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
                options.peer
            )
        }),
    };
    let ready = Barrier::new(usize::from(options.threads) + 1);
    let pacer = std::sync::OnceLock::new();
    let length = Duration::from_secs_f64(options.time);
    let (all, start) = thread::scope(|scope| {
        let work = || {
            ready.wait();
            ready.wait();
            let (start, pacer): &(Instant, Option<Pacer>) = pacer.get().expect("set between");
            job.work(*start, pacer.as_ref())
        };
        let threads: Vec<_> = (0..options.threads).map(|_| scope.spawn(work)).collect();
        ready.wait(); // all threads are there
        let start = Instant::now();
        let open = options.rate.map(|rate| {
            Pacer::new(
                start,
                length,
                Schedule::new(rate, options.spacing, options.seed),
            )
        });
        assert!(pacer.set((start, open)).is_ok());
        ready.wait();
        let mut all = Measurements::new();
        for thread in threads {
            all.add(&thread.join().expect("no thread panics"));
        }
        (all, start)
    });
    print_json(&report(options, all, start.elapsed()))
}

/// The needs of the whole run against the limits of this host.
fn check(options: &Options) -> Result<(), Failure> {
    let threads = u64::from(options.threads);
    needs::descriptors(threads)?;
    let ports = Ports::here(options.peer)?;
    let needed = match (options.close, options.rate, options.connections) {
        (Closer::Server | Closer::Reset, ..) => threads,
        (Closer::Client, Some(rate), most) => ports
            .needed(rate, options.time, threads)
            .min(most.map_or(u64::MAX, |most| most.saturating_add(threads))),
        (Closer::Client, None, Some(most)) => most.saturating_add(threads),
        (Closer::Client, None, None) => {
            return Err(Failure::too_low(
                "nobody can say how many ports a closed loop takes where the client closes: give \
                 --rate or --connections, or use --close server"
                    .into(),
            ));
        }
    };
    ports.check(needed)
}

#[allow(clippy::cast_precision_loss)]
fn report(options: &Options, all: Measurements, took: Duration) -> Report {
    // An open loop may be idle at its end; only --connections makes it shorter than asked for.
    let seconds = match options.connections {
        Some(most) if all.started >= most => took.as_secs_f64().min(options.time),
        _ => options.time,
    };
    let reason = all.lateness.complaint(options.late_limit);
    Report {
        mode: "connect",
        kind: if options.rate.is_some() {
            "open"
        } else {
            "closed"
        },
        threads: options.threads,
        rate: options.rate,
        spacing: options.rate.map(|_| options.spacing),
        echo: options.echo,
        close: options.close,
        time_s: options.time,
        seconds,
        started: all.started,
        completed: all.completed,
        in_time: all.in_time,
        connections_per_second: all.in_time as f64 / seconds,
        unsent: all.unsent,
        errors: all.errors,
        latency: all.latency.distribution(),
        established: all.established.distribution(),
        lateness: options.rate.map(|_| all.lateness.summary()),
        valid: reason.is_none(),
        reason,
    }
}

impl Job<'_> {
    fn work(&self, start: Instant, pacer: Option<&Pacer>) -> Measurements {
        let mut measurements = Measurements::new();
        let end = start + Duration::from_secs_f64(self.options.time);
        match pacer {
            Some(pacer) => self.open_loop(&mut measurements, pacer, end),
            None => {
                while Instant::now() < end && self.may() {
                    self.connect(&mut measurements, Instant::now(), end);
                }
            }
        }
        measurements
    }

    /// What was due before the end is begun, also after it, but not for ever.
    fn open_loop(&self, measurements: &mut Measurements, pacer: &Pacer, end: Instant) {
        let drained = end + Duration::from_secs_f64(self.options.timeout);
        while let Some(due) = pacer.next() {
            if Instant::now() > drained {
                measurements.unsent += 1;
            } else if self.may() {
                measurements.lateness.wait(due);
                self.connect(measurements, due, end);
            } else {
                return;
            }
        }
    }

    /// Whether `--connections` leaves one more; takes it.
    fn may(&self) -> bool {
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
            .is_ok()
    }

    fn connect(&self, measurements: &mut Measurements, due: Instant, end: Instant) {
        measurements.started += 1;
        match self.connection() {
            Ok(established) => {
                let now = Instant::now();
                measurements.completed += 1;
                measurements.in_time += u64::from(now <= end);
                measurements.established.record(established - due);
                measurements.latency.record(now - due);
            }
            Err(error) => {
                measurements.errors.count((&error).into());
                thread::sleep(AFTER_ERROR);
            }
        }
    }

    /// One connection from beginning to end; when it was established.
    fn connection(&self) -> io::Result<Instant> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
        // The first bounds `connect` too (socket(7)).
        setsockopt(&socket, sockopt::SendTimeout, &self.timeout)?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &self.timeout)?;
        connect(socket.as_raw_fd(), &SockaddrIn::from(self.options.peer))?;
        let established = Instant::now();
        let mut stream = TcpStream::from(socket);
        let mut byte = [0];
        if self.options.echo {
            stream.write_all(&BYTE)?;
            if stream.read(&mut byte)? != 1 || byte != BYTE {
                return Err(ErrorKind::InvalidData.into());
            }
        }
        if let Some(request) = &self.request {
            exchange(&mut stream, request)?;
        }
        match self.options.close {
            Closer::Server => {
                if stream.read(&mut byte)? != 0 {
                    return Err(ErrorKind::InvalidData.into());
                }
            }
            Closer::Client => {}
            Closer::Reset => {
                let at_once = linger {
                    l_onoff: 1,
                    l_linger: 0,
                };
                setsockopt(&stream, sockopt::Linger, &at_once)?;
            }
        }
        Ok(established)
    }
}

/// A request, and its answer up to the end, which must be a good one.
fn exchange(stream: &mut TcpStream, request: &str) -> io::Result<()> {
    stream.write_all(request.as_bytes())?;
    let mut buffer = [0; 1 << 14];
    let mut first = true;
    loop {
        // Less than it asked for: that was the end. One call, and mostly one waking, for a small answer.
        let bytes = recv(stream.as_raw_fd(), &mut buffer, MsgFlags::MSG_WAITALL)?;
        if std::mem::take(&mut first) && !buffer[..bytes].starts_with(b"HTTP/1.1 200 ") {
            return Err(ErrorKind::InvalidData.into());
        }
        if bytes < buffer.len() {
            return Ok(());
        }
    }
}

#[allow(clippy::cast_possible_truncation)]
fn micros(seconds: f64) -> i64 {
    (seconds * 1e6).ceil() as i64
}
