//! `icmp`: echo requests in a flood, as `ping -f` sends them, with every round trip kept. Debian's
//! ping reports no times under 16 bytes of payload, since it keeps the instant in it.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn};
use nix::sys::socket::{ControlMessageOwned, connect, recvmsg, send, setsockopt, socket, sockopt};
use nix::sys::time::TimeSpec;
use serde::Serialize;

use crate::icmp_packet::{HEADER, Kind, address, nearest, read, request};
use crate::pacing::{self, Lateness, LatenessSummary};
use crate::times::{Distribution, Times};
use ullage_common::failure::{Failure, print_json};

/// 65,535 less the headers of IPv4 (20) and ICMP (8).
const LARGEST: u16 = 65_507;
/// A request that is not answered after so long is overtaken by the next: `ping -f` sends "as fast
/// as they come back or one hundred times per second, whichever is more" (ping(8)).
const OVERTAKEN: Duration = Duration::from_millis(10);

/// Flood ping: ICMP echo, the next request when the reply came or after 10 ms.
#[derive(Args)]
pub struct Options {
    /// Address to probe.
    peer: Ipv4Addr,
    /// Requests.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    count: u32,
    /// Bytes of payload, after the 8 of the ICMP header.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u16).range(0..=i64::from(LARGEST)))]
    size: u16,
    /// How long to wait for the last replies, seconds.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=60))]
    wait: u32,
    /// Socket; absent: raw, and a ping socket where that is not allowed.
    #[arg(long, value_enum)]
    socket: Option<Kind>,
    /// The prober may be so late, in seconds, with one request in a hundred.
    #[arg(long, default_value_t = 0.01)]
    late_limit: f64,
}

#[derive(Serialize)]
struct Report {
    mode: &'static str,
    socket: Kind,
    size: u16,
    sent: u32,
    received: u32,
    /// Never answered.
    lost: u32,
    /// Answered, but after the next was sent.
    late: u32,
    /// Replies to what had been answered.
    duplicates: u32,
    /// Replies with another payload than was sent; not counted as received.
    corrupt: u32,
    seconds: f64,
    /// From just before it was sent until the kernel had the reply: what ping tells.
    rtt: Option<Distribution>,
    /// The same until the prober had it: with its own waking.
    rtt_user: Option<Distribution>,
    /// How long after the 10 ms the next was sent; 0 where the reply came before.
    lateness: LatenessSummary,
    valid: bool,
    reason: Option<String>,
}

/// Send the requests and print the report.
pub fn run(options: &Options) -> Result<(), Failure> {
    pacing::exact_timers();
    let (socket, kind) = open(options).map_err(|e| Failure::new("socket for ICMP", e))?;
    let mut prober = Prober::new(socket, kind, options);
    let start = Instant::now();
    prober
        .flood(options)
        .map_err(|e| Failure::new(&format!("probing {}", options.peer), e))?;
    print_json(&prober.report(options, start.elapsed()))
}

/// A socket that talks to the peer alone, and tells when the kernel had what comes.
fn open(options: &Options) -> io::Result<(OwnedFd, Kind)> {
    let (socket, kind) = match options.socket {
        Some(kind) => (plain(kind)?, kind),
        None => match plain(Kind::Raw) {
            Err(Errno::EPERM | Errno::EACCES) => (plain(Kind::Ping)?, Kind::Ping),
            raw => (raw?, Kind::Raw),
        },
    };
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    let peer = SockaddrIn::from(SocketAddrV4::new(options.peer, 0));
    connect(socket.as_raw_fd(), &peer)?;
    Ok((socket, kind))
}

