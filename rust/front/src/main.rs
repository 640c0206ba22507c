//! `ullage-front`: viewers ask for a video, wait if they must, and are redirected to a node (HTTP 302).
//! What is decided is decided by `ullage-elastic`; nodes are made by the controller, who speaks on
//! standard input and output. Everything that happens is in a log, from which a front that was killed
//! goes on.

mod answer;
mod config;
mod connection;
mod connections;
mod controller;
mod counts;
mod decisions;
mod event_log;
mod http;
mod limits;
mod pages;
mod server;
mod sessions;
mod token;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use nix::sys::signal::Signal;
use serde::Serialize;

use crate::config::Settings;
use crate::decisions::{Front, Resumed};
use crate::server::Server;
use ullage_common::shared_clock::SharedClock;
use ullage_common::{Failure, signals};

/// Redirects viewers to nodes, and says which nodes there are to be.
#[derive(Parser)]
#[command(name = "ullage-front", version)]
struct Arguments {
    /// What to do: a JSON file
    #[arg(long)]
    config: PathBuf,
}

/// The first line on standard output.
#[derive(Serialize)]
struct Start {
    listening: String,
    at_ns: u64,
    /// `shared`: the time is the controller's. `own`: it is this process's.
    clock: &'static str,
    connections: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    resumed: Option<Resumed>,
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = Settings::read(&arguments.config)?;
    let connections = limits::connections(settings.max_connections)?;
    let signals = signals::descriptor(&[Signal::SIGTERM, Signal::SIGINT])?;
    let listener = server::open(settings.listen)?;
    let shared = settings.clock.as_ref().is_some_and(SharedClock::adopt);
    let (mut front, resumed) = Front::open(&settings)?;
    let address = listener.local_addr();
    let address = address.map_err(|error| Failure::new("the socket", error))?;
    let at_ns = front.now();
    let server = Server::new(&settings, listener, signals, front, connections)?;
    server.say(&Start {
        listening: address.to_string(),
        at_ns,
        clock: if shared { "shared" } else { "own" },
        connections,
        resumed,
    });
    server.serve()
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(),
    }
}
