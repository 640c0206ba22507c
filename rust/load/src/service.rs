//! `service`: anybody's own server from its start to its end. Says when it is ready and how long that
//! took; then what all its processes used while it served, or how it ended.

use std::env;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use clap::Args;
use hyper::header::HeaderMap;
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};
use serde::Serialize;

use crate::http_request;
use crate::http_serve::{BETWEEN, END, PATIENCE, ask};
use crate::listeners;
use crate::pacing::positive;
use crate::processes::{self, Process};
use ullage_common::failure::{Failure, print_json};
use ullage_common::signals;

#[derive(Args)]
pub struct Options {
    /// Where those who load it come to
    #[arg(long)]
    address: SocketAddrV4,
    /// It is ready only when it has printed this
    #[arg(long)]
    output: Option<String>,
    /// It is ready only when it answers this path, asked with the headers of the requests, with a
    /// status from 200 to 399
    #[arg(long)]
    http: Option<String>,
    /// Number of the signal that it is told to end with
    #[arg(long, default_value = "15", value_parser = signal)]
    stop_signal: Signal,
    /// It must be ready within so many seconds
    #[arg(long, default_value_t = 30.0, value_parser = positive)]
    within: f64,
    /// The server, in the foreground
    #[arg(last = true, required = true)]
    server: Vec<OsString>,
}

#[derive(Serialize)]
struct Ready {
    ready: bool,
    /// From when it was started.
    startup_s: f64,
}

#[derive(Serialize)]
struct Served {
    /// From when it was ready until it was told to end, or ended.
    seconds: f64,
    /// CPU time of all its processes meanwhile, also of those that ended; None: one of them ignores
    /// the end of its children, and so nobody knows.
    cpu_s: Option<f64>,
    /// The same as `peak_bytes`, when it was ready.
    ready_peak_bytes: u64,
    /// The most memory that each process had that was there at the end; what they share counts in
    /// each.
    peak_bytes: u64,
    processes: usize,
    /// How its first process ended by itself; None: it served until it was told to end.
    ended: Option<String>,
}

/// Start it, wait until it is ready, then until a signal or its own end.
pub fn run(options: &Options) -> Result<(), Failure> {
    let taken = places(options.address)
        .into_iter()
        .find(|place| connects(*place));
    if let Some(place) = taken {
        return Err(listeners::taken(place));
    }
    prctl::set_child_subreaper(true).map_err(|error| Failure::new("prctl", error))?;
    let begun = Instant::now();
    let mut service = Service::start(options)?;
    let result = service.serve(options, begun);
    service.end(options.stop_signal);
    result
}

struct Service {
    /// It leads a process group of its own: a signal to ours is ours.
    first: Pid,
    ended: Option<WaitStatus>,
    /// It has printed what it was to print.
    announced: Arc<AtomicBool>,
    headers: HeaderMap,
}

impl Service {
    /// What it prints goes to standard error: the other is ours.
    fn start(options: &Options) -> Result<Self, Failure> {
        let headers = http_request::headers()?;
        let (program, arguments) = options.server.split_first().expect("clap requires it");
        let name = program.to_string_lossy();
        let failure = |error: io::Error| Failure::new(&name, error);
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .process_group(0);
        for (name, _) in env::vars_os().filter(|(name, _)| http_request::of_requests(name)) {
            command.env_remove(name);
        }
        let announced = Arc::new(AtomicBool::new(options.output.is_none()));
        if options.output.is_some() {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        } else {
            let ours = io::stderr().as_fd().try_clone_to_owned().map_err(failure)?;
            command.stdout(ours);
        }
        let mut child = command.spawn().map_err(failure)?;
        if let Some(text) = &options.output {
            let stdout = child.stdout.take().expect("it is piped");
            let stderr = child.stderr.take().expect("it is piped");
            listen(stdout, text, &announced);
            listen(stderr, text, &announced);
        }
        let first = i32::try_from(child.id()).expect("a process id");
        Ok(Self {
            first: Pid::from_raw(first),
            ended: None,
            announced,
            headers,
        })
    }

