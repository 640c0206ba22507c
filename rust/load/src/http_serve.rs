//! `serve`: a web server from its start to its end. Says when it answers, and then what its
//! processes used while it served: neither the start nor the end of the server is part of that.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use hyper::header::{HOST, HeaderMap};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde::Serialize;

use crate::listeners;
use crate::processes;
use ullage_common::failure::{Failure, print_json};
use ullage_common::signals;

/// A server is asked so often whether it answers.
pub const BETWEEN: Duration = Duration::from_millis(5);
/// An answer to that takes no longer, or is none.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// A server that is told to end and has not after so long is killed.
pub const END: Duration = Duration::from_secs(3);
const LONGEST_HEAD: usize = 8192;

#[derive(Args)]
pub struct Options {
    /// Where it will listen, seen from here
    #[arg(long)]
    address: SocketAddr,
    /// A document that it has
    #[arg(long)]
    path: String,
    /// The length of that document
    #[arg(long)]
    bytes: u64,
    /// It must answer within so many seconds
    #[arg(long, default_value_t = 15)]
    within_s: u64,
    /// The server, in the foreground
    #[arg(last = true, required = true)]
    server: Vec<OsString>,
}

#[derive(Serialize)]
struct Listening {
    listening: bool,
    /// What it calls itself.
    server: Option<String>,
}

#[derive(Serialize)]
struct Served {
    /// CPU time of all its processes from when it answered until it was told to end.
    serving_cpu_s: f64,
    /// The same with its start and its end.
    total_cpu_s: f64,
    processes: usize,
}

pub fn run(options: &Options) -> Result<(), Failure> {
    let address = options.address;
    if TcpStream::connect_timeout(&address, PATIENCE).is_ok() {
        return Err(listeners::taken(address));
    }
    let mut server = Server::start(&options.server)?;
    let result = server.serve(options);
    if result.is_err() {
        server.end();
    }
    result
}

/// The server's first process, which leads a process group of its own: a signal to ours is ours.
struct Server(Child);

impl Server {
    fn start(argv: &[OsString]) -> Result<Self, Failure> {
        let (program, arguments) = argv.split_first().expect("clap requires it");
        Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .map(Self)
            .map_err(|error| Failure::new(&program.to_string_lossy(), error))
    }

    fn serve(&mut self, options: &Options) -> Result<(), Failure> {
        // Only now: the server would inherit it.
        let signals = signals::block(&[Signal::SIGTERM, Signal::SIGINT, Signal::SIGCHLD])?;
        let server = self.answers(options)?;
        let begun = self.cpu()?;
        print_json(&Listening {
            listening: true,
            server,
        })?;
        while signals.wait().is_ok_and(|signal| signal == Signal::SIGCHLD) {
            self.lives()?;
        }
        let ended = self.cpu()?;
        if begun
            .iter()
            .any(|(pid, _)| !ended.iter().any(|(other, _)| other == pid))
        {
            return Err(Failure::new(
                "the server",
                "one of its processes ended meanwhile",
            ));
        }
        self.end();
        let used = getrusage(UsageWho::RUSAGE_CHILDREN)
            .map_err(|error| Failure::new("getrusage", error))?;
        print_json(&Served {
            serving_cpu_s: total(&ended) - total(&begun),
            total_cpu_s: processes::used_s(&used),
            processes: ended.len(),
        })
    }

    /// Waits until it answers as it should; returns what it calls itself.
    fn answers(&mut self, options: &Options) -> Result<Option<String>, Failure> {
        let deadline = Instant::now() + Duration::from_secs(options.within_s);
        while Instant::now() < deadline {
            self.lives()?;
            if let Ok(head) = ask(options.address, &options.path, &HeaderMap::new()) {
                return judge(&head, options.bytes).map_err(|why| Failure::new("the server", why));
            }
            sleep(BETWEEN);
        }
        let patience = format!("no answer within {} s", options.within_s);
        Err(Failure::new("the server", patience))
    }

