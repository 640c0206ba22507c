//! The loop: viewers, controller, timers, log. One thread; nothing in it waits but for the next event.
//!
//! Each turn takes what has come, decides, writes the log once, and only then tells anybody.

mod talk;

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signalfd::SignalFd;
use socket2::{Domain, Protocol, Socket, Type};
use ullage_common::epoll::{EpollEvent, EpollFlags, Poll};
use ullage_common::{Failure, say};

use crate::answer::{self, Writer};
use crate::config::{Settings, ns};
use crate::connection::{self, Part};
use crate::connections::Connections;
use crate::controller::{Controller, Report};
use crate::decisions::{Answer, Front};
use crate::token::Token;

const LISTENER: u64 = u64::MAX;
const CONTROLLER: u64 = u64::MAX - 1;
const SIGNALS: u64 = u64::MAX - 2;

/// The kernel cuts it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;
const EVENTS: usize = 256;
/// How often writing the log is tried again after it failed.
const AGAIN_NS: u64 = 100_000_000;
/// How long the controller has, at the end, to read what it was told.
const END: Duration = Duration::from_secs(1);
/// A port that is taken is asked for again for so long, so often.
const TAKEN: Duration = Duration::from_secs(2);
const BREATH: Duration = Duration::from_millis(10);

/// How long connections may take, nanoseconds.
struct Limits {
    request: u64,
    idle: u64,
    /// How often they are checked.
    look: u64,
}

pub struct Server {
    poll: Poll,
    listener: TcpListener,
    signals: SignalFd,
    wake: Arc<EventFd>,
    controller: Controller,
    reports: VecDeque<Report>,
    front: Front,
    connections: Connections,
    writer: Writer,
    part: Box<Part>,
    /// They may have more to read.
    again: Vec<Token>,
    limits: Limits,
    looked: u64,
    alone_ns: Option<u64>,
    /// The controller is gone, and since when.
    alone: Option<u64>,
    quit: bool,
    /// No connection could be accepted, which has been reported.
    choked: bool,
}

