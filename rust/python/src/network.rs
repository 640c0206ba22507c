//! RGAP over UDP and TCP.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ullage_clock::Clock;
use ullage_clock::rgap::{self, Channel, Token, tcp, udp};

use crate::errors;
use crate::exchange::{Outcome, Rules};
use crate::service::Service;
use crate::sides::Served;

fn address(text: &str) -> PyResult<SocketAddr> {
    let parsed = text.parse();
    parsed.map_err(|_| PyValueError::new_err(format!("not an address and port: {text:?}")))
}

/// Synchronises this process's clock over UDP with the server at an address such as
/// `127.0.0.1:7463`. `NoAnswerError`, `ContradictionError`, `OSError`.
#[pyfunction]
#[pyo3(signature = (server, token, rules=None))]
fn synchronise_udp(
    py: Python<'_>,
    server: &str,
    token: &[u8],
    rules: Option<Rules>,
) -> PyResult<Outcome> {
    synchronise(py, server, token, rules, |server, _| udp::Udp::new(server))
}

/// The same over TCP; to connect may take the rules' patience.
#[pyfunction]
#[pyo3(signature = (server, token, rules=None))]
fn synchronise_tcp(
    py: Python<'_>,
    server: &str,
    token: &[u8],
    rules: Option<Rules>,
) -> PyResult<Outcome> {
    synchronise(py, server, token, rules, tcp::Tcp::connect)
}

fn synchronise<C: Channel>(
    py: Python<'_>,
    server: &str,
    token: &[u8],
    rules: Option<Rules>,
    connect: impl FnOnce(SocketAddr, Duration) -> io::Result<C> + Send,
) -> PyResult<Outcome> {
    let (server, token) = (address(server)?, errors::token(token)?);
    let rules = Rules::or_published(rules);
    let done = py.detach(|| {
        let mut channel = connect(server, Duration::from_nanos(rules.patience_ns.max(1)))?;
        rgap::synchronise(&mut channel, token, rules, || Clock::get().ordered())
    });
    let outcome = done.map_err(|error| errors::system(&error))?;
    outcome.map(Outcome).map_err(errors::failure)
}

/// A class whose objects answer until stopped; how it starts is all that differs.
macro_rules! server {
    ($(#[$meta:meta])* $name:ident, $start:expr) => {
        $(#[$meta])*
        #[pyclass(frozen, module = "ullage.host.clock")]
        struct $name(Service);

        #[pymethods]
        impl $name {
            #[new]
            #[pyo3(signature = (address, token))]
            fn new(py: Python<'_>, address: &str, token: &[u8]) -> PyResult<Self> {
                let (address, token) = (self::address(address)?, errors::token(token)?);
                let service = py.detach(|| $start(address, token));
                service.map(Self).map_err(|error| errors::system(&error))
            }

            /// Where it listens.
            #[getter]
            fn address(&self) -> String {
                self.0.address.to_string()
            }

            /// Whether it still answers.
            #[getter]
            fn running(&self) -> bool {
                self.0.running()
            }

            /// Stops it, within 50 ms; what it has seen. `OSError` if it had failed.
            fn stop(&self, py: Python<'_>) -> PyResult<Served> {
                self.0.stop(py)
            }
        }
    };
}

server!(
    /// Answers over UDP with this process's global time, in a thread of its own, until stopped.
    UdpServer,
    serve_udp
);

fn serve_udp(address: SocketAddr, token: Token) -> io::Result<Service> {
    let socket = UdpSocket::bind(address)?;
    Service::start(socket.local_addr()?, token, move |server, clock, stop| {
        udp::serve(&socket, server, clock, stop)
    })
}

server!(
    /// The same over TCP.
    TcpServer,
    serve_tcp
);

fn serve_tcp(address: SocketAddr, token: Token) -> io::Result<Service> {
    let listener = TcpListener::bind(address)?;
    Service::start(listener.local_addr()?, token, move |server, clock, stop| {
        tcp::serve(&listener, server, tcp::Limits::USUAL, clock, stop)
    })
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(synchronise_udp, module)?)?;
    module.add_function(wrap_pyfunction!(synchronise_tcp, module)?)?;
    module.add_class::<UdpServer>()?;
    module.add_class::<TcpServer>()
}