    fn serve(&mut self, options: &Options, begun: Instant) -> Result<(), Failure> {
        // Only now: the server would inherit it.
        let signals = signals::block(&[Signal::SIGTERM, Signal::SIGINT, Signal::SIGCHLD])?;
        self.wait_until_ready(options, begun)?;
        let ready = Instant::now();
        let before = Used::now()?;
        print_json(&Ready {
            ready: true,
            startup_s: (ready - begun).as_secs_f64(),
        })?;
        self.reap();
        while self.ended.is_none() && signals.wait().is_ok_and(|signal| signal == Signal::SIGCHLD) {
            self.reap();
        }
        // It may have died in the moment in which it was to be stopped.
        self.reap();
        let seconds = ready.elapsed().as_secs_f64();
        let after = Used::now()?;
        print_json(&Served {
            seconds,
            cpu_s: after.cpu_since(&before),
            ready_peak_bytes: before.peak_bytes,
            peak_bytes: after.peak_bytes,
            processes: after.processes,
            ended: self.ended.map(in_words),
        })
    }

    fn wait_until_ready(&mut self, options: &Options, begun: Instant) -> Result<(), Failure> {
        let deadline = begun + Duration::from_secs_f64(options.within);
        while !self.ready(options) {
            self.reap();
            if let Some(status) = self.ended {
                return Err(Failure::new("the service", ended_early(options, status)?));
            }
            if Instant::now() > deadline {
                let why = format!(
                    "not ready within {} s: {}",
                    options.within,
                    self.why(options)
                );
                return Err(Failure::new("the service", why));
            }
            sleep(BETWEEN);
        }
        Ok(())
    }

    fn ready(&self, options: &Options) -> bool {
        if !self.announced.load(Ordering::Acquire) {
            return false;
        }
        match &options.http {
            Some(path) => self.status(options.address, path).is_ok_and(is_good),
            None => connects(options.address.into()),
        }
    }

    /// Why it is not ready.
    fn why(&self, options: &Options) -> String {
        let (address, port) = (options.address, options.address.port());
        if let Some(text) = options
            .output
            .as_ref()
            .filter(|_| !self.announced.load(Ordering::Acquire))
        {
            return format!("it has not printed {text:?}");
        }
        if connects(address.into()) {
            let path = options.http.as_deref().unwrap_or_default();
            return match self.status(address, path) {
                Ok(status) => format!("it answers {path} with status {status}"),
                Err(error) => format!("it gives no HTTP answer to {path}: {error}"),
            };
        }
        let elsewhere = places(address).into_iter().find(|place| connects(*place));
        elsewhere.map_or_else(
            || format!("nobody listens on port {port}"),
            |place| {
                format!(
                    "it listens on {} only, where {} is asked for: let it listen on 0.0.0.0",
                    place.ip(),
                    address.ip()
                )
            },
        )
    }

    /// The status of its answer to one request.
    fn status(&self, address: SocketAddrV4, path: &str) -> io::Result<u16> {
        let head = ask(address.into(), path, &self.headers)?;
        let status = head
            .strip_prefix("HTTP/1.")
            .and_then(|rest| rest.split_ascii_whitespace().nth(1)?.parse().ok());
        status.ok_or_else(|| io::Error::other("what it says is no HTTP"))
    }

    /// Take note of those who have ended.
    fn reap(&mut self) {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return,
                Ok(status) if status.pid() == Some(self.first) => self.ended = Some(status),
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Tell it to end, wait, and kill what is left.
    fn end(&mut self, stop: Signal) {
        self.reap();
        if self.ended.is_none() {
            let _ = kill(self.first, stop);
        }
        let deadline = Instant::now() + END;
        while self.ended.is_none() && Instant::now() < deadline {
            sleep(BETWEEN);
            self.reap();
        }
        let _ = killpg(self.first, Signal::SIGKILL);
        while let Ok(family) = family() {
            if family.is_empty() {
                break;
            }
            for one in family {
                let _ = kill(Pid::from_raw(one.pid), Signal::SIGKILL);
            }
            self.reap();
            sleep(BETWEEN);
        }
    }
}

/// What its processes have used up to an instant.
struct Used {
    cpu_s: f64,
    peak_bytes: u64,
    processes: usize,
    /// One of them ignores the end of its children.
    forgets: bool,
}

impl Used {
    fn cpu_since(&self, before: &Self) -> Option<f64> {
        let spent = self.cpu_s - before.cpu_s;
        // Less than before: a child has gone that nobody waited for.
        (spent >= 0.0 && !self.forgets && !before.forgets).then_some(spent)
    }

