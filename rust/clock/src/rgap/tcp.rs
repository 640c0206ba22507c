//! RGAP over TCP, where UDP does not get through.

use std::io::{self, ErrorKind};
use std::mem;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::vec::Vec;

use super::channel::{Channel, Eyes, STOP_NS};
use super::patience::{MOST_NS, Patience};
use super::stream::Stream;
use super::{LENGTH, Server, Standing};
use crate::sys::poll;

/// To one server.
#[derive(Debug)]
pub struct Tcp(Stream<TcpStream, TcpStream>);

impl Tcp {
    /// Connects, within this time.
    ///
    /// # Errors
    /// If nobody accepts.
    pub fn connect(server: SocketAddr, within: Duration) -> io::Result<Self> {
        Self::from(TcpStream::connect_timeout(&server, within)?)
    }

    /// Over this connection, which is made non-blocking.
    ///
    /// # Errors
    /// If it is broken.
    pub fn from(connection: TcpStream) -> io::Result<Self> {
        open(connection).map(Self)
    }
}

impl Channel for Tcp {
    fn send(&mut self, bytes: &[u8; LENGTH]) -> io::Result<()> {
        self.0.send(bytes)
    }

    fn look(&mut self) -> io::Result<Option<&[u8]>> {
        self.0.look()
    }

    fn wait(&mut self, within_ns: u64) -> io::Result<()> {
        self.0.wait(within_ns)
    }
}

fn open(connection: TcpStream) -> io::Result<Stream<TcpStream, TcpStream>> {
    connection.set_nonblocking(true)?;
    // A message is never held back until the one before it is acknowledged.
    connection.set_nodelay(true)?;
    Ok(Stream::new(connection.try_clone()?, connection))
}

/// What clients may cost a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once; others are closed at once. Each takes two file descriptors and the
    /// memory of two messages.
    pub connections: usize,
    /// Who has not yet asked within this is dropped.
    pub greeting: Duration,
    /// Who has not asked, or not read the answer, for so long is dropped.
    pub idle: Duration,
}

impl Limits {
    /// For a run: 256 clients, which may stay for ten minutes between two synchronisations.
    pub const USUAL: Self = Self {
        connections: 256,
        greeting: Duration::from_secs(2),
        idle: Duration::from_secs(600),
    };
}

/// Answers with this clock until told to stop. The listener is made non-blocking. Whoever sends what
/// is no request of this run is dropped.
///
/// # Errors
/// If the listener is broken.
pub fn serve(
    listener: &TcpListener,
    server: &mut Server,
    limits: Limits,
    clock: impl Fn() -> (u64, Standing),
    stop: &AtomicBool,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut guests = Guests {
        all: Vec::new(),
        limits,
        shut_until: None,
    };
    let mut looked_ns = 0;
    while !stop.load(Ordering::Relaxed) {
        let (now_ns, _) = clock();
        let busy = guests.answer(server, &clock, now_ns);
        // Whoever is awake still looks for others now and then.
        if !busy || now_ns.saturating_sub(looked_ns) >= MOST_NS {
            guests.wait(listener, if busy { 0 } else { STOP_NS }, &clock)?;
            looked_ns = clock().0;
        }
    }
    Ok(())
}

#[derive(Debug)]
struct Guest {
    stream: Stream<TcpStream, TcpStream>,
    eyes: Eyes,
    /// How long it is looked at without a break.
    patience: Patience,
    /// Something has come since it was last looked at: whoever has no patience is looked at once.
    stirred: bool,
    greeted: bool,
    /// Of the last request, or of the connection.
    since: Instant,
}

#[derive(Debug)]
struct Guests {
    all: Vec<Guest>,
    limits: Limits,
    /// Nobody is let in until then: there was no file descriptor left.
    shut_until: Option<Instant>,
}

impl Guests {
    /// Looks once at each who has stirred of late. Whether there is any.
    fn answer(
        &mut self,
        server: &mut Server,
        clock: &impl Fn() -> (u64, Standing),
        now_ns: u64,
    ) -> bool {
        let mut busy = false;
        self.all.retain_mut(|guest| {
            if !mem::take(&mut guest.stirred) && guest.patience.over(now_ns) {
                return true;
            }
            busy = true;
            match guest.stream.answer(server, &mut guest.eyes, clock) {
                Ok(Some(t3)) => {
                    guest.patience.met(t3);
                    guest.greeted = true;
                    guest.since = Instant::now();
                    true
                }
                Ok(None) => true,
                Err(_) => false,
            }
        });
        busy
    }

