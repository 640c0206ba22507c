//! `listen`: the other end of `connect`.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use clap::{Args, ValueEnum};
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, sockopt};
use nix::sys::socket::{bind, listen, setsockopt, socket};
use serde::Serialize;

use crate::needs;
use ullage_common::epoll::{EpollEvent, EpollFlags, Poll};
use ullage_common::failure::{Failure, print_json};
use ullage_common::{limits, signals};

/// The kernel cuts it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;
/// The listening socket's token; those of connections are their descriptors.
const LISTENER: u64 = u64::MAX;
const EVENTS: usize = 256;

/// Which side ends a connection, and so keeps its port for a minute (`TIME_WAIT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Closer {
    /// The server: the client waits for that, and then closes too.
    Server,
    /// The client.
    Client,
    /// The client, by a reset (`SO_LINGER` of 0): no port is kept.
    Reset,
}

/// Accept TCP connections, answer one byte on each if asked to, and close.
#[derive(Args)]
pub struct Options {
    /// Port; 0: any, see the line on standard error.
    #[arg(long, default_value_t = 7000)]
    port: u16,
    /// Address to listen on.
    #[arg(long, default_value_t = Ipv4Addr::UNSPECIFIED)]
    address: Ipv4Addr,
    /// Threads; absent: one for each core.
    #[arg(long)]
    threads: Option<NonZeroUsize>,
    /// Send one byte back that comes first.
    #[arg(long)]
    echo: bool,
    /// Which side ends a connection.
    #[arg(long, value_enum, default_value_t = Closer::Server)]
    close: Closer,
}

#[derive(Default)]
struct Counts {
    accepted: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
}

#[derive(Serialize)]
struct Report {
    mode: &'static str,
    threads: usize,
    accepted: u64,
    answered: u64,
    failed: u64,
}

/// Serve until SIGTERM or SIGINT, then print what was served.
pub fn run(options: &Options) -> Result<(), Failure> {
    let hard = limits::most_descriptors()?;
    needs::descriptors(hard.saturating_sub(1 << 10).min(1 << 20))?;
    let stop = signals::block(&[Signal::SIGTERM, Signal::SIGINT])?;
    let listener = open(SocketAddrV4::new(options.address, options.port))
        .map_err(|e| Failure::new(&format!("port {}", options.port), e))?;
    let cores = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let threads = options.threads.unwrap_or(cores).get();
    let (listener, counts) = (Arc::new(listener), Arc::new(Counts::default()));
    for _ in 0..threads {
        let server = Server {
            listener: Arc::clone(&listener),
            counts: Arc::clone(&counts),
            echo: options.echo,
            closes: options.close == Closer::Server,
            open: HashMap::new(),
        };
        thread::spawn(move || server.serve());
    }
    let address = listener.local_addr().map_err(|e| Failure::new("port", e))?;
    ullage_common::say(&format!("listening on {address}"));
    stop.wait().map_err(|e| Failure::new("signals", e))?;
    print_json(&Report {
        mode: "listen",
        threads,
        accepted: counts.accepted.load(Ordering::Relaxed),
        answered: counts.answered.load(Ordering::Relaxed),
        failed: counts.failed.load(Ordering::Relaxed),
    })
}

fn open(address: SocketAddrV4) -> io::Result<TcpListener> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    bind(socket.as_raw_fd(), &SockaddrIn::from(address))?;
    listen(&socket, Backlog::new(BACKLOG)?)?;
    Ok(TcpListener::from(socket))
}

/// One thread: it waits at the listening socket that all share, so that whoever is free accepts,
/// and at the connections that it accepted.
struct Server {
    listener: Arc<TcpListener>,
    counts: Arc<Counts>,
    echo: bool,
    closes: bool,
    open: HashMap<u64, TcpStream>,
}

impl Server {
    fn serve(mut self) {
        let poll = Poll::new().expect("epoll");
        // One thread is woken for one connection, not all of them.
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLEXCLUSIVE;
        poll.add(&*self.listener, flags, LISTENER).expect("epoll");
        let mut events = [EpollEvent::empty(); EVENTS];
        loop {
            let ready = poll.wait(&mut events, None).expect("epoll");
            for event in &events[..ready] {
                if event.data() == LISTENER {
                    self.accept(&poll);
                } else {
                    self.answer(event.data());
                }
            }
        }
    }

    /// One connection for each time that it was woken: the others find their share.
    fn accept(&mut self, poll: &Poll) {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => return self.failed(),
        };
        self.counts.accepted.fetch_add(1, Ordering::Relaxed);
        if self.closes && !self.echo {
            return; // dropped: closed
        }
        let token = stream.as_raw_fd().unsigned_abs().into();
        let watched = stream
            .set_nonblocking(true)
            .is_ok_and(|()| poll.add(&stream, EpollFlags::EPOLLIN, token).is_ok());
        if watched {
            self.open.insert(token, stream);
        } else {
            self.failed();
        }
    }

    /// What came on a connection: the byte, the end, or an error.
    fn answer(&mut self, token: u64) {
        let Some(stream) = self.open.get_mut(&token) else {
            return;
        };
        let mut byte = [0];
        let ended = match stream.read(&mut byte) {
            Ok(0) => true,
            Ok(_) if self.echo => match stream.write(&byte) {
                Ok(1) => {
                    self.counts.answered.fetch_add(1, Ordering::Relaxed);
                    self.closes
                }
                _ => return self.drop_failed(token),
            },
            Ok(_) => false,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            // A reset is how the client ends it there.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset && !self.closes => true,
            Err(_) => return self.drop_failed(token),
        };
        if ended {
            self.open.remove(&token);
        }
    }

    fn drop_failed(&mut self, token: u64) {
        self.open.remove(&token);
        self.failed();
    }

    fn failed(&self) {
        self.counts.failed.fetch_add(1, Ordering::Relaxed);
    }
}