fn plain(kind: Kind) -> Result<OwnedFd, Errno> {
    let kind = match kind {
        Kind::Raw => SockType::Raw,
        Kind::Ping => SockType::Datagram,
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(AddressFamily::Inet, kind, flags, SockProtocol::Icmp)
}

/// One request that was sent.
struct Sent {
    at: Instant,
    /// The same on the clock of the kernel's timestamps.
    wall: Duration,
    answered: bool,
}

struct Prober {
    socket: OwnedFd,
    kind: Kind,
    id: u16,
    packet: Vec<u8>,
    buffer: Vec<u8>,
    sent: Vec<Sent>,
    received: u32,
    late: u32,
    duplicates: u32,
    corrupt: u32,
    stepped: u32,
    rtt: Times,
    rtt_user: Times,
    lateness: Lateness,
}

impl Prober {
    fn new(socket: OwnedFd, kind: Kind, options: &Options) -> Self {
        // Tells our replies from those to another prober behind the same address.
        let mark = wall().subsec_nanos() ^ std::process::id();
        Self {
            socket,
            kind,
            #[allow(clippy::cast_possible_truncation)]
            id: (mark ^ (mark >> 16)) as u16,
            packet: request(usize::from(options.size)),
            buffer: vec![0; 60 + HEADER + usize::from(options.size) + 1],
            sent: Vec::with_capacity(options.count as usize),
            received: 0,
            late: 0,
            duplicates: 0,
            corrupt: 0,
            stepped: 0,
            rtt: Times::new(),
            rtt_user: Times::new(),
            lateness: Lateness::new(),
        }
    }

    fn flood(&mut self, options: &Options) -> io::Result<()> {
        for _ in 0..options.count {
            self.send()?;
            let due = self.last().at + OVERTAKEN;
            while !self.last().answered && self.receive(due)? {}
            let overtakes = !self.last().answered;
            let late = if overtakes {
                due.elapsed()
            } else {
                Duration::ZERO
            };
            self.lateness.late(late);
        }
        let end = Instant::now() + Duration::from_secs(options.wait.into());
        while self.received < options.count && self.receive(end)? {}
        // What came twice may still lie there.
        while self.receive(Instant::now())? {}
        Ok(())
    }

    fn last(&self) -> &Sent {
        self.sent.last().expect("one was sent")
    }

    fn send(&mut self) -> io::Result<()> {
        #[allow(clippy::cast_possible_truncation)]
        let sequence = self.sent.len() as u16;
        address(&mut self.packet, self.id, sequence);
        let (at, wall) = (Instant::now(), wall());
        send(self.socket.as_raw_fd(), &self.packet, MsgFlags::empty())?;
        self.sent.push(Sent {
            at,
            wall,
            answered: false,
        });
        Ok(())
    }

    /// Take in one message, waiting for it until then; false: none came.
    fn receive(&mut self, until: Instant) -> io::Result<bool> {
        let left = until.saturating_duration_since(Instant::now());
        let mut waited = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut waited, Some(TimeSpec::from(left)), None) {
            Ok(0) => return Ok(false),
            Ok(_) => {}
            Err(Errno::EINTR) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
        let mut space = nix::cmsg_space!(TimeSpec);
        let mut parts = [IoSliceMut::new(&mut self.buffer)];
        let received = recvmsg::<()>(
            self.socket.as_raw_fd(),
            &mut parts,
            Some(&mut space),
            MsgFlags::empty(),
        );
        let message = match received {
            Ok(message) => message,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        let now = Instant::now();
        let stamp = message.cmsgs()?.find_map(|part| match part {
            ControlMessageOwned::ScmTimestampns(stamp) => Some(Duration::from(stamp)),
            _ => None,
        });
        let bytes = message.bytes;
        self.note(bytes, now, stamp);
        Ok(true)
    }

    /// What a message of so many bytes in the buffer says.
    fn note(&mut self, bytes: usize, now: Instant, stamp: Option<Duration>) {
        let Some(reply) = read(&self.buffer[..bytes], self.kind) else {
            return;
        };
        // The kernel hands a ping socket its own replies only, and chose the id.
        if self.kind == Kind::Raw && reply.id != self.id {
            return;
        }
        let intact = reply.payload == &self.packet[HEADER..];
        let Some(number) = nearest(self.sent.len(), reply.sequence) else {
            return;
        };
        if !intact {
            self.corrupt += 1;
            return;
        }
        let newest = number + 1 == self.sent.len();
        let sent = &mut self.sent[number];
        if std::mem::replace(&mut sent.answered, true) {
            self.duplicates += 1;
            return;
        }
        self.received += 1;
        self.late += u32::from(!newest);
        self.rtt_user.record(now - sent.at);
        match stamp.and_then(|stamp| stamp.checked_sub(sent.wall)) {
            Some(time) => self.rtt.record(time),
            None => self.stepped += 1,
        }
    }

    fn report(&self, options: &Options, took: Duration) -> Report {
        let stepped = (self.stepped > 0).then(|| {
            format!(
                "{} replies came before they were asked for: the clock was set",
                self.stepped
            )
        });
        let reason = stepped.or_else(|| self.lateness.complaint(options.late_limit));
        Report {
            mode: "icmp",
            socket: self.kind,
            size: options.size,
            sent: options.count,
            received: self.received,
            lost: options.count - self.received,
            late: self.late,
            duplicates: self.duplicates,
            corrupt: self.corrupt,
            seconds: took.as_secs_f64(),
            rtt: self.rtt.distribution(),
            rtt_user: self.rtt_user.distribution(),
            lateness: self.lateness.summary(),
            valid: reason.is_none(),
            reason,
        }
    }
}

/// Time since the epoch.
fn wall() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}
