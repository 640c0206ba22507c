//! Tries the units: `lab ecp|strict|cost|loops|scaling [--json] [--options JSON]`.

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::net::UdpSocket;
use std::thread;
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;
use ullage_clocklab::{Absent, Interval, Progress, cost, ecp, loops, scaling, strict};

const USAGE: &str = "lab ecp|strict|cost|loops|scaling [--json] [--options JSON]";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let unit = arguments.next().ok_or(USAGE)?;
    let (mut json, mut options) = (false, String::from("{}"));
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => json = true,
            "--options" => options = arguments.next().ok_or(USAGE)?,
            _ => return Err(USAGE.into()),
        }
    }
    match unit.as_str() {
        "ecp" => show(json, &options, ecp::run, ecp_lines),
        "strict" => show(json, &options, strict::run, strict_lines),
        "cost" => show(json, &options, cost::run, cost_lines),
        "scaling" => show(
            json,
            &scaling_options(&options)?,
            scaling::run,
            scaling_lines,
        ),
        "loops" => show(json, &options, loops::run, loop_lines),
        _ => Err(USAGE.into()),
    }
}

/// Runs a unit and prints what came of it.
fn show<Options: DeserializeOwned, Outcome: Serialize>(
    json: bool,
    options: &str,
    run: impl Fn(&Options, &mut Progress) -> Result<Outcome, ullage_clocklab::Error>,
    lines: impl Fn(&Outcome) -> Vec<String>,
) -> Result<(), Box<dyn Error>> {
    let options = serde_json::from_str(options)?;
    let watched = io::stderr().is_terminal();
    let mut progress = |done: u64, of: u64| {
        if watched {
            eprint!("\r{:3} %\r", done * 100 / of.max(1));
        }
    };
    let outcome = run(&options, &mut progress)?;
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(&outcome)?)?;
    } else {
        for line in lines(&outcome) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

fn absent_lines(absent: &[Absent]) -> impl Iterator<Item = String> {
    absent
        .iter()
        .map(|it| format!("absent: {}: {}", it.what, it.why))
}

fn ecp_lines(outcome: &ecp::Outcome) -> Vec<String> {
    let mut lines = vec![format!("{} additions: {}", outcome.additions, outcome.work)];
    for placed in &outcome.placements {
        lines.push(format!(
            "{:?}, moved {} times:",
            placed.placement, placed.moves
        ));
        for clock in &placed.clocks {
            let durations = clock.durations.as_ref().map_or(String::new(), |it| {
                format!(
                    "min {:.1} p50 {:.1} p99 {:.1} max {:.0} mean {:.1} sd {:.1} ns",
                    it.min_ns, it.p50_ns, it.p99_ns, it.max_ns, it.mean_ns, it.sd_ns
                )
            });
            lines.push(format!(
                "  {:36} {durations}; zero {} backward {}; of {} steps {} equal {} backward; {} migrations",
                clock.how, clock.zero, clock.backward, clock.steps, clock.equal_steps,
                clock.backward_steps, clock.migrations
            ));
        }
    }
    lines.extend(absent_lines(&outcome.absent));
    lines
}

fn strict_lines(outcome: &strict::Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(it) = &outcome.alone {
        lines.push(format!("{it:#?}"));
    }
    for it in &outcome.across {
        lines.push(format!(
            "{}: {} comparisons on {} cores, {} repeated: {} backward (worst {} ns), {} equal",
            it.how, it.comparisons, it.cores, it.repeated, it.backward, it.worst_ns, it.equal
        ));
    }
    lines.extend(absent_lines(&outcome.absent));
    lines
}

fn cost_lines(outcome: &cost::Outcome) -> Vec<String> {
    let line = |clock: &cost::Cost| {
        let ratios = clock.ratios.iter().map(|ratio| {
            let it = ratio.ratio;
            format!(
                "/{:?} {:.2} [{:.2}, {:.2}]",
                ratio.over, it.median, it.low, it.high
            )
        });
        let ratios: Vec<String> = ratios.collect();
        format!(
            "{:46} {:7.1} ns  {}",
            clock.how,
            clock.ns.median,
            ratios.join("  ")
        )
    };
    let absent = absent_lines(&outcome.absent);
    outcome.clocks.iter().map(line).chain(absent).collect()
}

fn loop_lines(outcome: &loops::Outcome) -> Vec<String> {
    let mut lines = vec![format!(
        "{:?} {:?}",
        outcome.external, outcome.external_apart
    )];
    lines.push(format!(
        "MONOTONIC_RAW: {}, RVEC apart {:?}",
        outcome.raw_is, outcome.raw_apart
    ));
    for it in &outcome.loops {
        let clocks = [Some(&it.rvec), Some(&it.raw), it.external.as_ref()];
        for (timed, name) in clocks.into_iter().zip(["RVEC", "RAW", "external"]) {
            let Some(timed) = timed else { continue };
            let durations = &timed.durations;
            lines.push(format!(
                "{:8} {name:9} min {:.0} p50 {:.0} p99 {:.0} max {:.0} ns of {}, {} bins",
                it.instructions,
                durations.min_ns,
                durations.p50_ns,
                durations.p99_ns,
                durations.max_ns,
                durations.count,
                timed.histogram.bins.len()
            ));
        }
    }
    lines.extend(absent_lines(&outcome.absent));
    lines
}

/// As given, or with 2,000 exchanges over UDP that are measured now between two threads.
fn scaling_options(given: &str) -> Result<String, Box<dyn Error>> {
    if given != "{}" {
        return Ok(given.into());
    }
    let (server, client) = (
        UdpSocket::bind("127.0.0.1:0")?,
        UdpSocket::bind("127.0.0.1:0")?,
    );
    client.connect(server.local_addr()?)?;
    thread::spawn(move || {
        let mut message = [0; 32];
        while let Ok((length, from)) = server.recv_from(&mut message) {
            if server.send_to(&message[..length], from).is_err() {
                break;
            }
        }
    });
    let mut ns = Vec::new();
    for _ in 0..2_000 {
        let start = Instant::now();
        client.send(&[0; 32])?;
        client.recv(&mut [0; 32])?;
        ns.push(u64::try_from(start.elapsed().as_nanos())?);
    }
    let times = scaling::Times::RoundTrips { ns, exchanges: 25 };
    Ok(serde_json::to_string(&scaling::Options::new(times))?)
}

fn scaling_lines(outcome: &scaling::Outcome) -> Vec<String> {
    let us = |it: Interval| {
        format!(
            "{:.1} [{:.1}, {:.1}]",
            it.median / 1e3,
            it.low / 1e3,
            it.high / 1e3
        )
    };
    let line = |point: &scaling::Point| {
        format!(
            "{:8} {:26} depth {:2}: {} us, {:.0} messages, busiest {:.0}, bound {} us",
            point.nodes,
            format!("{:?}", point.topology),
            point.depth,
            us(point.total_ns),
            point.messages.median,
            point.busiest_messages.median,
            us(point.bound_ns)
        )
    };
    outcome.points.iter().map(line).collect()
}
