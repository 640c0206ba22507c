//! RGAP over UDP.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use super::channel::{Buffer, Channel, Eyes, STOP_NS, respond};
use super::patience::Patience;
use super::{LENGTH, Server, Standing};
use crate::sys;

/// Answers with this clock until told to stop. The socket is made non-blocking.
///
/// # Errors
/// If the socket is broken.
pub fn serve(
    socket: &UdpSocket,
    server: &mut Server,
    clock: impl Fn() -> (u64, Standing),
    stop: &AtomicBool,
) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let mut buffer: Buffer = [0; LENGTH + 1];
    let (mut eyes, mut patience) = (Eyes::default(), Patience::default());
    while !stop.load(Ordering::Relaxed) {
        let datagram = unless_passing(socket.recv_from(&mut buffer))?;
        let Some((length, from)) = datagram else {
            let (now_ns, _) = clock();
            eyes.empty(now_ns);
            if patience.over(now_ns) {
                sys::readable(socket.as_fd(), STOP_NS)?;
                eyes.closed();
            }
            continue;
        };
        if let Some((answer, t3)) = respond(server, &buffer[..length], eyes, &clock) {
            // If it does not go out, it is lost like any other.
            let _ = socket.send_to(&answer, from);
            patience.met(t3);
        }
        eyes.closed();
    }
    Ok(())
}

/// To one server. Not a connected socket, so that both sides do the same work for a message: the
/// kernel takes some hundred nanoseconds longer to send to an address.
#[derive(Debug)]
pub struct Udp {
    socket: UdpSocket,
    server: SocketAddr,
    buffer: Buffer,
}

impl Udp {
    /// To the server at this address, from any port.
    ///
    /// # Errors
    /// If there is no socket to be had.
    pub fn new(server: SocketAddr) -> io::Result<Self> {
        let any: SocketAddr = match server {
            SocketAddr::V4(_) => ([0; 4], 0).into(),
            SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
        };
        Self::from(UdpSocket::bind(any)?, server)
    }

    /// The same by this socket, which is made non-blocking.
    ///
    /// # Errors
    /// If the socket is broken.
    pub fn from(socket: UdpSocket, server: SocketAddr) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            server,
            buffer: [0; LENGTH + 1],
        })
    }
}

impl Channel for Udp {
    fn send(&mut self, bytes: &[u8; LENGTH]) -> io::Result<()> {
        unless_passing(self.socket.send_to(bytes, self.server))?;
        Ok(())
    }

    fn look(&mut self) -> io::Result<Option<&[u8]>> {
        let datagram = unless_passing(self.socket.recv_from(&mut self.buffer))?;
        let ours = datagram.filter(|(_, from)| *from == self.server);
        Ok(ours.map(|(length, _)| &self.buffer[..length]))
    }

    fn wait(&mut self, within_ns: u64) -> io::Result<()> {
        sys::readable(self.socket.as_fd(), within_ns)?;
        Ok(())
    }
}

/// None where it is as if nothing had come: nobody is there yet, or not any more, or a datagram was
/// thrown away for its checksum.
fn unless_passing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(it) => Ok(Some(it)),
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock
            | ErrorKind::Interrupted
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset => Ok(None),
            _ => Err(error),
        },
    }
}