    /// Waits for anybody, lets newcomers in, and drops who was silent for too long.
    fn wait(
        &mut self,
        listener: &TcpListener,
        within_ns: u64,
        clock: &impl Fn() -> (u64, Standing),
    ) -> io::Result<()> {
        let now = Instant::now();
        let Limits { greeting, idle, .. } = self.limits;
        self.all.retain(|guest| {
            let most = if guest.greeted { idle } else { greeting };
            now.duration_since(guest.since) < most
        });
        self.shut_until = self.shut_until.filter(|until| *until > now);
        let mut polled: Vec<_> = self.all.iter().map(|it| it.stream.asks()).collect();
        // A negative one is passed over.
        let door = self.shut_until.map_or(listener.as_raw_fd(), |_| -1);
        polled.push(incoming(door));
        poll(&mut polled, within_ns)?;
        let (now_ns, _) = clock();
        for (guest, polled) in self.all.iter_mut().zip(&polled) {
            if within_ns > 0 {
                guest.eyes.closed();
            }
            if polled.revents != 0 {
                guest.stirred = true;
                guest.patience.begin(now_ns);
            }
        }
        if polled.last().is_some_and(|door| door.revents != 0) {
            self.let_in(listener, now_ns)?;
        }
        Ok(())
    }

    fn let_in(&mut self, listener: &TcpListener, now_ns: u64) -> io::Result<()> {
        loop {
            let connection = match listener.accept() {
                Ok((connection, _)) => connection,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                        self.shut_until = Some(Instant::now() + Duration::from_nanos(STOP_NS));
                        return Ok(());
                    }
                    // A listener has these by itself; accept(2) hands others on from a connection.
                    Some(libc::EBADF | libc::EINVAL | libc::ENOTSOCK | libc::EOPNOTSUPP) => {
                        return Err(error);
                    }
                    _ => continue,
                },
            };
            if self.all.len() >= self.limits.connections {
                continue;
            }
            if let Ok(stream) = open(connection) {
                let mut patience = Patience::default();
                patience.begin(now_ns);
                self.all.push(Guest {
                    stream,
                    eyes: Eyes::default(),
                    patience,
                    stirred: false,
                    greeted: false,
                    since: Instant::now(),
                });
            }
        }
    }
}

fn incoming(file: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd: file,
        events: libc::POLLIN,
        revents: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::Raw;
    use crate::rgap::{Body, Message, Token};

    /// On one core both sides look in vain for each other, and give looking up.
    #[test]
    fn who_is_not_looked_for_is_answered_all_the_same() {
        let clock = || (Raw::ns(), Standing::ROOT);
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("port");
        listener.set_nonblocking(true).expect("listener");
        let address = listener.local_addr().expect("address");
        let mut client = TcpStream::connect(address).expect("connection");
        let mut guests = Guests {
            all: Vec::new(),
            limits: Limits::USUAL,
            shut_until: None,
        };
        guests.wait(&listener, STOP_NS, &clock).expect("listener");
        let patience = &mut guests.all[0].patience;
        patience.begin(0);
        patience.met(MOST_NS);
        assert!(patience.over(MOST_NS));
        let request = Message {
            token: Token([7; 16]),
            sequence: 1,
            t1: 5,
            body: Body::Request,
        };
        client.write_all(&request.encode()).expect("sent");
        let mut server = Server::new(request.token);
        guests.wait(&listener, STOP_NS, &clock).expect("listener");
        assert!(guests.answer(&mut server, &clock, clock().0));
        let mut answer = [0; LENGTH];
        let within = Some(Duration::from_secs(10));
        client.set_read_timeout(within).expect("timeout");
        client.read_exact(&mut answer).expect("answered");
        assert_eq!(Message::parse(&answer).expect("message").t1, 5);
        assert!(!guests.answer(&mut server, &clock, clock().0));
    }
}
