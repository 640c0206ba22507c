//! Nodes that lie, break or are silent: each is an outcome with its reason, and the run ends.

mod common;

use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use common::{node, part, run, server};
use serde_json::{Value, json};

/// One viewer of this node.
fn watch(url: &str, change: &Value) -> Value {
    let mut all = json!({"nodes": [url]});
    for (name, value) in change.as_object().expect("fields") {
        all[name] = value.clone();
    }
    let ran = run(&all);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert_eq!(ran.sessions.len(), 1);
    assert_eq!(
        ran.summary["outcomes"][ran.sessions[0]["outcome"].as_str().expect("text")],
        1
    );
    ran.sessions[0].clone()
}

fn expect(session: &Value, outcome: &str, why: &str) {
    assert_eq!(
        (&session["outcome"], &session["why"]),
        (&json!(outcome), &json!(why)),
        "{session}"
    );
}

#[test]
fn every_lie_has_its_name() {
    fn text(answer: &'static str) -> Vec<u8> {
        answer.into()
    }
    type Answer = fn(&[String]) -> Vec<u8>;
    let cases: [(Answer, &str); 14] = [
        (
            |_| {
                text(
                    "HTTP/1.1 206 X\r\nContent-Length: 99\r\nContent-Range: bytes 0-99/500\r\n\r\n",
                )
            },
            "length",
        ),
        (
            |_| {
                text(
                    "HTTP/1.1 206 X\r\nContent-Length: 100\r\nContent-Range: bytes 1-100/500\r\n\r\n",
                )
            },
            "length",
        ),
        (
            |_| text("HTTP/1.1 206 X\r\nContent-Length: 100\r\n\r\n"),
            "length",
        ),
        (|lines| [&part(lines)[..], b"and more"].concat(), "unasked"),
        (|_| vec![], "connection-lost"),
        (
            |_| text("HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n"),
            "server-error",
        ),
        (
            |_| text("HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n"),
            "status",
        ),
        (
            |_| text("HTTP/1.1 200 X\r\nContent-Length: 500\r\n\r\n"),
            "status",
        ),
        (
            |_| text("HTTP/1.1 302 X\r\nLocation: http://8.8.8.8/clip\r\n\r\n"),
            "not-allowed",
        ),
        (
            |_| text("HTTP/1.1 302 X\r\nLocation: file:///etc/passwd\r\n\r\n"),
            "location",
        ),
        (|_| text("HTTP/1.1 302 X\r\n\r\n"), "location"),
        (|_| text("220 smtp.example.org ready\r\n"), "protocol"),
        (
            |_| [b"HTTP/1.1 206 X\r\nX: ".to_vec(), vec![b'y'; 20_000]].concat(),
            "protocol",
        ),
        (
            |_| text("HTTP/1.1 206 X\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            "protocol",
        ),
    ];
    for (answer, why) in cases {
        let session = watch(&format!("http://{}/clip", node(answer)), &json!({}));
        expect(&session, "failed", why);
    }
}

#[test]
fn an_early_end_after_half_a_chunk() {
    let half = |lines: &[String]| part(lines)[..120].to_vec();
    let address = server(move |stream| {
        let mut reader = std::io::BufReader::new(stream.try_clone().expect("a copy"));
        let lines = common::request(&mut reader).expect("a request");
        std::io::Write::write_all(&mut &stream, &half(&lines)).expect("written");
    });
    let session = watch(&format!("http://{address}/clip"), &json!({}));
    expect(&session, "failed", "connection-lost");
    assert!(session["bytes"].as_u64().expect("a number") < 100);
    assert!(session["first_byte_ns"].is_u64());
}

#[test]
fn a_redirect_to_itself() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/clip", listener.local_addr().expect("bound"));
    let answer = format!("HTTP/1.1 302 X\r\nLocation: {url}\r\nContent-Length: 0\r\n\r\n");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut reader = std::io::BufReader::new(stream.try_clone().expect("a copy"));
            common::request(&mut reader);
            let _ = std::io::Write::write_all(&mut stream, answer.as_bytes());
        }
    });
    expect(&watch(&url, &json!({})), "failed", "redirect-loop");
}

#[test]
fn nobody_and_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/clip", listener.local_addr().expect("bound"));
    let limits = json!({"limits": {"silence_s": 0.2, "connect_s": 60}});
    // The kernel accepts, and nobody answers.
    expect(&watch(&url, &limits), "failed", "silent");
    drop(listener);
    expect(&watch(&url, &limits), "failed", "connection-refused");
}

#[test]
fn a_picture_that_stands_still_when_all_is_over_is_a_violation() {
    let count = Arc::new(Mutex::new(0));
    let address = node(move |lines| {
        let mut count = count.lock().expect("not poisoned");
        *count += 1;
        if *count <= 2 {
            part(lines)
        } else {
            b"HTTP/1.1 206".to_vec()
        }
    });
    let limits = json!({"limits": {"silence_s": 3.0, "connect_s": 60}});
    let session = watch(&format!("http://{address}/clip"), &limits);
    expect(&session, "failed", "silent");
    let violations = session["violations"].as_array().expect("a list");
    let last = violations.last().expect("one");
    let end = last["at_ns"].as_u64().expect("ns") + last["length_ns"].as_u64().expect("ns");
    assert_eq!(end, session["ended_ns"].as_u64().expect("ns"));
    assert_eq!(session["bytes"], 200);
}

#[test]
fn a_node_may_close_between_two_chunks() {
    let address = server(|mut stream| {
        let mut reader = std::io::BufReader::new(stream.try_clone().expect("a copy"));
        let lines = common::request(&mut reader).expect("a request");
        std::io::Write::write_all(&mut stream, &part(&lines)).expect("written");
    });
    let ran = run(&json!({"nodes": [format!("http://{address}/clip")]}));
    assert_eq!(ran.sessions[0]["outcome"], "served", "{:?}", ran.sessions);
    assert_eq!(ran.sessions[0]["bytes"], 500);
    assert_eq!(ran.summary["reopened"], 4);
}

#[test]
fn one_get_is_read_at_the_rate() {
    let node = |answer: &'static [u8]| {
        let address = node(move |_| answer.to_vec());
        watch(
            &format!("http://{address}/clip"),
            &json!({"video": {"read": "whole"}}),
        )
    };
    let head = b"HTTP/1.1 200 X\r\nContent-Length: 500\r\n\r\n";
    let all: &'static [u8] = [&head[..], &[b'x'; 500]].concat().leak();
    let session = node(all);
    assert_eq!(
        (&session["outcome"], &session["bytes"]),
        (&json!("served"), &json!(500)),
        "{session}"
    );
    expect(
        &node(b"HTTP/1.1 200 X\r\nContent-Length: 499\r\n\r\n"),
        "failed",
        "length",
    );
    expect(&node(b"HTTP/1.1 200 X\r\n\r\n"), "failed", "protocol");
    expect(
        &node(b"HTTP/1.1 206 X\r\nContent-Length: 500\r\n\r\n"),
        "failed",
        "status",
    );
}
