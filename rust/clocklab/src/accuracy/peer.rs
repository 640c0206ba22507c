//! A real server beside the client, over the loopback.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ullage_clock::Clock;
use ullage_clock::rgap::udp::{Udp, serve};
use ullage_clock::rgap::{Outcome, Rules, Server, Standing, Token, synchronise};

use super::Oscillator;
use crate::{Error, machine};

/// Of these experiments.
pub(super) const TOKEN: Token = Token(*b"an experiment...");

/// Does this beside a server whose clock is the true one. The two have a core each where there are
/// two.
pub(super) fn beside<T>(client: impl FnOnce(SocketAddr) -> Result<T, Error>) -> Result<T, Error> {
    let refused = |source| Error::system("serve over UDP on the loopback", source);
    let socket = UdpSocket::bind(("127.0.0.1", 0)).map_err(refused)?;
    let address = socket.local_addr().map_err(refused)?;
    let cpus = machine::cpus()?;
    let before = machine::Home::remember()?;
    let stop = AtomicBool::new(false);
    // First, so that nobody waits for it.
    Clock::get();
    let result = thread::scope(|scope| {
        let serving = scope.spawn(|| {
            if let [_, second, ..] = cpus[..] {
                machine::go(second)?;
            }
            let clock = || (Clock::get().ordered(), Standing::ROOT);
            serve(&socket, &mut Server::new(TOKEN), clock, &stop).map_err(refused)
        });
        let result = machine::go(cpus[0]).and_then(|()| client(address));
        stop.store(true, Ordering::Relaxed);
        let served = serving
            .join()
            .unwrap_or_else(|it| std::panic::resume_unwind(it));
        served.and(result)
    });
    drop(before);
    result
}

/// The client's clock is this one.
pub(super) fn once(
    server: &mut Udp,
    rules: Rules,
    oscillator: &Oscillator,
) -> Result<Outcome, Error> {
    let local = || oscillator.at(Clock::get().ordered());
    let outcome = synchronise(server, TOKEN, rules, local)
        .map_err(|source| Error::system("synchronise over UDP", source))?;
    outcome.map_err(|failure| {
        let said = std::io::Error::other(format!("{failure:?}"));
        Error::system("synchronise over the loopback", said)
    })
}

/// To this server.
pub(super) fn channel(server: SocketAddr) -> Result<Udp, Error> {
    Udp::new(server).map_err(|source| Error::system("open a UDP socket", source))
}
