//! `ullage-viewers`: viewers of videos in real time, open loop, with patience and a playback buffer
//! (`run`), and how many of them nodes sustain (`search`). Prints one JSON object on standard output.
//! `node` streams what viewers ask for, to try them on.

mod address;
mod arrivals;
mod bounds;
mod config;
mod exchange;
mod faults;
mod fleet;
mod http;
mod node;
mod nodes;
mod playback;
mod process;
mod reach;
mod search;
mod session;
mod shard;
mod statistics;
mod summary;
mod sys;
mod timer_wheel;
mod viewer;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use ullage_common::Failure;

/// Viewers of videos in real time, open loop, with patience and a playback buffer.
#[derive(Parser)]
#[command(name = "ullage-viewers", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Viewers come, watch and go.
    Run(File),
    /// The largest number of viewers that nodes sustain without a violation.
    Search(File),
    /// Stream to viewers, for tests and for the generator's own figures.
    Node(node::Options),
    /// See whether a front answers here.
    Reach(reach::Options),
    /// One process of viewers, of `run`.
    #[command(hide = true)]
    Shard,
}

#[derive(Args)]
struct File {
    /// JSON, see docs/guide/elastic-viewers.md.
    #[arg(long)]
    config: PathBuf,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Run(file) => fleet::command(&file.config),
        Command::Search(file) => search::command(&file.config),
        Command::Node(options) => node::command(&options),
        Command::Reach(options) => reach::command(&options),
        Command::Shard => process::command(),
    };
    result.unwrap_or_else(|failure: Failure| failure.tell())
}
