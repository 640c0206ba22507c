//! Servers that behave as a test wants, and the program against them.
#![allow(dead_code, reason = "each test uses its part")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

pub const CHUNK: usize = 100;
/// Five chunks, a tenth of a second each.
pub const VIDEO: usize = 500;

/// A server whose connections each get a thread; they live as long as the test.
pub fn server(handle: impl Fn(TcpStream) + Send + Sync + Clone + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let handle = handle.clone();
            thread::spawn(move || handle(stream.expect("a connection")));
        }
    });
    address
}

/// The lines of a request's head; none at the end.
pub fn request(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        match reader.read_line(&mut line) {
            Ok(1..) if line == "\r\n" => return Some(lines),
            Ok(1..) => lines.push(line.trim_end().to_owned()),
            _ => return None,
        }
    }
}

/// First byte and last of what is asked for.
pub fn range(lines: &[String]) -> (usize, usize) {
    let range = lines
        .iter()
        .find_map(|line| line.strip_prefix("Range: bytes="));
    let (first, last) = range.expect("a range").split_once('-').expect("a range");
    (
        first.parse().expect("a number"),
        last.parse().expect("a number"),
    )
}

pub fn part(lines: &[String]) -> Vec<u8> {
    let (first, last) = range(lines);
    let mut answer = format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nContent-Range: bytes {first}-{last}/{VIDEO}\r\n\r\n",
        last + 1 - first
    )
    .into_bytes();
    answer.resize(answer.len() + last + 1 - first, b'x');
    answer
}

/// A node that answers each request by what this makes of it; with nothing it closes.
pub fn node(answer: impl Fn(&[String]) -> Vec<u8> + Send + Sync + Clone + 'static) -> SocketAddr {
    server(move |mut stream| {
        let mut reader = BufReader::new(stream.try_clone().expect("a copy"));
        while let Some(lines) = request(&mut reader) {
            let answer = answer(&lines);
            if answer.is_empty() || stream.write_all(&answer).is_err() {
                return;
            }
        }
    })
}

/// A folder of the test's own.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ullage-viewers-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a folder");
        Self(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The program with this configuration, not started yet.
    pub fn command(&self, mode: &str, config: &Value) -> Command {
        let path = self.file("config.json");
        fs::write(&path, config.to_string()).expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_ullage-viewers"));
        command.arg(mode).arg("--config").arg(path);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Of one or a few viewers at once, with limits that no slow machine comes to.
pub fn config(change: &Value) -> Value {
    let mut config = json!({
        "arrivals": {"kind": "uniform", "rate_hz": 1000, "count": 1},
        "video": {"bytes": VIDEO, "bitrate_bps": 8000, "chunk_bytes": CHUNK},
        "playback": {"buffer_s": 0.1},
        "patience_s": 60,
        "shards": 1,
        "limits": {"connect_s": 60, "silence_s": 60, "grace_s": 60},
        "lateness_limit_ms": 600_000,
    });
    merge(&mut config, change);
    config
}

fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (name, value) in change {
                merge(into.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change.clone(),
    }
}

pub struct Ran {
    pub status: Option<i32>,
    pub summary: Value,
    pub sessions: Vec<Value>,
    pub stderr: String,
}

/// A run to its end.
pub fn run(change: &Value) -> Ran {
    let folder = Folder::new();
    let mut config = config(change);
    config["sessions"] = json!(folder.file("sessions.jsonl"));
    let output = folder.command("run", &config).output().expect("started");
    ran(&folder, output)
}

pub fn ran(folder: &Folder, output: Output) -> Ran {
    let sessions = fs::read_to_string(folder.file("sessions.jsonl")).unwrap_or_default();
    let lines = sessions.lines();
    Ran {
        status: output.status.code(),
        summary: serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
        sessions: lines
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect(),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}
