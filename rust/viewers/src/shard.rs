//! One process of viewers: its event loop, its timers, and who comes and goes.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::iter::Peekable;

use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use ullage_clock::Clock;

use ullage_common::epoll::{EpollEvent, Poll};
use ullage_elastic::Schedule;

use crate::config::{Config, nanoseconds};
use crate::nodes::Nodes;
use crate::playback::Plan;
use crate::session::{Outcome, Record, Why};
use crate::statistics::Statistics;
use crate::sys::{self, WATCHED};
use crate::timer_wheel::Wheel;
use crate::viewer::{Phase, Viewer};

/// Events taken at once: timers are looked at after each.
const BATCH: usize = 256;
/// Timers and arrivals handled in a row before sockets are looked at.
const ROW: usize = 64;
/// Whoever could not reach the front, or whose node failed, asks again after so long.
pub const PAUSE_NS: u64 = 250_000_000;
/// Bytes that are read at once of an answer, and of one whose body is small.
pub const HEAD: usize = 4096;
pub const INBOX: usize = 1 << 14;
/// Not a viewer's event.
const CONTROL: u64 = u64::MAX;

pub fn now_ns() -> u64 {
    Clock::get().ordered()
}

/// The instants of the schedule that are this process's, with the viewers' ids.
type Arrivals = Peekable<Box<dyn Iterator<Item = (u64, u64)>>>;

pub struct Shard<'a> {
    pub config: &'a Config,
    pub plan: Plan,
    pub poll: Poll,
    pub nodes: Nodes,
    pub viewers: Vec<Viewer>,
    pub statistics: Statistics,
    /// A request that is being written, and a head that is being read.
    pub request: Vec<u8>,
    pub inbox: Vec<u8>,
    wheel: Wheel,
    /// No timer is due before.
    wake_ns: u64,
    due: Vec<(u32, u64)>,
    free: Vec<u32>,
    arrivals: Arrivals,
    records: Option<BufWriter<File>>,
    spin_ns: u64,
    /// The end of the run, if it has one.
    end_ns: u64,
    playing: u64,
}

/// What a process is told beside the configuration.
pub struct Part {
    pub index: u32,
    pub of: u32,
    pub start_ns: u64,
}

impl<'a> Shard<'a> {
    pub fn new(
        config: &'a Config,
        part: &Part,
        schedule: Schedule,
        records: Option<File>,
    ) -> io::Result<Self> {
        let (first, share) = (config.first_client, &config.share);
        let of = share.of * u64::from(part.of);
        let mine = share.index + share.of * u64::from(part.index);
        let start_ns = part.start_ns;
        let arrivals = (first..)
            .zip(schedule)
            .filter(move |(client, _)| (client - first) % of == mine)
            .map(move |(client, at_ns)| (client, start_ns + at_ns));
        let arrivals: Box<dyn Iterator<Item = _>> = Box::new(arrivals);
        let end_ns = config
            .limits
            .run_s
            .map_or(u64::MAX, |s| start_ns + nanoseconds(s));
        Ok(Self {
            config,
            plan: config.plan(),
            poll: Poll::new()?,
            nodes: Nodes::new(&config.nodes, &config.allow, part.index),
            viewers: Vec::new(),
            statistics: Statistics {
                started_ns: start_ns,
                empty_bytes: sys::used().1,
                ..Statistics::default()
            },
            request: Vec::new(),
            inbox: vec![0; INBOX],
            wheel: Wheel::new(u64::from(config.timing.tick_us) * 1000, now_ns()),
            wake_ns: 0,
            due: Vec::new(),
            free: Vec::new(),
            arrivals: arrivals.peekable(),
            records: records.map(|file| BufWriter::with_capacity(1 << 16, file)),
            spin_ns: u64::from(config.timing.spin_us) * 1000,
            end_ns,
            playing: 0,
        })
    }

    /// Until all have come and gone, the run's time is over, or one of `signals` ends it.
    /// The end of standard input is the parent's end.
    pub fn run(mut self, signals: &SignalFd) -> io::Result<Statistics> {
        self.poll.add(signals, WATCHED, CONTROL)?;
        self.poll.add(io::stdin(), WATCHED, CONTROL)?;
        let mut events = [EpollEvent::empty(); BATCH];
        loop {
            let now = now_ns();
            if self.over(now) {
                break;
            }
            let pause = self.pause(now);
            let count = self.poll.wait(&mut events, Some(pause))?;
            let began = now_ns();
            // Other processes may be ending at this moment, on the same core.
            if began >= self.end_ns {
                break;
            }
            for event in &events[..count] {
                if event.data() == CONTROL {
                    self.statistics.interrupted = true;
                } else {
                    self.happened(event);
                }
                self.timers();
            }
            self.timers();
            self.statistics.turns.record(now_ns() - began);
        }
        self.end()
    }

