//! `put` and `get`.

mod common;

use std::fs;
use std::path::Path;

use common::{Agent, Event, Value, json};
use sha2::{Digest, Sha256};

fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).expect("stat").permissions().mode() & 0o7777
}

/// Bytes that do not repeat soon.
fn noise(length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
        .collect()
}

fn put(agent: &mut Agent, path: &Path, bytes: &[u8]) -> Value {
    agent.send(&json!({"op": "put", "id": 4, "path": path, "mode": 0o640, "size": bytes.len()}));
    let mut credit = 1 << 20;
    for chunk in bytes.chunks(300_000) {
        while credit < chunk.len() + 4 {
            let Event::Json(grant) = agent.next() else {
                panic!("credit is wanted")
            };
            credit += usize::try_from(grant["bytes"].as_u64().expect("bytes")).expect("usize");
        }
        agent.send_data(4, chunk);
        credit -= chunk.len() + 4;
    }
    agent.answer()
}

fn get(agent: &mut Agent, path: &Path, limit: Option<usize>) -> (Vec<u8>, Value) {
    agent.send(&json!({"op": "get", "id": 4, "path": path, "limit": limit}));
    let mut bytes = Vec::new();
    loop {
        match agent.next() {
            Event::Raw {
                kind: 3,
                id: 4,
                bytes: more,
            } => {
                agent.send(&json!({"op": "credit", "bytes": more.len() + 4}));
                bytes.extend(more);
            }
            Event::Json(answer) => return (bytes, answer),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_file_goes_in_and_comes_out() {
    let mut agent = Agent::serve();
    let path = common::scratch("roundtrip").join("file");
    let bytes = noise(5_000_011);
    let done = put(&mut agent, &path, &bytes);
    assert_eq!(
        (&done["op"], &done["sha256"]),
        (&json!("done"), &json!(sha256(&bytes)))
    );
    assert_eq!(done["size"], bytes.len());
    #[cfg(unix)]
    assert_eq!(mode(&path), 0o640);
    let (back, done) = get(&mut agent, &path, None);
    assert!(back == bytes);
    assert_eq!(
        (&done["sha256"], &done["truncated"]),
        (&json!(sha256(&bytes)), &json!(false))
    );
}

#[test]
fn a_limit_is_kept_and_told() {
    let mut agent = Agent::serve();
    let path = common::scratch("limit").join("file");
    fs::write(&path, noise(1009)).expect("write");
    let (bytes, done) = get(&mut agent, &path, Some(500));
    assert_eq!(
        (bytes.as_slice(), &done["size"]),
        (&noise(1009)[..500], &json!(500))
    );
    assert_eq!(
        (&done["truncated"], &done["sha256"]),
        (&json!(true), &json!(sha256(&bytes)))
    );
    let (bytes, done) = get(&mut agent, &path, Some(1009));
    assert_eq!((bytes.len(), &done["truncated"]), (1009, &json!(false)));
}

#[test]
#[cfg(unix)]
fn files_of_unknown_size_too() {
    let mut agent = Agent::serve();
    let (bytes, done) = get(&mut agent, Path::new("/proc/self/stat"), Some(1 << 20));
    assert!(!bytes.is_empty() && done["size"] == bytes.len());
}

#[test]
fn empty_files() {
    let mut agent = Agent::serve();
    let path = common::scratch("empty").join("file");
    assert_eq!(put(&mut agent, &path, b"")["sha256"], sha256(b""));
    let (bytes, done) = get(&mut agent, &path, Some(0));
    assert_eq!((bytes.len(), &done["sha256"]), (0, &json!(sha256(b""))));
}

#[test]
fn path_errors_are_answered_and_their_data_ignored() {
    let mut agent = Agent::serve();
    let directory = common::scratch("errors");
    let missing = put(&mut agent, &directory.join("no/file"), &noise(700_001));
    assert_eq!(
        (&missing["code"], &missing["id"]),
        (&json!("io"), &json!(4))
    );
    assert!(
        missing["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("put: cannot write in "))
    );
    assert_eq!(put(&mut agent, &directory, b"x")["code"], "io");
    // Windows opens no directory, and its devices have no path that is taken.
    let (refused, device) = if cfg!(windows) {
        ("io", r"\\.\NUL")
    } else {
        ("bad-field", "/dev/null")
    };
    let (_, answer) = get(&mut agent, &directory, None);
    assert_eq!(answer["code"], refused, "{answer}");
    let (_, answer) = get(&mut agent, Path::new(device), None);
    assert_eq!(answer["code"], "bad-field", "{answer}");
    agent.ns();
    assert_eq!(
        fs::read_dir(&directory).expect("list").count(),
        0,
        "nothing is left behind"
    );
}

#[test]
fn too_much_data_spoils_a_put() {
    let mut agent = Agent::serve();
    let directory = common::scratch("much");
    agent.send(
        &json!({"op": "put", "id": 4, "path": directory.join("file"), "mode": 0o644, "size": 3}),
    );
    agent.send_data(4, b"four");
    assert_eq!(agent.code(), "bad-field");
    agent.send_data(4, b"late");
    agent.ns();
    assert_eq!(fs::read_dir(&directory).expect("list").count(), 0);
}

#[test]
fn half_a_put_leaves_nothing_when_the_controller_goes() {
    let mut agent = Agent::serve();
    let directory = common::scratch("half");
    agent.send(
        &json!({"op": "put", "id": 4, "path": directory.join("file"), "mode": 0o644, "size": 30}),
    );
    agent.send_data(4, b"half");
    agent.ns();
    assert_eq!(fs::read_dir(&directory).expect("list").count(), 1);
    agent.to = None;
    assert_eq!(agent.exit_code(), Some(0));
    assert_eq!(fs::read_dir(&directory).expect("list").count(), 0);
}
