//! Viewers and a front: asking, waiting, following, telling, and asking again.

mod common;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{node, part, run};
use serde_json::json;

/// What a front was asked, in order.
type Heard = Arc<Mutex<Vec<String>>>;

/// A front that answers its n-th question so.
fn front(
    answer: impl Fn(usize, &str) -> String + Send + Sync + Clone + 'static,
) -> (String, Heard) {
    let heard = Heard::default();
    let ours = Arc::clone(&heard);
    let address = node(move |lines| {
        let mut heard = ours.lock().expect("not poisoned");
        heard.push(lines[0].clone());
        answer(heard.len() - 1, &lines[0]).into_bytes()
    });
    (format!("http://{address}"), heard)
}

fn to(node: std::net::SocketAddr) -> String {
    format!("HTTP/1.1 302 Found\r\nLocation: http://{node}/clip\r\nContent-Length: 0\r\n\r\n")
}

const DONE: &str = "HTTP/1.1 204 No Content\r\n\r\n";

/// A front that can always be told, and answers a question so.
fn told_or(line: &str, answer: &str) -> String {
    if line.starts_with("POST") {
        DONE.into()
    } else {
        answer.into()
    }
}

fn heard(heard: &Heard) -> Vec<String> {
    let lines = heard.lock().expect("not poisoned");
    lines
        .iter()
        .map(|line| line.split(['?', ' ']).take(2).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn a_viewer_is_sent_to_its_node_and_tells_when_it_has_finished() {
    let node = node(part);
    let (url, questions) = front(move |number, _| if number == 0 { to(node) } else { DONE.into() });
    let ran = run(&json!({"front": url, "first_client": 40}));
    let session = &ran.sessions[0];
    assert_eq!(session["outcome"], "served", "{session}");
    assert_eq!(session["node"], node.to_string());
    assert_eq!(
        (&session["client"], &session["bytes"]),
        (&json!(40), &json!(500))
    );
    let times = [
        "due_ns",
        "asked_ns",
        "answered_ns",
        "first_byte_ns",
        "ended_ns",
    ];
    assert!(
        times
            .map(|name| session[name].as_u64().expect("ns"))
            .is_sorted()
    );
    assert_eq!(heard(&questions), ["GET /watch/40", "POST /finished/40"]);
    assert_eq!(ran.summary["untold"], 0);
}

#[test]
fn who_is_not_served_is_blocked_or_turned_away() {
    for (header, outcome, why) in [
        ("X-Ullage: blocked\r\n", "blocked", "patience-over"),
        ("", "refused", "turned-away"),
    ] {
        let (url, questions) =
            front(move |_, _| format!("HTTP/1.1 503 X\r\n{header}Content-Length: 0\r\n\r\n"));
        let ran = run(&json!({"front": url, "patience_s": 0}));
        let session = &ran.sessions[0];
        assert_eq!(
            (&session["outcome"], &session["why"]),
            (&json!(outcome), &json!(why))
        );
        assert!(session["node"].is_null() && session["answered_ns"].is_u64());
        assert_eq!(heard(&questions), ["GET /watch/0"]);
    }
}

#[test]
fn a_front_that_says_nothing_or_nonsense() {
    let (url, questions) = front(|_, line| told_or(line, "HTTP/1.1 3"));
    let ran = run(&json!({"front": url, "patience_s": 0.5, "limits": {"grace_s": 1}}));
    assert_eq!(ran.sessions[0]["why"], "front-silent");
    // Whatever it was about to say, it may have given the viewer a place.
    assert_eq!(heard(&questions), ["GET /watch/0", "POST /finished/0"]);
    for (answer, why) in [
        (
            "HTTP/1.1 302 X\r\nLocation: http://8.8.8.8/\r\n\r\n",
            "not-allowed",
        ),
        ("HTTP/1.1 302 X\r\nLocation: \r\n\r\n", "location"),
        ("HTTP/1.1 302 X\r\n\r\n", "location"),
        ("HTTP/1.1 200 X\r\n\r\n", "status"),
        ("HTTP/1.1 408 X\r\n\r\n", "status"),
        ("gibberish\r\n", "protocol"),
    ] {
        let (url, questions) = front(move |_, line| told_or(line, answer));
        let ran = run(&json!({"front": url}));
        assert_eq!(ran.sessions[0]["why"], why);
        assert_eq!(ran.sessions[0]["outcome"], "failed");
        assert_eq!(
            heard(&questions),
            ["GET /watch/0", "POST /finished/0"],
            "{answer}"
        );
        assert_eq!(ran.summary["untold"], 0);
    }
}

#[test]
fn who_leaves_while_it_asks_for_another_node_gives_back_the_place_that_it_had() {
    let dead = node(|_| vec![]);
    for (answer, reported) in [
        // The front is away, until patience ends; or has not taken it into account.
        ("", true),
        (
            "HTTP/1.1 503 X\r\nX-Ullage: unlogged\r\nContent-Length: 0\r\n\r\n",
            true,
        ),
        (
            "HTTP/1.1 503 X\r\nX-Ullage: crowded\r\nContent-Length: 0\r\n\r\n",
            true,
        ),
        // Asked anew and not placed, it has none.
        (
            "HTTP/1.1 503 X\r\nX-Ullage: blocked\r\nContent-Length: 0\r\n\r\n",
            false,
        ),
    ] {
        let (url, questions) = front(move |number, line| {
            if number == 0 {
                to(dead)
            } else {
                told_or(line, answer)
            }
        });
        let ran = run(&json!({"front": url, "patience_s": 3}));
        assert_eq!(ran.sessions[0]["outcome"], "failed");
        assert_eq!(ran.sessions[0]["why"], "connection-lost");
        let heard = heard(&questions);
        assert!(
            heard[..2].iter().all(|line| line == "GET /watch/0"),
            "{heard:?}"
        );
        let end = heard.last().map(String::as_str);
        assert_eq!(
            end == Some("POST /finished/0"),
            reported,
            "{answer}: {heard:?}"
        );
        assert_eq!(ran.summary["untold"], 0);
    }
}

/// More often than it may ask: a place of somebody who has gone is nobody's.
#[test]
fn a_front_that_was_away_is_told_when_it_is_back() {
    let node = node(part);
    let (url, questions) = front(move |number, _| match number {
        0 => to(node),
        1..4 => String::new(),
        _ => DONE.into(),
    });
    let ran = run(&json!({"front": url, "limits": {"asks": 1}}));
    assert_eq!(ran.sessions[0]["outcome"], "served");
    assert_eq!(heard(&questions)[1..], ["POST /finished/0"; 4]);
    assert_eq!(ran.summary["untold"], 0);
}

#[test]
fn a_front_that_stays_away_is_not_told_for_ever() {
    let node = node(part);
    let (url, questions) = front(move |number, _| match number {
        0 => to(node),
        _ => String::new(),
    });
    let ran = run(&json!({"front": url, "limits": {"asks": 255, "tell_s": 0.4}}));
    assert_eq!(ran.sessions[0]["outcome"], "served");
    let heard = heard(&questions);
    assert!(heard[1..].iter().all(|line| line == "POST /finished/0") && heard.len() > 1);
    assert_eq!(ran.summary["untold"], 1);
    // Its session was over before: what the front did is not in it.
    assert_eq!(ran.summary["outcomes"]["served"], 1);
}

#[test]
fn a_front_that_ends_or_has_lost_the_node_is_asked_again() {
    for word in ["ending", "lost"] {
        let node = node(part);
        let (url, questions) = front(move |number, line| match number {
            0 => format!("HTTP/1.1 503 X\r\nX-Ullage: {word}\r\nContent-Length: 0\r\n\r\n"),
            _ => told_or(line, &to(node)),
        });
        let ran = run(&json!({"front": url}));
        assert_eq!(ran.sessions[0]["outcome"], "served", "{word}");
        assert_eq!(
            heard(&questions),
            ["GET /watch/0", "GET /watch/0", "POST /finished/0"]
        );
    }
}

#[test]
fn a_front_that_never_heard_of_a_viewer_is_told_nothing() {
    let crowded = "HTTP/1.1 503 X\r\nX-Ullage: crowded\r\nContent-Length: 0\r\n\r\n";
    let (url, questions) = front(move |_, _| crowded.into());
    let ran = run(&json!({"front": url}));
    assert_eq!(ran.sessions[0]["why"], "turned-away");
    assert_eq!(heard(&questions), ["GET /watch/0"]);
    // Nobody listens there: the port was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", free.local_addr().expect("bound"));
    drop(free);
    let ran = run(&json!({"front": url, "patience_s": 0.1}));
    assert_eq!(ran.sessions[0]["why"], "connection-refused");
    assert_eq!(ran.summary["untold"], 0);
}

#[test]
fn when_its_node_fails_a_viewer_asks_again_and_goes_on_where_it_was() {
    let count = Arc::new(Mutex::new(0));
    let dying = node(move |lines| {
        let mut count = count.lock().expect("not poisoned");
        *count += 1;
        if *count <= 2 {
            part(lines)
        } else {
            b"HTTP/1.1 500 X\r\n\r\n".to_vec()
        }
    });
    let parts = Arc::new(Mutex::new(Vec::new()));
    let requested_parts = Arc::clone(&parts);
    let other = node(move |lines| {
        requested_parts
            .lock()
            .expect("not poisoned")
            .push(common::range(lines).0);
        part(lines)
    });
    let (url, questions) = front(move |number, _| match number {
        0 => to(dying),
        1 => to(other),
        _ => DONE.into(),
    });
    let ran = run(&json!({"front": url}));
    let session = &ran.sessions[0];
    assert_eq!(
        (&session["outcome"], &session["bytes"]),
        (&json!("served"), &json!(500)),
        "{session}"
    );
    assert_eq!(session["node"], other.to_string());
    assert_eq!(*parts.lock().expect("not poisoned"), [200, 300, 400]);
    assert_eq!(
        heard(&questions),
        ["GET /watch/0", "GET /watch/0", "POST /finished/0"]
    );
    assert_eq!(ran.summary["asked_again"], 1);
}

#[test]
fn who_finds_no_working_node_gives_up() {
    let dead = node(|_| b"HTTP/1.1 502 X\r\n\r\n".to_vec());
    let (url, questions) = front(move |_, line| {
        if line.starts_with("GET") {
            to(dead)
        } else {
            DONE.into()
        }
    });
    let ran = run(&json!({"front": url, "limits": {"asks": 3}}));
    assert_eq!(ran.sessions[0]["why"], "server-error");
    let expected = [
        "GET /watch/0",
        "GET /watch/0",
        "GET /watch/0",
        "POST /finished/0",
    ];
    assert_eq!(heard(&questions), expected);
}

#[test]
fn a_front_that_does_not_know_yet_is_not_asked_again_at_once() {
    let dead = node(|_| vec![]);
    let times = Arc::new(Mutex::new(Vec::new()));
    let instants = Arc::clone(&times);
    let (url, _) = front(move |_, line| {
        if line.starts_with("GET") {
            instants.lock().expect("not poisoned").push(Instant::now());
            to(dead)
        } else {
            DONE.into()
        }
    });
    let ran = run(&json!({"front": url, "limits": {"asks": 3}}));
    assert_eq!(ran.sessions[0]["why"], "connection-lost");
    let times = times.lock().expect("not poisoned");
    assert_eq!(times.len(), 3);
    // Each question is answered after it was read here, and the next one is a pause later at least.
    assert!(times[2] - times[0] > Duration::from_millis(250));
}

#[test]
fn a_front_that_is_away_for_a_moment_is_asked_and_told_again() {
    let node = node(part);
    let (url, questions) = front(move |number, _| match number {
        // It dies while it is asked, and while it is told.
        0 | 2 => String::new(),
        1 => to(node),
        _ => DONE.into(),
    });
    let ran = run(&json!({"front": url}));
    assert_eq!(ran.sessions[0]["outcome"], "served", "{:?}", ran.sessions);
    let expected = [
        "GET /watch/0",
        "GET /watch/0",
        "POST /finished/0",
        "POST /finished/0",
    ];
    assert_eq!(heard(&questions), expected);
    assert_eq!(ran.summary["untold"], 0);
}