    fn over(&mut self, now: u64) -> bool {
        let live = self.viewers.len() - self.free.len();
        let done = live == 0 && self.arrivals.peek().is_none();
        done || self.statistics.interrupted || self.statistics.fault.is_some() || now >= self.end_ns
    }

    /// Until something is due, or nothing if that is so soon that sleeping would be too long.
    fn pause(&mut self, now: u64) -> u64 {
        let arrival = self.arrivals.peek().map_or(u64::MAX, |(_, due)| *due);
        let timer = self.wheel.next_ns().unwrap_or(u64::MAX);
        self.wake_ns = arrival.min(timer);
        let pause = self.wake_ns.min(self.end_ns).saturating_sub(now);
        if pause < self.spin_ns {
            0
        } else {
            pause.min(3_600_000_000_000)
        }
    }

    /// What is due now, in the order of their ticks; not for ever.
    fn timers(&mut self) {
        for _ in 0..ROW {
            let now = now_ns();
            if now < self.wake_ns || now >= self.end_ns {
                return;
            }
            let mut due = std::mem::take(&mut self.due);
            self.wheel.expire(now, &mut due);
            for (index, due_ns) in due.drain(..) {
                self.fire(index, due_ns);
            }
            self.due = due;
            let arrival = self.arrivals.next_if(|(_, due_ns)| *due_ns <= now);
            if let Some((client, due_ns)) = arrival {
                self.come(client, due_ns);
            }
            let arrival = self.arrivals.peek().map_or(u64::MAX, |(_, due)| *due);
            self.wake_ns = arrival.min(self.wheel.next_ns().unwrap_or(u64::MAX));
        }
    }

    fn fire(&mut self, index: u32, due_ns: u64) {
        let now = now_ns();
        let viewer = &self.viewers[index as usize];
        match viewer.phase {
            Phase::Free => {}
            Phase::Asking | Phase::Telling if viewer.connecting => {
                self.fault(index, Why::ConnectionTimedOut);
            }
            Phase::Asking => self.fault(index, Why::FrontSilent),
            Phase::Telling => self.fault(index, Why::Silent),
            Phase::Pausing => self.ask(index),
            Phase::Retelling => self.announce(index),
            Phase::Fetching if viewer.connecting => self.fault(index, Why::ConnectionTimedOut),
            Phase::Fetching => {
                let until = viewer.last_byte_ns + nanoseconds(self.config.limits.silence_s);
                if now < until {
                    self.timer(index, until);
                } else {
                    self.fault(index, Why::Silent);
                }
            }
            Phase::Resting => {
                self.statistics.lateness.record(now - due_ns);
                self.viewers[index as usize].sends(due_ns, now);
                self.fetch(index);
            }
            Phase::Watching => self.leave(index, Outcome::Served, None, due_ns),
        }
    }

    fn come(&mut self, client: u64, due_ns: u64) {
        let index = self.admit(client, due_ns);
        if self.config.front.is_some() {
            self.ask(index);
        } else {
            let viewer = &mut self.viewers[index as usize];
            viewer.node = self.nodes.of(client);
            viewer.answered_ns = viewer.asked_ns;
            self.fetch(index);
        }
    }

