//! Real servers beside the client: over the loopback, and in shared memory.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use ullage_clock::Clock;
use ullage_clock::rgap::udp::{Udp, serve};
use ullage_clock::rgap::{Channel, LENGTH, Outcome, Rules, Server, Standing, Token, synchronise};

use super::Oscillator;
use super::memory::Memory;
use crate::{Error, machine};

pub(super) const TOKEN: Token = Token(*b"an experiment...");

/// More than a server looks for the next message.
const PAUSE: Duration = Duration::from_micros(500);

/// The same by UDP over the loopback, and by shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct By<T> {
    pub udp: T,
    /// Two cores that look at the same memory, as two ranks of an MPI job do.
    pub memory: T,
}

impl<T> By<T> {
    pub(super) fn map_each<R>(
        self,
        mut of: impl FnMut(T) -> Result<R, Error>,
    ) -> Result<By<R>, Error> {
        Ok(By {
            udp: of(self.udp)?,
            memory: of(self.memory)?,
        })
    }
}

/// The ways to the two servers.
pub(super) struct Peers<'a> {
    pub address: SocketAddr,
    udp: Udp,
    memory: &'a Memory,
}

/// One of the two.
enum Way<'a> {
    Udp(&'a mut Udp),
    Memory(super::memory::Asking<'a>),
}

impl Channel for Way<'_> {
    fn send(&mut self, bytes: &[u8; LENGTH]) -> io::Result<()> {
        match self {
            Self::Udp(it) => it.send(bytes),
            Self::Memory(it) => it.send(bytes),
        }
    }

    fn look(&mut self) -> io::Result<Option<&[u8]>> {
        match self {
            Self::Udp(it) => it.look(),
            Self::Memory(it) => it.look(),
        }
    }

    fn wait(&mut self, within_ns: u64) -> io::Result<()> {
        match self {
            Self::Udp(it) => it.wait(within_ns),
            Self::Memory(it) => it.wait(within_ns),
        }
    }
}

/// Does this beside servers whose clock is the true one. Client and servers have a core each where there
/// are two.
pub(super) fn beside<T>(
    client: impl FnOnce(&mut Peers<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let refused = |source| Error::system("serve over UDP on the loopback", source);
    let socket = UdpSocket::bind(("127.0.0.1", 0)).map_err(refused)?;
    let address = socket.local_addr().map_err(refused)?;
    let udp = Udp::new(address).map_err(refused)?;
    let cpus = machine::cpus()?;
    let before = machine::Home::remember()?;
    let (stop, memory) = (AtomicBool::new(false), Memory::default());
    // First, so that nobody waits for it.
    Clock::get();
    let clock = || (Clock::get().ordered(), Standing::ROOT);
    let away = || {
        if let [_, second, ..] = cpus[..] {
            machine::go(second)?;
        }
        Ok::<(), Error>(())
    };
    let result = thread::scope(|scope| {
        let by_udp = scope.spawn(|| {
            away()?;
            serve(&socket, &mut Server::new(TOKEN), clock, &stop).map_err(refused)
        });
        let by_memory = scope.spawn(|| {
            away()?;
            memory.serve(&mut Server::new(TOKEN), clock, &stop);
            Ok(())
        });
        let mut peers = Peers {
            address,
            udp,
            memory: &memory,
        };
        let result = machine::go(cpus[0]).and_then(|()| client(&mut peers));
        stop.store(true, Ordering::Relaxed);
        memory.wake();
        for server in [by_udp, by_memory] {
            let served = server.join();
            served.unwrap_or_else(|it| std::panic::resume_unwind(it))?;
        }
        result
    });
    drop(before);
    result
}

impl Peers<'_> {
    /// One synchronisation by each, with the true time right after; the client's clock is this one.
    pub fn once(&mut self, oscillator: &Oscillator) -> Result<By<(u64, Outcome)>, Error> {
        let memory = self.memory;
        let udp = synchronised(&mut Way::Udp(&mut self.udp), oscillator)?;
        let udp = (Clock::get().ordered(), udp);
        // Waits until the one server has stopped looking: the two share a core.
        thread::sleep(PAUSE);
        let asking = memory.ask();
        let memory = synchronised(&mut Way::Memory(asking), oscillator)?;
        let memory = (Clock::get().ordered(), memory);
        Ok(By { udp, memory })
    }

    /// One by UDP; the client's clock is the true one.
    pub fn by_udp(&mut self) -> Result<Outcome, Error> {
        let same = Oscillator::steady(0, 0);
        synchronised(&mut Way::Udp(&mut self.udp), &same)
    }
}

fn synchronised(way: &mut Way<'_>, oscillator: &Oscillator) -> Result<Outcome, Error> {
    let local = || oscillator.at(Clock::get().ordered());
    let outcome = synchronise(way, TOKEN, Rules::PUBLISHED, local)
        .map_err(|source| Error::system("synchronise on this host", source))?;
    outcome.map_err(|failure| {
        let error = io::Error::other(format!("{failure:?}"));
        Error::system("synchronise on this host", error)
    })
}
