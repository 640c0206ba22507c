//! Requests and answers over pipes, and everything that can be wrong with them.

mod common;

use common::{Agent, Event, frame, json};

#[test]
fn hello_tells_facts_and_clocks() {
    let mut agent = Agent::serve();
    let hello = agent.hello();
    assert_eq!(hello["op"], "hello");
    assert_eq!(hello["version"], 2);
    assert_eq!(hello["agent"], env!("CARGO_PKG_VERSION"));
    let facts = &hello["facts"];
    assert_eq!(facts["init"], false);
    assert!(
        facts["cpus_allowed"]
            .as_array()
            .is_some_and(|cpus| !cpus.is_empty())
    );
    assert!(facts["memory_total_bytes"].as_u64() > Some(1 << 20));
    let expected = [
        "hostname",
        "kernel",
        "machine",
        "os",
        "uid",
        "pid",
        "cpus_online",
        "cpus_allowed",
        "cpu_model",
        "cpu_quota",
        "memory_total_bytes",
        "memory_limit_bytes",
        "clocksource",
        "hypervisor",
        "init",
    ];
    let names: Vec<_> = facts.as_object().expect("facts").keys().collect();
    assert_eq!(names.len(), expected.len());
    assert!(expected.iter().all(|name| facts.get(name).is_some()));
    let clock = &hello["clock"];
    assert!(["counter", "monotonic-raw"].contains(&clock["source"].as_str().expect("source")));
    assert_eq!(clock["shared"], false);
    assert!(clock["reasons"].is_array() && clock.get("ordered_ns").is_some());
    assert!(agent.ns() > clock["ns"].as_u64().expect("ns"));
}

#[test]
fn sample_reads_the_kernel() {
    let mut agent = Agent::serve();
    let sample = agent.ask(&json!({"op": "sample", "id": 3}));
    assert_eq!(sample["op"], "sample");
    assert_eq!(
        sample["cpu"]["hz"],
        if cfg!(windows) { 10_000_000 } else { 100 }
    );
    assert!(sample["memory"]["MemTotal"].as_u64() > Some(1 << 20));
    assert!(
        ["ns", "mono_ns", "width_ns"]
            .iter()
            .all(|name| sample[name].is_u64())
    );
    let loads = if cfg!(windows) { 0 } else { 3 };
    assert_eq!(sample["loadavg"].as_array().map(Vec::len), Some(loads));
}

#[test]
fn malformed_frames_are_answered_once_and_survived() {
    let mut agent = Agent::serve();
    agent.send_bytes(b"garbage and more garbage");
    assert_eq!(agent.code(), "bad-mark");
    agent.ns();
    agent.send_bytes(&frame(9, b"what"));
    assert_eq!(agent.code(), "bad-kind");
    agent.ns();
    agent.send_bytes(&frame(0, &vec![b' '; (64 << 10) + 1]));
    assert_eq!(agent.code(), "too-long");
    agent.ns();
    agent.send_bytes(b"\xA1\x55\x03\x00\xFF\xFF\xFF\xFF");
    assert_eq!(agent.code(), "too-long");
    agent.ns();
    for body in [&b"{"[..], b"[1]", b"\xFF\xFE", b"", b"null"] {
        agent.send_bytes(&frame(0, body));
        assert_eq!(agent.code(), "bad-json");
    }
    agent.send_bytes(&frame(3, b"xy"));
    assert_eq!(agent.code(), "bad-field");
    agent.ns();
}

#[test]
fn deeply_nested_json_does_not_end_it() {
    let mut agent = Agent::serve();
    agent.send_bytes(&frame(0, "[".repeat(60_000).as_bytes()));
    assert_eq!(agent.code(), "bad-json");
    agent.ns();
}

#[test]
fn requests_that_cannot_be_done_say_why() {
    let mut agent = Agent::serve();
    let cases = [
        (json!({"op": "dance", "id": 5}), "unknown-op"),
        (json!({"id": 5}), "bad-field"),
        (
            json!({"op": "hello", "id": 5, "version": 1, "token": common::TOKEN}),
            "version",
        ),
        (json!({"op": "hello", "id": 5, "version": 2}), "bad-field"),
        (
            json!({"op": "hello", "id": 5, "version": 2, "token": "00"}),
            "bad-field",
        ),
        (
            json!({"op": "hello", "id": 5, "version": 2, "token": common::TOKEN,
                   "offer": {"boot_id": "", "line": "x"}}),
            "bad-field",
        ),
        (json!({"op": "hello", "id": 5}), "bad-field"),
        (json!({"op": "sync", "id": 5}), "unknown-op"),
        (json!({"op": "sample", "id": 5, "extra": 1}), "bad-field"),
        (
            json!({"op": "kill", "id": 5, "target": 6, "signal": 9}),
            "no-such-id",
        ),
        (json!({"op": "spawn", "id": 5, "argv": []}), "bad-field"),
        (
            json!({"op": "spawn", "id": 5, "argv": ["a\0b"]}),
            "bad-field",
        ),
        (
            json!({"op": "spawn", "id": 5, "argv": ["true"], "env": {"A=B": "c"}}),
            "bad-field",
        ),
        (
            json!({"op": "spawn", "id": 5, "argv": ["no-such-program"]}),
            "exec-failed",
        ),
        (
            json!({"op": "get", "id": 5, "path": "relative"}),
            "bad-field",
        ),
        (json!({"op": "get", "id": 5, "path": common::MISSING}), "io"),
        (json!({"op": "credit", "bytes": 1}), "credit"),
    ];
    for (request, code) in cases {
        let answer = agent.ask(&request);
        assert_eq!(answer["code"], code, "{request} → {answer}");
        assert_eq!(
            answer.get("id"),
            request.get("id").filter(|_| code != "credit"),
            "{request}"
        );
        assert!(
            answer["message"]
                .as_str()
                .is_some_and(|message| !message.is_empty())
        );
    }
    agent.ns();
}

#[test]
fn an_id_in_use_is_not_taken_twice() {
    let mut agent = Agent::serve();
    let started = agent.ask(&json!({"op": "spawn", "id": 7, "argv": common::actor(&["sleep"])}));
    assert_eq!(started["op"], "started");
    let again = agent.ask(&json!({"op": "sample", "id": 7}));
    assert_eq!(again["code"], "id-in-use");
    agent.send(&json!({"op": "kill", "id": 8, "target": 7, "signal": 9}));
    let ops = [agent.answer(), agent.answer()].map(|answer| answer["op"].to_string());
    assert!(
        ops.contains(&"\"done\"".to_owned()) && ops.contains(&"\"exit\"".to_owned()),
        "{ops:?}"
    );
    let free = agent.ask(&json!({"op": "sample", "id": 7}));
    assert_eq!(free["op"], "sample");
}

#[test]
fn data_for_nobody_is_refused_and_its_credit_returned() {
    let mut agent = Agent::serve();
    agent.send_data(77, b"seven!!");
    let Event::Json(credit) = agent.next() else {
        panic!("credit is wanted")
    };
    assert_eq!(credit, json!({"op": "credit", "bytes": 11}));
    let answer = agent.answer();
    assert_eq!(
        (&answer["code"], &answer["id"]),
        (&json!("no-such-id"), &json!(77))
    );
}
