//! A server in a thread of its own, which needs no interpreter.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use ullage_clock::rgap::{Server, Standing, Synced, Token};

use crate::errors;
use crate::sides::Served;

type Serving = JoinHandle<io::Result<Served>>;

/// Answers with this process's global time until stopped.
pub struct Service {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<Serving>>,
}

/// This process's global time.
pub type Clock = fn() -> (u64, Standing);

impl Service {
    /// Where `serve` listens, and what it does until it is told to stop.
    pub fn start(
        address: SocketAddr,
        token: Token,
        serve: impl FnOnce(&mut Server, Clock, &AtomicBool) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        // The first look at the machine, before anybody waits for an answer.
        Synced::get();
        let stop = Arc::new(AtomicBool::new(false));
        let stop_request = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("ullage-clock".to_owned())
            .spawn(move || {
                let mut server = Server::new(token);
                serve(&mut server, || Synced::get().serve(), &stop_request)?;
                Ok(server.served().into())
            })?;
        Ok(Self {
            address,
            stop,
            thread: Mutex::new(Some(thread)),
        })
    }

    pub fn running(&self) -> bool {
        self.thread().as_ref().is_some_and(|it| !it.is_finished())
    }

    /// Stops it, within 50 ms; what it has seen.
    pub fn stop(&self, py: Python<'_>) -> PyResult<Served> {
        let thread = self.thread().take();
        let thread = thread.ok_or_else(|| PyRuntimeError::new_err("stopped before"))?;
        self.stop.store(true, Ordering::Relaxed);
        let served = py
            .detach(|| thread.join())
            .map_err(|_| PyRuntimeError::new_err("the server's thread panicked"))?;
        served.map_err(|error| errors::system(&error))
    }

    fn thread(&self) -> MutexGuard<'_, Option<Serving>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Service {
    /// The thread ends by itself.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