/// A listening socket; what it accepts has its options. The port of a front that was killed may be
/// taken for a moment, by a client that asks for it in vain.
pub fn open(address: SocketAddr) -> Result<TcpListener, Failure> {
    let deadline = Instant::now() + TAKEN;
    let make = || -> io::Result<TcpListener> {
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_tcp_nodelay(true)?;
        socket.set_keepalive(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    loop {
        match make() {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(BREATH);
            }
            result => return result.map_err(|error| Failure::new(&address.to_string(), error)),
        }
    }
}

impl Server {
    pub fn new(
        settings: &Settings,
        listener: TcpListener,
        signals: SignalFd,
        front: Front,
        most: usize,
    ) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::new("epoll", error);
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let wake = Arc::new(EventFd::from_flags(flags).map_err(|error| failed(error.into()))?);
        let poll = Poll::new().map_err(failed)?;
        let watched = [
            (listener.as_fd(), LISTENER),
            (wake.as_fd(), CONTROLLER),
            (signals.as_fd(), SIGNALS),
        ];
        for (descriptor, token) in watched {
            poll.add(descriptor, EpollFlags::EPOLLIN, token)
                .map_err(failed)?;
        }
        let (request, idle) = (ns(settings.request_ms), ns(settings.idle_ms));
        let look = (request.min(idle) / 4).clamp(ns(5), ns(1000));
        Ok(Self {
            poll,
            listener,
            signals,
            controller: Controller::start(Arc::clone(&wake)),
            wake,
            reports: VecDeque::new(),
            front,
            connections: Connections::new(most),
            writer: Writer::new(),
            part: connection::part(),
            again: Vec::new(),
            limits: Limits {
                request,
                idle,
                look,
            },
            looked: 0,
            alone_ns: settings.alone_ms.map(ns),
            alone: None,
            quit: false,
            choked: false,
        })
    }

    /// Says something to the controller, apart from what was decided.
    pub fn say(&self, line: &impl serde::Serialize) {
        self.controller.say(line);
    }

    /// Serves until it is told to end.
    pub fn serve(mut self) -> Result<(), Failure> {
        let mut events = [EpollEvent::empty(); EVENTS];
        self.writer.refresh();
        self.commit();
        while !self.quit {
            let longest_ns = self.longest_ns();
            let ready = self.poll.wait(&mut events, longest_ns);
            let ready = ready.map_err(|error| Failure::new("epoll", error))?;
            self.writer.refresh();
            for token in std::mem::take(&mut self.again) {
                self.read(token);
            }
            for event in &events[..ready] {
                match event.data() {
                    LISTENER => self.accept(),
                    CONTROLLER => self.hear(),
                    SIGNALS => self.quit |= matches!(self.signals.read_signal(), Ok(Some(_))),
                    number => self.notice(Token::of(number), event.events()),
                }
            }
            self.go_on();
            self.commit();
        }
        self.end()
    }

    /// Until something is due; none: for ever.
    fn longest_ns(&mut self) -> Option<u64> {
        if !self.again.is_empty() {
            return Some(0);
        }
        if self.front.log.stuck() {
            return Some(AGAIN_NS);
        }
        if !self.reports.is_empty() {
            return Some(0);
        }
        let now = self.front.now();
        let alone = self
            .alone
            .zip(self.alone_ns)
            .map(|(since, may)| since + may);
        let look = Some(self.looked + self.limits.look).filter(|_| self.connections.len() > 0);
        let next = [self.front.next_due(), look, alone];
        let due = next.into_iter().flatten().min();
        due.map(|due| due.saturating_sub(now))
    }

    /// What the controller has said meanwhile.
    fn hear(&mut self) {
        let _ = self.wake.read();
        while let Some(report) = self.controller.next() {
            match report {
                Report::Quit => self.quit = true,
                Report::Gone => {
                    say("the controller is gone: no more nodes come or go");
                    self.alone = Some(self.front.now());
                }
                other => self.reports.push_back(other),
            }
        }
    }

    /// What is to be done without a viewer. Nothing is decided while the log cannot be written.
    fn go_on(&mut self) {
        if !self.front.log.stuck() {
            while let Some(report) = self.reports.pop_front() {
                self.front.take(report);
            }
            self.front.due();
        }
        let now = self.front.now();
        if now >= self.looked + self.limits.look {
            self.looked = now;
            self.look(now);
        }
        let alone = self.alone.zip(self.alone_ns);
        if alone.is_some_and(|(since, may)| now >= since + may) {
            say("nobody came back: ending");
            self.quit = true;
        }
    }

    /// Writes the log, and tells everybody what it says; again, if more follows from that.
    fn commit(&mut self) {
        loop {
            if !self.front.log.write() {
                return self.show();
            }
            for order in self.front.orders.drain(..) {
                self.controller.say(&order);
            }
            let mut answers = std::mem::take(&mut self.front.answers);
            for (token, answer) in answers.drain(..) {
                match answer {
                    Answer::Redirect { client, node } => self.redirect(token, client, node),
                    Answer::Done => self.reply(token, Writer::done),
                    Answer::Words(words) => self.words(token, &words),
                    Answer::Page(page) => self.page(token, page),
                }
            }
            if self.front.answers.is_empty() {
                self.front.answers = answers;
            }
            if !self.front.log.pending() && self.front.orders.is_empty() {
                return;
            }
        }
    }

    /// Pages alone: that the log cannot be written is on them.
    fn show(&mut self) {
        let answers = std::mem::take(&mut self.front.answers);
        for (token, answer) in answers {
            match answer {
                Answer::Page(page) => self.page(token, page),
                other => self.front.answers.push((token, other)),
            }
        }
    }

    /// Tells those who wait that nobody will tell them more; they stay in the log.
    fn end(mut self) -> Result<(), Failure> {
        let held: Vec<Token> = self
            .front
            .sessions
            .all()
            .filter_map(|held| held.token)
            .collect();
        for token in held {
            if let Some(connection) = self.connections.get(token) {
                connection.last();
                self.words(token, &answer::ENDING);
            }
        }
        let result = self.front.log.end();
        self.controller.end(END);
        result
    }
}
