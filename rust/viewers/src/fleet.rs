//! The processes of a run: started, told when to begin, and their results put together.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;

use crate::arrivals::schedule;
use crate::config::{Arrivals, Config};
use crate::process::{self, Order, READY, Start};
use crate::shard::{ENDINGS, now_ns};
use crate::statistics::{End, Statistics};
use crate::summary::Summary;
use ullage_common::failure::{self, Failure, print_json};
use ullage_common::{limits, signals};

/// Descriptors that are not viewers'.
const OTHERS: u64 = 64;
/// More processes than this are only made when they are asked for.
const MOST: f64 = 64.0;
/// From when all are ready until the start.
const LEAD_NS: u64 = 50_000_000;

pub fn command(path: &Path) -> Result<ExitCode, Failure> {
    let config = Config::read(path)?;
    let signals = signals::descriptor(&ENDINGS)?;
    let summary = run(&config, &signals)?;
    print_json(&summary)?;
    Ok(ExitCode::from(match (summary.interrupted, summary.valid) {
        (true, _) => failure::INTERRUPTED,
        (false, false) => failure::FAILED,
        (false, true) => 0,
    }))
}

/// One run, in as many processes as it needs; one of `signals` ends it.
pub fn run(config: &Config, signals: &SignalFd) -> Result<Summary, Failure> {
    if let Some(clock) = &config.clock {
        process::share(clock)?;
    }
    let count = shards(config)?;
    let mut sessions = config
        .sessions
        .as_deref()
        .map(Sessions::create)
        .transpose()?;
    let mut shards = Vec::new();
    for index in 0..count {
        let records = sessions.as_mut().map(|sessions| sessions.part(index));
        shards.push(Running::start(config, index, count, records)?);
    }
    let mut interrupted = false;
    let all_ready = attend(&mut shards, signals, &mut interrupted, Running::is_ready)?;
    if all_ready && !interrupted {
        let at_ns = start(config)?;
        for shard in &mut shards {
            shard.say(&Start { at_ns })?;
        }
        attend(&mut shards, signals, &mut interrupted, |shard| shard.ended)?;
    }
    let ends: Vec<_> = shards.into_iter().map(Running::end).collect();
    if let Some(sessions) = sessions {
        sessions.put_together()?;
    }
    let parts = ends.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(Summary::new(config, &parts, interrupted))
}

/// When the schedule's zero is.
fn start(config: &Config) -> Result<u64, Failure> {
    let now = now_ns();
    match config.start_at_ns {
        None => Ok(now + LEAD_NS),
        Some(at_ns) if at_ns > now => Ok(at_ns),
        Some(at_ns) => Err(Failure::new(
            "`start_at_ns`",
            format!("it was {} ns ago when all were ready", now - at_ns),
        )),
    }
}

/// How many processes the limit of descriptors makes necessary.
fn shards(config: &Config) -> Result<u32, Failure> {
    let hard = limits::most_descriptors()?;
    limits::allow_descriptors(hard)?;
    if let Some(count) = config.shards {
        return Ok(count);
    }
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let descriptors = hard.saturating_sub(OTHERS).max(1) as f64;
    let most = match config.arrivals {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        Arrivals::Trace { .. } => schedule(&config.arrivals)?.count() as f64,
        _ => config.at_once(),
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "1 to 64"
    )]
    Ok((most / descriptors).ceil().clamp(1.0, MOST) as u32)
}

pub struct Running {
    index: u32,
    child: Child,
    output: Vec<u8>,
    ended: bool,
    /// It ended before its time: without a report, or because it was told to.
    cut: bool,
}

