//! `ullage-basics`: the five tests of sysbench 1.0.20, with its algorithms and its counts, and a TCP
//! stream, as one program for every system. sysbench itself has no build for Windows.
//!
//! It prints one line of JSON: what was asked for, what was done, and how long that took by the
//! system's monotonic clock.

mod cpu;
mod events;
mod fileio;
mod histogram;
mod lock;
mod locks;
mod memory;
mod random;
mod stream;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde::Serialize;
use ullage_common::{Failure, failure};

use crate::events::{Done, Limit};

/// sysbench's five tests and a TCP stream, the same program for Linux and Windows.
#[derive(Parser)]
#[command(name = "ullage-basics", version)]
struct Arguments {
    /// Threads that work at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: u32,
    /// Ends after so many seconds.
    #[arg(long, conflicts_with = "events", value_parser = clap::value_parser!(u32).range(1..))]
    time: Option<u32>,
    /// Ends after so many events, of all threads together.
    #[arg(long)]
    events: Option<u64>,
    /// Of random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(subcommand)]
    test: Test,
}

/// What an event is.
#[derive(Clone, Debug, Serialize, Subcommand)]
#[serde(tag = "test", rename_all = "kebab-case")]
enum Test {
    /// The primes below a limit, by division.
    Cpu {
        #[arg(long, default_value_t = 10_000)]
        prime: u64,
    },
    /// A block of memory, written or read in order.
    Memory {
        #[arg(long, default_value_t = 1024)]
        block: usize,
        #[arg(long)]
        read: bool,
    },
    /// A mutex is taken, the processor yielded, the mutex given back: so many times.
    Threads {
        #[arg(long, default_value_t = 1000)]
        yields: u32,
        #[arg(long, default_value_t = 8)]
        locks: u32,
    },
    /// All the locks of one thread, with empty loops between them.
    Mutex {
        #[arg(long, default_value_t = 4096)]
        mutexes: u32,
        #[arg(long, default_value_t = 50_000)]
        locks: u32,
        #[arg(long, default_value_t = 10_000)]
        loops: u32,
    },
    /// A block of one of the files in this directory, read or written.
    Fileio(fileio::Files),
    /// A block of bytes, sent over TCP to a receiver in this program.
    Stream {
        #[arg(long, default_value_t = 65_536)]
        block: usize,
    },
}

#[derive(Serialize)]
struct Report {
    version: &'static str,
    #[serde(flatten)]
    test: Test,
    threads: u32,
    time_s: Option<u32>,
    events_wanted: Option<u64>,
    seed: u64,
    #[serde(flatten)]
    done: Done,
}

fn main() -> ExitCode {
    match run(Arguments::parse()).and_then(|report| failure::print_json(&report)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(),
    }
}

fn run(arguments: Arguments) -> Result<Report, Failure> {
    let Arguments {
        threads,
        time,
        events,
        seed,
        test,
    } = arguments;
    let limit = match (&test, time, events) {
        // Its work is fixed: one event a thread.
        (Test::Mutex { .. }, None, None) => Limit::Events(threads.into()),
        (Test::Mutex { .. }, _, _) => {
            let message = "mutex: every thread does one event, so there is no limit to set";
            return Err(Failure::input(message.into()));
        }
        (_, Some(seconds), _) => Limit::time(seconds),
        (_, None, Some(events)) => Limit::Events(events),
        (_, None, None) => return Err(Failure::input("say --time or --events".into())),
    };
    let done = match &test {
        Test::Cpu { prime } => cpu::run(*prime, threads, limit),
        Test::Memory { block, read } => memory::run(*block, *read, threads, limit)?,
        Test::Threads { yields, locks } => locks::threads(*yields, *locks, threads, limit)?,
        Test::Mutex {
            mutexes,
            locks,
            loops,
        } => locks::mutex([*mutexes, *locks, *loops], seed, threads, limit)?,
        Test::Fileio(files) => fileio::run(files, seed, threads, limit)?,
        Test::Stream { block } => stream::run(*block, seed, threads, limit)?,
    };
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        test,
        threads,
        time_s: time,
        events_wanted: events,
        seed,
        done,
    })
}