    /// A place for one who comes.
    fn admit(&mut self, client: u64, due_ns: u64) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.viewers.push(Viewer::default());
            u32::try_from(self.viewers.len() - 1).expect("far fewer descriptors than 2^32")
        });
        let now = now_ns().min(self.end_ns);
        self.statistics.due += 1;
        self.statistics.lateness.record(now - due_ns);
        let live = (self.viewers.len() - self.free.len()) as u64;
        self.statistics.most = self.statistics.most.max(live);
        self.viewers[index as usize].come(client, due_ns, now);
        index
    }

    pub fn timer(&mut self, index: u32, due_ns: u64) {
        self.wheel.set(index, due_ns);
        self.wake_ns = self.wake_ns.min(due_ns);
    }

    /// Tries again after so long, in another phase.
    pub fn pause_in(&mut self, index: u32, phase: Phase, pause_ns: u64) {
        self.viewers[index as usize].phase = phase;
        self.timer(index, now_ns() + pause_ns);
    }

    pub fn plays(&mut self) {
        self.playing += 1;
        self.statistics.most_playing = self.statistics.most_playing.max(self.playing);
    }

    /// A session is over: its record, and the front is told.
    pub fn leave(&mut self, index: u32, outcome: Outcome, why: Option<Why>, ended_ns: u64) {
        self.close(index);
        self.record(index, outcome, why, ended_ns);
        let viewer = &mut self.viewers[index as usize];
        viewer.violations = Vec::new();
        viewer.asks = 0;
        viewer.question_ns = ended_ns;
        if viewer.placed {
            self.announce(index);
        } else {
            self.vacate(index);
        }
    }

    pub fn vacate(&mut self, index: u32) {
        self.close(index);
        self.wheel.cancel(index);
        self.viewers[index as usize].phase = Phase::Free;
        self.free.push(index);
    }

    /// Closes the connection; events of it that are still to come do not count.
    pub fn close(&mut self, index: u32) {
        let viewer = &mut self.viewers[index as usize];
        viewer.fd = None;
        viewer.generation = viewer.generation.wrapping_add(1);
        viewer.kept = false;
        viewer.expect();
    }

    fn record(&mut self, index: u32, outcome: Outcome, why: Option<Why>, ended_ns: u64) {
        let viewer = &mut self.viewers[index as usize];
        // A picture that stands still when all is over stood still until then.
        if let Some(violation) = viewer.player.standing(&self.plan, ended_ns) {
            self.statistics.violations.record(violation.length_ns);
            viewer.violations.push(violation);
        }
        self.playing -= u64::from(viewer.player.plays());
        if let Some((took, should)) = viewer.requested() {
            self.statistics.requested.record(took, should);
        }
        if let Some((took, should)) = viewer.delivered(&self.plan) {
            self.statistics.delivered.record(took, should);
        }
        self.statistics
            .count(outcome, why, !viewer.violations.is_empty());
        self.statistics.bytes += viewer.bytes;
        let Some(records) = &mut self.records else {
            return;
        };
        let instant = |ns| (ns > 0).then_some(ns);
        let record = Record {
            client: viewer.client,
            due_ns: viewer.due_ns,
            asked_ns: viewer.asked_ns,
            answered_ns: instant(viewer.answered_ns),
            node: self.nodes.address(viewer.node),
            first_byte_ns: instant(viewer.first_byte_ns),
            ended_ns,
            outcome,
            why,
            bytes: viewer.bytes,
            violations: &viewer.violations,
        };
        let written = serde_json::to_writer(&mut *records, &record).map_err(io::Error::from);
        if let Err(error) = written.and_then(|()| records.write_all(b"\n")) {
            self.statistics.fault = Some(format!("the sessions could not be written: {error}"));
            self.records = None;
        }
    }

    /// Whoever is still here is cut, and so is who was due and has not come.
    fn end(mut self) -> io::Result<Statistics> {
        let now = now_ns().min(self.end_ns);
        let mut due = Vec::new();
        self.wheel.expire(now, &mut due);
        for (index, due_ns) in due {
            // Not sent at all, so at least as late as this.
            if self.viewers[index as usize].phase == Phase::Resting {
                self.statistics.lateness.record(now - due_ns);
            }
        }
        while let Some((client, due_ns)) = self.arrivals.next_if(|(_, due_ns)| *due_ns <= now) {
            let index = self.admit(client, due_ns);
            self.viewers[index as usize].phase = Phase::Asking;
        }
        for index in 0..u32::try_from(self.viewers.len()).expect("as above") {
            match self.viewers[index as usize].phase {
                Phase::Free => {}
                Phase::Telling | Phase::Retelling => self.statistics.untold += 1,
                _ => self.record(index, Outcome::Cut, Some(Why::RunEnded), now),
            }
        }
        if let Some(records) = &mut self.records {
            records.flush()?;
        }
        self.statistics.ended_ns = now;
        (self.statistics.cpu_s, self.statistics.peak_bytes) = sys::used();
        Ok(self.statistics)
    }

    fn happened(&mut self, event: &EpollEvent) {
        let data = event.data();
        #[expect(clippy::cast_possible_truncation, reason = "its halves")]
        let (index, generation) = (data as u32, (data >> 32) as u32);
        let viewer = &self.viewers[index as usize];
        if viewer.generation == generation && viewer.fd.is_some() {
            self.ready(index, event.events());
        }
    }
}

/// The signals that end a run.
pub const ENDINGS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