impl Running {
    fn start(
        config: &Config,
        index: u32,
        of: u32,
        records: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        let child = Command::new("/proc/self/exe")
            .arg("shard")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Failure::new("starting a process", error))?;
        let mut running = Self {
            index,
            child,
            output: Vec::new(),
            ended: false,
            cut: false,
        };
        running.say(&Order {
            config: config.clone(),
            index,
            of,
            records,
            clock: process::own_clock(),
        })?;
        Ok(running)
    }

    fn say(&mut self, order: &impl serde::Serialize) -> Result<(), Failure> {
        let mut text = serde_json::to_vec(order).map_err(|error| Failure::new("orders", error))?;
        text.push(b'\n');
        let Some(input) = &mut self.child.stdin else {
            return Ok(());
        };
        match input.write_all(&text) {
            // It has died, and that is found out elsewhere.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result.map_err(|error| Failure::new("orders", error)),
        }
    }

    fn is_ready(&self) -> bool {
        self.output.starts_with(READY.as_bytes())
    }

    fn hear(&mut self) -> io::Result<()> {
        let mut buffer = [0; 1 << 13];
        let out = self.child.stdout.as_mut();
        let count = out.map_or(Ok(0), |out| out.read(&mut buffer))?;
        self.output.extend_from_slice(&buffer[..count]);
        if count == 0 {
            self.ended = true;
            self.cut = self
                .statistics()
                .is_none_or(|statistics| statistics.interrupted);
        }
        Ok(())
    }

    /// Its report. None: there is none.
    fn statistics(&self) -> Option<Statistics> {
        let report = self.output.strip_prefix(READY.as_bytes())?;
        serde_json::from_slice(report).ok()
    }

    /// End it as a signal would.
    fn stop(&self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
    }

    fn end(mut self) -> Result<End, Failure> {
        drop(self.child.stdin.take());
        let status = self
            .child
            .wait()
            .map_err(|error| Failure::new("a process", error))?;
        match self.statistics() {
            Some(statistics) if status.success() => Ok(Ok(statistics)),
            _ if self.is_ready() => Ok(Err(format!("shard {} {}", self.index, fate(status)))),
            // It has said on standard error why it cannot begin.
            _ => Err(Failure::input(format!(
                "shard {} did not begin",
                self.index
            ))),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn fate(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was killed by signal {signal}"),
        (None, Some(0)) => "ended without a report".into(),
        (None, code) => format!("ended with status {}", code.unwrap_or(-1)),
    }
}

/// Wait until all have come so far, or ended. A signal, or the early end of one, ends the others.
/// Whether all have come so far.
fn attend(
    shards: &mut [Running],
    signals: &SignalFd,
    interrupted: &mut bool,
    far: impl Fn(&Running) -> bool,
) -> Result<bool, Failure> {
    let mut stopped = false;
    while !shards.iter().all(|shard| far(shard) || shard.ended) {
        let waiting: Vec<_> = (0..shards.len()).filter(|at| !shards[*at].ended).collect();
        let ready = ready(shards, &waiting, signals).map_err(|e| Failure::new("waiting", e))?;
        for at in ready.iter().filter_map(|at| waiting.get(*at)) {
            shards[*at]
                .hear()
                .map_err(|e| Failure::new("a process's report", e))?;
        }
        *interrupted |= ready.contains(&waiting.len()) && signals.read_signal().is_ok();
        if (shards.iter().any(|shard| shard.cut) || *interrupted) && !stopped {
            stopped = true;
            shards
                .iter()
                .filter(|shard| !shard.ended)
                .for_each(Running::stop);
        }
    }
    Ok(shards.iter().all(far))
}

/// Which of the waiting have said something; one more number is a signal's.
fn ready(shards: &[Running], waiting: &[usize], signals: &SignalFd) -> nix::Result<Vec<usize>> {
    let outs = waiting
        .iter()
        .filter_map(|at| shards[*at].child.stdout.as_ref());
    let mut polled: Vec<_> = outs
        .map(|out| PollFd::new(out.as_fd(), PollFlags::POLLIN))
        .collect();
    polled.push(PollFd::new(signals.as_fd(), PollFlags::POLLIN));
    match poll(&mut polled, PollTimeout::NONE) {
        Ok(_) | Err(nix::Error::EINTR) => {}
        Err(error) => return Err(error),
    }
    let ready = polled
        .iter()
        .enumerate()
        .filter(|(_, it)| it.any().unwrap_or(false));
    Ok(ready.map(|(at, _)| at).collect())
}

/// The sessions file, and each process's part of it until the end.
struct Sessions {
    path: PathBuf,
    file: File,
    parts: Vec<PathBuf>,
}

impl Sessions {
    fn create(path: &Path) -> Result<Self, Failure> {
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        Ok(Self {
            path: path.into(),
            file: file.map_err(|error| Failure::bad(path.display(), error))?,
            parts: Vec::new(),
        })
    }

    fn part(&mut self, index: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".shard-{index}"));
        self.parts.push(name.clone().into());
        name.into()
    }

    /// The complete records of a process that died.
    fn put_together(mut self) -> Result<(), Failure> {
        for part in &self.parts {
            let result = fs::read(part).and_then(|bytes| {
                let end = bytes
                    .iter()
                    .rposition(|byte| *byte == b'\n')
                    .map_or(0, |at| at + 1);
                self.file.write_all(&bytes[..end])
            });
            match result {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Failure::new("the sessions", error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        for part in &self.parts {
            let _ = fs::remove_file(part);
        }
    }
}
