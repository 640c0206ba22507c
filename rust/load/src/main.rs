//! `ullage-load`: connections (`connect`), requests (`http`) and ICMP probes (`icmp`), closed loop or
//! at a stated rate. Prints one JSON object on standard output. For web workloads it also writes files
//! (`place`) and minds the server (`serve`), or anybody's own (`service`).

mod connect;
mod faults;
mod http;
mod http_exchange;
mod http_place;
mod http_request;
mod http_serve;
mod icmp;
mod icmp_packet;
mod listen;
mod listeners;
mod needs;
mod pacing;
mod processes;
mod service;
mod times;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Connections, requests and probes at a stated rate, each timed from when it was due.
#[derive(Parser)]
#[command(name = "ullage-load", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Listen(listen::Options),
    Connect(connect::Options),
    Icmp(icmp::Options),
    Http(http::Options),
    Place(http_place::Options),
    Serve(http_serve::Options),
    Service(service::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Listen(options) => listen::run(&options),
        Command::Connect(options) => connect::run(&options),
        Command::Icmp(options) => icmp::run(&options),
        Command::Http(options) => http::run(&options),
        Command::Place(options) => http_place::run(&options),
        Command::Serve(options) => http_serve::run(&options),
        Command::Service(options) => service::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(),
    }
}
