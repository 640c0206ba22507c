//! The run as a whole: open loop, processes, ends, and what is refused.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use common::{CHUNK, Folder, Ran, VIDEO, config, node, part, ran, run, server};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// Waits for something that must come.
fn wait(until: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !until() {
        assert!(Instant::now() < end, "it did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_stalled_server_does_not_slow_the_arrivals() {
    const VIEWERS: usize = 60;
    // Nobody is answered before everybody has come: a generator that waits would wait for ever.
    let all = Arc::new(Barrier::new(VIEWERS));
    let address = server(move |mut stream| {
        let mut reader = std::io::BufReader::new(stream.try_clone().expect("a copy"));
        let mut first = true;
        while let Some(lines) = common::request(&mut reader) {
            if std::mem::take(&mut first) {
                all.wait();
            }
            if stream.write_all(&part(&lines)).is_err() {
                return;
            }
        }
    });
    let ran = run(&json!({
        "nodes": [format!("http://{address}/clip")],
        "arrivals": {"count": VIEWERS, "rate_hz": 500},
    }));
    assert_eq!(
        ran.summary["outcomes"]["served"], VIEWERS,
        "{}",
        ran.summary
    );
    assert_eq!(ran.summary["most_at_once"], VIEWERS);
}

#[test]
fn the_same_viewers_come_in_any_number_of_processes_and_generators() {
    let url = format!("http://{}/clip", node(part));
    let arrivals = json!({"kind": "poisson", "rate_hz": 500, "count": 30, "seed": 9});
    let due = |change: &Value| -> BTreeMap<u64, u64> {
        let mut all = json!({"nodes": [url], "arrivals": arrivals});
        for (name, value) in change.as_object().expect("fields") {
            all[name] = value.clone();
        }
        let ran = run(&all);
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        let start = ran.summary["started_ns"].as_u64().expect("ns");
        let number = |session: &Value, name: &str| session[name].as_u64().expect("a number");
        let sessions = ran.sessions.iter();
        sessions
            .map(|session| (number(session, "client"), number(session, "due_ns") - start))
            .collect()
    };
    let single = due(&json!({}));
    assert_eq!(
        single.keys().copied().collect::<Vec<_>>(),
        (0..30).collect::<Vec<_>>()
    );
    assert_eq!(due(&json!({"shards": 3})), single);
    let mut fleet = due(&json!({"share": {"index": 0, "of": 2}}));
    assert_eq!(fleet.len(), 15);
    fleet.extend(due(&json!({"share": {"index": 1, "of": 2}, "shards": 2})));
    assert_eq!(fleet, single);
}

#[test]
fn a_signal_ends_it_and_what_was_seen_is_cut() {
    let folder = Folder::new();
    let mut config = config(&json!({
        "nodes": [format!("http://{}/clip", node(part))],
        "arrivals": {"count": 5},
        "video": {"bitrate_bps": 8},
        "shards": 2,
    }));
    config["sessions"] = json!(folder.file("sessions.jsonl"));
    let child = folder.command("run", &config).spawn().expect("started");
    let pid = Pid::from_raw(child.id().try_into().expect("a pid"));
    // Both processes have their part of the file when they are about to begin.
    wait(|| (0..2).all(|n| folder.file(&format!("sessions.jsonl.shard-{n}")).exists()));
    kill(pid, Signal::SIGTERM).expect("it runs");
    let ran = ran(&folder, child.wait_with_output().expect("ended"));
    assert_eq!(ran.status, Some(130), "{}", ran.stderr);
    // Before the start there is nothing to be told.
    if !ran.summary.is_null() {
        assert_eq!(ran.summary["interrupted"], true);
        assert_eq!(ran.summary["outcomes"]["cut"], ran.sessions.len());
    }
    assert!(
        ran.sessions
            .iter()
            .all(|session| session["why"] == "run-ended")
    );
    assert!(!folder.file("sessions.jsonl.shard-0").exists());
}

#[test]
fn the_time_limit_cuts_who_still_watches() {
    let ran = run(&json!({
        "nodes": [format!("http://{}/clip", node(part))],
        "video": {"bitrate_bps": 8},
        "limits": {"run_s": 0.5},
    }));
    assert_eq!(ran.status, Some(0));
    assert_eq!(ran.sessions[0]["outcome"], "cut");
    let ended = ran.sessions[0]["ended_ns"].as_u64().expect("ns");
    assert_eq!(
        ended,
        ran.summary["started_ns"].as_u64().expect("ns") + 500_000_000
    );
}

/// The processes of viewers that this one has started.
fn shards(parent: u32) -> Vec<i32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace()
        .map(|pid| pid.parse().expect("a pid"))
        .collect()
}

/// A run in three processes, of which the second gets a signal while all watch.
fn with_one_of_three_sent(signal: Signal) -> Ran {
    let folder = Folder::new();
    let mut config = config(&json!({
        "nodes": [format!("http://{}/clip", node(part))],
        "arrivals": {"count": 30},
        "video": {"bitrate_bps": 8},
        "shards": 3,
    }));
    config["sessions"] = json!(folder.file("sessions.jsonl"));
    let child = folder.command("run", &config).spawn().expect("started");
    wait(|| shards(child.id()).len() == 3);
    let victim = shards(child.id())[1];
    // It has its part of the file when it is about to begin, and what it wrote says that it has.
    wait(|| folder.file("sessions.jsonl.shard-1").exists());
    kill(Pid::from_raw(victim), signal).expect("it runs");
    ran(&folder, child.wait_with_output().expect("ended"))
}

#[test]
fn a_process_that_dies_makes_the_run_invalid_and_is_named() {
    let ran = with_one_of_three_sent(Signal::SIGKILL);
    assert_ne!(ran.status, Some(0));
    if ran.summary.is_null() {
        // It was not ready yet.
        assert!(
            ran.stderr.contains("shard 1 did not begin"),
            "{}",
            ran.stderr
        );
    } else {
        assert_eq!(ran.summary["valid"], false);
        assert_eq!(ran.summary["why"][0], "shard 1 was killed by signal 9");
    }
}

#[test]
fn a_process_that_a_signal_ends_ends_all_of_them() {
    let ran = with_one_of_three_sent(Signal::SIGTERM);
    assert_eq!(ran.status, Some(130), "{}", ran.stderr);
    assert_eq!(ran.summary["interrupted"], true);
    assert!(
        ran.sessions
            .iter()
            .all(|session| session["why"] == "run-ended")
    );
}

#[test]
fn too_few_descriptors_make_the_run_invalid() {
    let folder = Folder::new();
    let config = config(&json!({
        "nodes": [format!("http://{}/clip", node(part))],
        "arrivals": {"count": 60, "rate_hz": 1000},
        "video": {"bitrate_bps": 8},
        "shards": 1,
    }));
    let inner = folder.command("run", &config);
    let mut command = Command::new("prlimit");
    command
        .arg("--nofile=30:30")
        .arg(inner.get_program())
        .args(inner.get_args());
    let ran = ran(&folder, command.output().expect("prlimit of util-linux"));
    assert_eq!(ran.status, Some(1), "{}", ran.stderr);
    let why = ran.summary["why"][0].as_str().expect("text");
    assert!(why.contains("could not be made here"), "{why}");
    assert!(ran.summary["whys"]["generator"].is_u64());
}

#[test]
fn who_cannot_tell_the_front_for_want_of_descriptors_is_recorded_once() {
    let (request_came, goes_on) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let gates = (Arc::clone(&request_came), Arc::clone(&goes_on));
    let clip = node(move |lines| {
        if common::range(lines).0 == VIDEO - CHUNK {
            gates.0.wait();
            gates.1.wait();
        }
        part(lines)
    });
    let to_it =
        format!("HTTP/1.1 302 Found\r\nLocation: http://{clip}/clip\r\nContent-Length: 0\r\n\r\n");
    let front = node(move |_| to_it.clone().into_bytes());
    let folder = Folder::new();
    let mut config = config(&json!({"front": format!("http://{front}")}));
    config["sessions"] = json!(folder.file("sessions.jsonl"));
    let child = folder.command("run", &config).spawn().expect("started");
    request_came.wait();
    let process = shards(child.id())[0].to_string();
    let limit = Command::new("prlimit")
        .args(["--pid", &process, "--nofile=3:3"])
        .status();
    assert!(limit.expect("prlimit of util-linux").success());
    goes_on.wait();
    let ran = ran(&folder, child.wait_with_output().expect("ended"));
    assert_eq!(ran.status, Some(1), "{}", ran.stderr);
    let why = ran.summary["why"][0].as_str().expect("text");
    assert!(why.contains("could not be made here"), "{why}");
    assert_eq!(ran.sessions.len(), 1);
    assert_eq!(ran.sessions[0]["outcome"], "served");
    assert_eq!(ran.summary["untold"], 1);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let url = format!("http://{}/clip", node(part));
    for (change, named) in [
        (json!({"nodes": [url], "colour": 1}), "colour"),
        (json!({"nodes": []}), "front"),
        (
            json!({"nodes": [url], "sessions": "/nowhere/sessions.jsonl"}),
            "/nowhere",
        ),
        (json!({"nodes": [url], "start_at_ns": 1}), "start_at_ns"),
        (json!({"nodes": [url], "timing": {"cpus": [4095]}}), "cpus"),
        (
            json!({"nodes": [url], "clock": {"boot_id": "", "line": ""}}),
            "clock",
        ),
    ] {
        let folder = Folder::new();
        let output = folder
            .command("run", &config(&change))
            .output()
            .expect("started");
        let ran = ran(&folder, output);
        assert!(ran.status == Some(2) || named == "start_at_ns" && ran.status == Some(1));
        assert!(ran.stderr.contains(named), "{named}: {}", ran.stderr);
        assert!(ran.summary.is_null());
    }
    let folder = Folder::new();
    fs::write(folder.file("sessions.jsonl"), "precious").expect("written");
    let change = json!({"nodes": [url], "sessions": folder.file("sessions.jsonl")});
    let output = folder
        .command("run", &config(&change))
        .output()
        .expect("started");
    assert_eq!(output.status.code(), Some(2));
    let kept = fs::read_to_string(folder.file("sessions.jsonl")).expect("there");
    assert_eq!(kept, "precious");
}

/// `ullage-viewers node`, and where it listens.
fn node_of_ours(bytes: usize, stdin: Stdio) -> (Child, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ullage-viewers"))
        .args(["node", "--bytes", &bytes.to_string()])
        .stdin(stdin)
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut line = String::new();
    let out = child.stdout.take().expect("piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).expect("a line");
    let listening: Value = serde_json::from_str(&line).expect("JSON");
    let address = listening["listening"].as_str().expect("an address");
    (child, address.to_owned())
}

#[test]
fn the_node_of_ours_streams_whole_and_in_parts() {
    for read in ["ranges", "whole"] {
        let (mut child, address) = node_of_ours(100_000, Stdio::piped());
        let ran = run(&json!({
            "nodes": [format!("http://{address}/clip")],
            "arrivals": {"count": 10},
            "video": {"bytes": 100_000, "bitrate_bps": 8_000_000, "chunk_bytes": 30_000, "read": read},
        }));
        drop(child.stdin.take());
        assert!(child.wait().expect("ended").success());
        assert_eq!(ran.summary["outcomes"]["served"], 10, "{}", ran.summary);
        assert_eq!(ran.summary["bytes"], 1_000_000);
    }
}

#[test]
fn the_node_of_ours_knows_a_range_in_small_letters() {
    let (mut child, address) = node_of_ours(1000, Stdio::piped());
    for name in ["Range", "range"] {
        let mut stream = std::net::TcpStream::connect(&address).expect("connected");
        let request = format!("GET /clip HTTP/1.1\r\nHost: x\r\n{name}: bytes=10-19\r\n\r\n");
        std::io::Write::write_all(&mut stream, request.as_bytes()).expect("sent");
        let mut line = String::new();
        let mut answer = std::io::BufReader::new(stream);
        std::io::BufRead::read_line(&mut answer, &mut line).expect("a line");
        assert_eq!(line, "HTTP/1.1 206 Partial Content\r\n", "{name}");
    }
    drop(child.stdin.take());
    assert!(child.wait().expect("ended").success());
}

#[test]
fn the_node_of_ours_streams_behind_a_script() {
    let (mut child, address) = node_of_ours(1000, Stdio::null());
    let ran = run(&json!({
        "nodes": [format!("http://{address}/clip")],
        "arrivals": {"count": 1},
        "video": {"bytes": 1000, "bitrate_bps": 8_000_000, "chunk_bytes": 1000},
    }));
    child.kill().expect("it runs until then");
    child.wait().expect("ended");
    assert_eq!(ran.summary["outcomes"]["served"], 1, "{}", ran.summary);
}

#[test]
fn a_search_does_not_find_more_than_the_node_has_room_for() {
    let taken = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let address = server(move |mut stream| {
        use std::sync::atomic::Ordering::SeqCst;
        let mut reader = std::io::BufReader::new(stream.try_clone().expect("a copy"));
        let place = taken.fetch_add(1, SeqCst);
        while let Some(lines) = common::request(&mut reader) {
            // Whoever comes sixth hears nothing.
            if place < 5 {
                let _ = stream.write_all(&part(&lines));
            }
        }
        taken.fetch_sub(1, SeqCst);
    });
    let mut config = config(&json!({
        "nodes": [format!("http://{address}/clip")],
        "video": {"bitrate_bps": 80},
        "search": {"cap": 100, "start": 4, "step_s": 1.0, "ramp_s": 0.1},
    }));
    config.as_object_mut().expect("fields").remove("arrivals");
    let folder = Folder::new();
    let output = folder.command("search", &config).output().expect("started");
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(result["lower"].as_u64().expect("a number") <= 5, "{result}");
    assert!(result["upper"].is_u64(), "{result}");
    assert_eq!(output.status.success(), result["figure"].is_u64());
    assert!(result["steps"].as_array().expect("a list").len() > 1);
}

#[test]
fn a_picture_that_begins_too_late_to_stand_still_is_not_sustained() {
    // Two thirds of the rate: what is held before the picture begins outlasts the step.
    let address = common::node(|lines| {
        std::thread::sleep(Duration::from_millis(300));
        part(lines)
    });
    let mut config = config(&json!({
        "nodes": [format!("http://{address}/clip")],
        "video": {"bitrate_bps": 4000},
        "playback": {"buffer_s": 0.4},
        "search": {"cap": 2, "start": 1, "step_s": 0.8, "ramp_s": 0.1},
    }));
    config.as_object_mut().expect("fields").remove("arrivals");
    let folder = Folder::new();
    let output = folder.command("search", &config).output().expect("started");
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(result["lower"], 0, "{result}");
    assert!(result["figure"].is_null(), "{result}");
}