    fn now() -> Result<Self, Failure> {
        let family = family()?;
        let live: f64 = family
            .iter()
            .map(|one| processes::cpu_s(one.pid).unwrap_or(0.0) + one.gone_s())
            .sum();
        let gone = getrusage(UsageWho::RUSAGE_CHILDREN)
            .map_err(|error| Failure::new("getrusage", error))?;
        Ok(Self {
            cpu_s: live + processes::used_s(&gone),
            peak_bytes: family
                .iter()
                .filter_map(|one| processes::peak_bytes(one.pid))
                .sum(),
            processes: family.len(),
            forgets: family
                .iter()
                .any(|one| processes::forgets_children(one.pid)),
        })
    }
}

/// All processes of the service: whoever's parent ends becomes a child of ours.
fn family() -> Result<Vec<Process>, Failure> {
    processes::below(getpid().as_raw()).map_err(|error| Failure::new("/proc", error))
}

/// Why it ended before it was ready, as far as that can be seen.
fn ended_early(options: &Options, status: WaitStatus) -> Result<String, Failure> {
    if let Some(left) = family()?.first() {
        let name = processes::name(left.pid);
        return Ok(format!(
            "it went to the background ({name}, process {}), and its first process ended with {}: \
             let it stay in the foreground",
            left.pid,
            in_words(status)
        ));
    }
    // Somebody at another address of this machine.
    let holder = listeners::on(options.address.port())
        .map_or_else(String::new, |who| format!("; its port is taken by {who}"));
    Ok(format!(
        "it ended with {} before it was ready{holder}",
        in_words(status)
    ))
}

/// As an image's STOPSIGNAL, which its reader has made a number.
fn signal(text: &str) -> Result<Signal, String> {
    let number: i32 = text.parse().map_err(|_| "a number is asked for")?;
    Signal::try_from(number).map_err(|error| error.to_string())
}

/// Hand on what the server prints, and look for the text in it.
fn listen(mut from: impl Read + Send + 'static, text: &str, announced: &Arc<AtomicBool>) {
    let (text, announced) = (text.as_bytes().to_vec(), Arc::clone(announced));
    thread::spawn(move || {
        let mut tail: Vec<u8> = Vec::new();
        let mut piece = [0; 1 << 14];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            let _ = io::stderr().write_all(&piece[..length]);
            if announced.load(Ordering::Relaxed) {
                continue;
            }
            tail.extend_from_slice(&piece[..length]);
            if tail.windows(text.len()).any(|window| window == text) {
                announced.store(true, Ordering::Release);
            }
            tail.drain(..tail.len().saturating_sub(text.len()));
        }
    });
}

/// Where somebody may listen on the port: as asked for, and where only this machine comes.
fn places(address: SocketAddrV4) -> Vec<SocketAddr> {
    let local = [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ];
    let loopback = local.map(|ip| SocketAddr::new(ip, address.port()));
    std::iter::once(address.into()).chain(loopback).collect()
}

fn connects(place: SocketAddr) -> bool {
    TcpStream::connect_timeout(&place, PATIENCE).is_ok()
}

fn is_good(status: u16) -> bool {
    (200..400).contains(&status)
}

fn in_words(status: WaitStatus) -> String {
    match status {
        WaitStatus::Exited(_, code) => format!("status {code}"),
        WaitStatus::Signaled(_, signal, _) => format!("signal {}", signal as i32),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_answer_of_http_is_none() {
        assert!(is_good(200) && is_good(302));
        assert!(!is_good(500) && !is_good(404) && !is_good(101));
    }

    #[test]
    fn a_text_is_found_across_pieces() {
        struct Pieces(Vec<&'static [u8]>);
        impl Read for Pieces {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let Some(piece) = self.0.pop() else {
                    return Ok(0);
                };
                buffer[..piece.len()].copy_from_slice(piece);
                Ok(piece.len())
            }
        }
        let announced = Arc::new(AtomicBool::new(false));
        listen(
            Pieces(vec![b"ning\n", b"liste", b"x"]),
            "listening",
            &announced,
        );
        let deadline = Instant::now() + Duration::from_secs(60);
        while !announced.load(Ordering::Acquire) {
            assert!(Instant::now() < deadline);
            sleep(BETWEEN);
        }
    }

    #[test]
    fn a_port_may_be_taken_at_three_places() {
        let address = "10.0.0.1:80".parse().unwrap();
        let texts: Vec<String> = places(address).iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["10.0.0.1:80", "127.0.0.1:80", "[::1]:80"]);
    }
}
