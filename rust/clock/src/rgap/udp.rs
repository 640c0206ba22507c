//! RGAP over UDP.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Action, Client, Failure, LENGTH, Outcome, Rules, Server, Token};
use crate::sys;

/// How often the server looks whether it is to stop, in nanoseconds.
const LOOK_NS: u64 = 50_000_000;

/// One more than any message has, so that a longer one is seen to be none.
type Buffer = [u8; LENGTH + 1];

/// Answers with this clock until told to stop. The socket is made non-blocking.
///
/// # Errors
/// If the socket is broken.
pub fn serve(
    socket: &UdpSocket,
    server: &mut Server,
    clock: impl Fn() -> u64,
    stop: &AtomicBool,
) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let mut buffer: Buffer = [0; LENGTH + 1];
    while !stop.load(Ordering::Relaxed) {
        if !sys::readable(socket.as_fd(), LOOK_NS)? {
            continue;
        }
        let Some((length, from)) = unless_passing(socket.recv_from(&mut buffer))? else {
            continue;
        };
        if let Some(pending) = server.receive(&buffer[..length], clock()) {
            // If it does not go out, it is lost like any other.
            let _ = socket.send_to(&pending.answer(clock()), from);
        }
    }
    Ok(())
}

/// Synchronises this clock with the server that the socket is connected to. The socket is made
/// non-blocking.
///
/// # Errors
/// If the socket is broken. That nobody answers is a [`Failure`].
pub fn synchronise(
    socket: &UdpSocket,
    token: Token,
    rules: Rules,
    clock: impl Fn() -> u64,
) -> io::Result<Result<Outcome, Failure>> {
    socket.set_nonblocking(true)?;
    let mut buffer: Buffer = [0; LENGTH + 1];
    let mut client = Client::new(rules, token, clock());
    loop {
        let now_ns = clock();
        match client.poll(now_ns) {
            Action::Done(done) => return Ok(done),
            Action::Send(bytes) => {
                unless_passing(socket.send(&bytes))?;
            }
            Action::Wait { until_ns } => {
                if !sys::readable(socket.as_fd(), until_ns.saturating_sub(now_ns))? {
                    continue;
                }
                if let Some(length) = unless_passing(socket.recv(&mut buffer))? {
                    client.receive(&buffer[..length], clock());
                }
            }
        }
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
