//! A node for tests and for the generator's own figures: answers GET, with and without a range, with
//! as many bytes of nothing. One process, one thread; the limit of descriptors is its limit of viewers.

use std::fs::File;
use std::io::{self, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::ExitCode;

use clap::Args;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::sendfile::sendfile64;
use nix::sys::socket::{Backlog, setsockopt, sockopt};

use crate::sys::WATCHED;
use ullage_common::epoll::{EpollEvent, Poll};
use ullage_common::{Failure, limits};

const BATCH: usize = 256;
const LISTENER: u64 = u64::MAX;
const INPUT: u64 = u64::MAX - 1;
const LONGEST_HEAD: usize = 4096;

/// Stream to viewers.
#[derive(Args)]
pub struct Options {
    /// Where; port 0 is any. The address is printed as `{"listening": "…"}`.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddrV4,
    /// Length of its one video.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    bytes: u64,
}

struct Connection {
    stream: TcpStream,
    /// What has come of a request.
    head: Vec<u8>,
    /// What has not been sent: of the answer's head, and of the video.
    answer: Vec<u8>,
    from: u64,
    to: u64,
}

/// Until standard input ends, or a signal. A file, or `/dev/null` as a script's `&` gives it, cannot
/// be waited for: then a signal.
pub fn command(options: &Options) -> Result<ExitCode, Failure> {
    let hard = limits::most_descriptors()?;
    limits::allow_descriptors(hard)?;
    serve(options).map_err(|error| Failure::new("the node", error))?;
    Ok(ExitCode::SUCCESS)
}

fn serve(options: &Options) -> io::Result<()> {
    let listener = listener(options.listen)?;
    let SocketAddr::V4(address) = listener.local_addr()? else {
        return Err(io::ErrorKind::AddrNotAvailable.into());
    };
    ullage_common::print(&format!("{{\"listening\":\"{address}\"}}"))?;
    let video = File::from(memfd_create(c"video", MFdFlags::MFD_CLOEXEC)?);
    video.set_len(options.bytes)?;
    let mut node = Node {
        poll: Poll::new()?,
        video,
        bytes: options.bytes,
        connections: Vec::new(),
    };
    node.poll.add(&listener, WATCHED, LISTENER)?;
    match node.poll.add(io::stdin(), WATCHED, INPUT) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {}
        added => added?,
    }
    let mut events = [EpollEvent::empty(); BATCH];
    loop {
        let count = node.poll.wait(&mut events, None)?;
        for event in &events[..count] {
            match event.data() {
                LISTENER => node.accept(&listener)?,
                INPUT => return Ok(()),
                _ => node.happened(event),
            }
        }
    }
}

/// With as long a queue as the kernel has.
fn listener(at: SocketAddrV4) -> io::Result<TcpListener> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, listen, socket};
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
    setsockopt(&fd, sockopt::ReuseAddr, &true)?;
    bind(fd.as_raw_fd(), &SockaddrIn::from(at))?;
    listen(&fd, Backlog::MAXALLOWABLE)?;
    Ok(fd.into())
}

struct Node {
    poll: Poll,
    video: File,
    bytes: u64,
    /// By descriptor.
    connections: Vec<Option<Connection>>,
}

impl Node {
    fn accept(&mut self, listener: &TcpListener) -> io::Result<()> {
        loop {
            let stream = match nix::sys::socket::accept4(
                listener.as_raw_fd(),
                nix::sys::socket::SockFlag::SOCK_NONBLOCK
                    | nix::sys::socket::SockFlag::SOCK_CLOEXEC,
            ) {
                // SAFETY: it was made just now, and is nobody else's.
                Ok(fd) => TcpStream::from(unsafe { OwnedFd::from_raw_fd(fd) }),
                // Nobody more, or no descriptor: who is not accepted waits.
                Err(nix::Error::EAGAIN | nix::Error::EMFILE) => return Ok(()),
                Err(nix::Error::ECONNABORTED) => continue,
                Err(error) => return Err(error.into()),
            };
            stream.set_nodelay(true)?;
            let place = stream.as_raw_fd().cast_unsigned() as usize;
            self.poll.add(&stream, WATCHED, place as u64)?;
            if self.connections.len() <= place {
                self.connections.resize_with(place + 1, || None);
            }
            self.connections[place] = Some(Connection {
                stream,
                head: Vec::new(),
                answer: Vec::new(),
                from: 0,
                to: 0,
            });
        }
    }

    fn happened(&mut self, event: &EpollEvent) {
        let place = usize::try_from(event.data()).unwrap_or(usize::MAX);
        let Some(Some(connection)) = self.connections.get_mut(place) else {
            return;
        };
        let result = connection.go_on(&self.video, self.bytes);
        if result.is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock) {
            self.connections[place] = None;
        }
    }
}

impl Connection {
    /// Send and read until the kernel has enough, or nothing more.
    fn go_on(&mut self, video: &File, bytes: u64) -> io::Result<()> {
        loop {
            while !self.answer.is_empty() {
                let sent = (&self.stream).write(&self.answer)?;
                self.answer.drain(..sent);
            }
            while self.from < self.to {
                let mut at = i64::try_from(self.from).unwrap_or(i64::MAX);
                let left = usize::try_from(self.to - self.from)
                    .unwrap_or(usize::MAX)
                    .min(1 << 30);
                let sent = sendfile64(&self.stream, video, Some(&mut at), left)?;
                self.from += sent as u64;
            }
            self.hear()?;
            self.answer(bytes)?;
        }
    }

    /// Read until a request has ended.
    fn hear(&mut self) -> io::Result<()> {
        while !self.head.ends_with(b"\r\n\r\n") {
            let mut new = [0; 1024];
            let count = io::Read::read(&mut &self.stream, &mut new)?;
            if count == 0 || self.head.len() + count > LONGEST_HEAD {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.head.extend_from_slice(&new[..count]);
        }
        Ok(())
    }

    fn answer(&mut self, bytes: u64) -> io::Result<()> {
        let text = String::from_utf8_lossy(&self.head);
        // Names of fields are the same in capitals (RFC 9110, 5.1).
        let mut fields = text.lines().filter_map(|line| line.split_once(": bytes="));
        let range = fields.find(|(name, _)| name.eq_ignore_ascii_case("range"));
        let range = range.map(|(_, range)| range);
        (self.from, self.to) = (0, bytes);
        let head = match range {
            None => format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n"),
            Some(range) => {
                let ends = range.split_once('-');
                let ends = ends.and_then(|(a, b)| Some((a.parse().ok()?, b.parse::<u64>().ok()?)));
                let Some((from, last)) = ends.filter(|(from, last)| from <= last && *last < bytes)
                else {
                    return Err(io::ErrorKind::InvalidData.into());
                };
                (self.from, self.to) = (from, last + 1);
                let length = self.to - self.from;
                format!(
                    "HTTP/1.1 206 Partial Content\r\nContent-Length: {length}\r\n\
                     Content-Range: bytes {from}-{last}/{bytes}\r\n\r\n"
                )
            }
        };
        self.answer = head.into_bytes();
        self.head = Vec::new();
        Ok(())
    }
}