    fn lives(&mut self) -> Result<(), Failure> {
        match self.0.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(Failure::new(
                "the server",
                format!("it ended by itself, {status}"),
            )),
            Err(error) => Err(Failure::new("the server", error)),
        }
    }

    /// CPU time of each of its processes so far, in seconds.
    fn cpu(&self) -> Result<Vec<(i32, f64)>, Failure> {
        let pids = members(self.group()).map_err(|error| Failure::new("/proc", error))?;
        let times = pids
            .into_iter()
            .filter_map(|pid| Some((pid, processes::cpu_s(pid)?)));
        Ok(times.collect())
    }

    /// Tell it to end, wait, and kill what is left.
    fn end(&mut self) {
        let _ = kill(self.group(), Signal::SIGTERM);
        let deadline = Instant::now() + END;
        while self.ended().is_none() && Instant::now() < deadline {
            sleep(BETWEEN);
        }
        let _ = killpg(self.group(), Signal::SIGKILL);
        let _ = self.0.wait();
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().ok().flatten()
    }

    fn group(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.0.id()).expect("a process id"))
    }
}

/// The head of its answer to one GET with these headers.
pub fn ask(address: SocketAddr, path: &str, headers: &HeaderMap) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n").into_bytes();
    if !headers.contains_key(HOST) {
        request.extend_from_slice(b"Host: ullage\r\n");
    }
    for (name, value) in headers {
        let line = [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"];
        request.extend(line.concat());
    }
    request.extend_from_slice(b"\r\n");
    stream.write_all(&request)?;
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while head.len() < LONGEST_HEAD {
        let length = stream.read(&mut part)?;
        head.extend_from_slice(&part[..length]);
        if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            return Ok(String::from_utf8_lossy(&head[..end]).into_owned());
        }
        if length == 0 {
            break;
        }
    }
    Err(io::Error::from(io::ErrorKind::InvalidData))
}

/// The server's name, if it gives one, when the head is that of the document; else what is wrong.
fn judge(head: &str, bytes: u64) -> Result<Option<String>, String> {
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    if !status.starts_with("HTTP/1.1 200") {
        return Err(format!("it answers {status:?}"));
    }
    let fields: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(": ")).collect();
    let field = |name: &str| {
        let field = fields
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        field.map(|(_, value)| (*value).to_owned())
    };
    let length = field("content-length").and_then(|text| text.parse::<u64>().ok());
    if length != Some(bytes) {
        return Err(format!("its document has {length:?} bytes, not {bytes}"));
    }
    Ok(field("server"))
}

/// The processes of a group.
fn members(group: Pid) -> io::Result<Vec<i32>> {
    let all = processes::all()?;
    let ours = all.iter().filter(|process| process.group == group.as_raw());
    Ok(ours.map(|process| process.pid).collect())
}

fn total(times: &[(i32, f64)]) -> f64 {
    times.iter().map(|(_, time)| time).sum()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_answer_is_that_document_or_it_is_refused() {
        let good = "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\ncontent-length: 7";
        assert_eq!(judge(good, 7), Ok(Some("nginx/1.22.1".into())));
        assert_eq!(judge("HTTP/1.1 200 OK\r\nContent-Length: 7", 7), Ok(None));
        assert!(judge(good, 8).unwrap_err().contains("Some(7)"));
        assert!(
            judge("HTTP/1.1 403 Forbidden", 7)
                .unwrap_err()
                .contains("403")
        );
        assert!(judge("", 7).is_err());
    }

    #[test]
    fn a_port_that_somebody_has_is_refused_before_the_start() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let options = Options {
            address: other.local_addr().unwrap(),
            path: "/".into(),
            bytes: 1,
            within_s: 1,
            server: vec!["/nonexistent".into()],
        };
        assert!(format!("{:?}", run(&options).unwrap_err()).contains("is taken"));
    }

    #[test]
    fn a_server_that_ends_is_told_at_once() {
        let mut server = Server::start(&["true".into()]).unwrap();
        server.0.wait().unwrap();
        assert!(format!("{:?}", server.lives().unwrap_err()).contains("ended by itself"));
    }

    #[test]
    fn the_cpu_of_a_group_is_seen_while_it_runs() {
        let argv = ["sh", "-c", "while :; do :; done & while :; do :; done"];
        let mut server = Server::start(&argv.map(Into::into)).unwrap();
        let busy = |server: &Server| -> bool {
            let cpu = server.cpu().unwrap();
            cpu.len() == 2 && cpu.iter().all(|(_, time)| *time > 0.01)
        };
        while !busy(&server) {
            sleep(BETWEEN);
        }
        let (before, after) = (server.cpu().unwrap(), server.cpu().unwrap());
        assert!(total(&after) >= total(&before));
        let group = server.group();
        server.end();
        assert!(members(group).unwrap().is_empty() || server.ended().is_some());
    }
}
