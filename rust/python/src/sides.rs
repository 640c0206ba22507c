//! The two sides of an exchange, without a network or a clock.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use ullage_clock::rgap::{self, Action, Failure};

use crate::errors;
use crate::exchange::{Counts, Outcome, Rules};
use crate::reasons;

/// The side that asks.
#[pyclass(module = "ullage.host.clock")]
struct Client(rgap::Client);

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (token, now_ns, rules=None))]
    fn new(token: &[u8], now_ns: u64, rules: Option<Rules>) -> PyResult<Self> {
        let rules = Rules::or_published(rules);
        Ok(Self(rgap::Client::new(
            rules,
            errors::token(token)?,
            now_ns,
        )))
    }

    /// What to do now: `("send", bytes)` at once, `("wait", until_ns)` for a datagram, or it is over:
    /// `("done", Outcome)`, `("failed", "no-answer" | "contradiction")`.
    fn poll(&mut self, py: Python<'_>, now_ns: u64) -> PyResult<Py<PyAny>> {
        match self.0.poll(now_ns) {
            Action::Send(bytes) => ("send", PyBytes::new(py, &bytes)).into_py_any(py),
            Action::Wait { until_ns } => ("wait", until_ns).into_py_any(py),
            Action::Done(Ok(outcome)) => ("done", Outcome(outcome)).into_py_any(py),
            Action::Done(Err(failure)) => ("failed", kind(failure)).into_py_any(py),
        }
    }

    /// A datagram came; the clock was read after it came. `awake`: this side was waiting for it with
    /// its eyes open.
    fn receive(&mut self, data: &[u8], now_ns: u64, awake: bool) {
        self.0.receive(data, now_ns, awake);
    }

    /// What was sent and came until now.
    #[getter]
    fn counts(&self) -> Counts {
        self.0.counts().into()
    }
}

fn kind(failure: Failure) -> &'static str {
    match failure {
        Failure::NoAnswer => "no-answer",
        Failure::Contradiction => "contradiction",
    }
}

/// What a server says of itself with every answer.
#[pyclass(frozen, eq, module = "ullage.host.clock")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing(pub rgap::Standing);

#[pymethods]
impl Standing {
    #[new]
    #[pyo3(signature = (*, hard_ns=Some(0), bound_ns=Some(0), stratum=0, awake=true, reasons=vec![]))]
    #[expect(clippy::needless_pass_by_value, reason = "as Python gives it")]
    fn new(
        hard_ns: Option<u64>,
        bound_ns: Option<u64>,
        stratum: u8,
        awake: bool,
        reasons: Vec<String>,
    ) -> PyResult<Self> {
        Ok(Self(rgap::Standing {
            hard_ns: hard_ns.unwrap_or(u64::MAX),
            bound_ns: bound_ns.unwrap_or(u64::MAX),
            stratum,
            awake,
            reasons: reasons::of_names(&reasons)?,
        }))
    }

    /// No further off than this, whatever the paths were; `None` when it knows nothing.
    #[getter]
    fn hard_ns(&self) -> Option<u64> {
        reasons::bound(self.0.hard_ns)
    }

    /// The same in 99.9 % of all cases, if paths are alike.
    #[getter]
    fn bound_ns(&self) -> Option<u64> {
        reasons::bound(self.0.bound_ns)
    }

    /// How many synchronisations are between it and the root: 0 is the root.
    #[getter]
    fn stratum(&self) -> u8 {
        self.0.stratum
    }

    /// It was waiting for the request with its eyes open.
    #[getter]
    fn awake(&self) -> bool {
        self.0.awake
    }

    /// What is to be said of its clock.
    #[getter]
    fn reasons(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        reasons::names(py, self.0.reasons)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// What a server has seen.
#[pyclass(frozen, get_all, eq, module = "ullage.host.clock")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Requests answered.
    answered: u64,
    /// What came and was no request; not answered.
    malformed: u64,
    /// Requests with another token; not answered.
    foreign: u64,
}

#[pymethods]
impl Served {
    fn __repr__(&self) -> String {
        format!("{self:?}")
    }
}

impl From<rgap::Served> for Served {
    fn from(served: rgap::Served) -> Self {
        Self {
            answered: served.answered,
            malformed: served.malformed,
            foreign: served.foreign,
        }
    }
}

/// The side that is asked.
#[pyclass(module = "ullage.host.clock")]
struct Server(rgap::Server);

#[pymethods]
impl Server {
    #[new]
    fn new(token: &[u8]) -> PyResult<Self> {
        Ok(Self(rgap::Server::new(errors::token(token)?)))
    }

    /// A datagram was received at `t2_ns`; `None` for what is no request of this run.
    fn receive(&mut self, data: &[u8], t2_ns: u64) -> Option<Pending> {
        self.0.receive(data, t2_ns).map(Pending)
    }

    /// What it has seen.
    #[getter]
    fn served(&self) -> Served {
        self.0.served().into()
    }
}

/// A request that waits to be told when it is answered.
#[pyclass(frozen, module = "ullage.host.clock")]
struct Pending(rgap::Pending);

#[pymethods]
impl Pending {
    /// The answer, sent at `t3_ns` by a server that stands so; without a standing, by the root.
    #[pyo3(signature = (t3_ns, standing=None))]
    fn answer<'py>(
        &self,
        py: Python<'py>,
        t3_ns: u64,
        standing: Option<&Standing>,
    ) -> Bound<'py, PyBytes> {
        let standing = standing.map_or(rgap::Standing::ROOT, |it| it.0);
        PyBytes::new(py, &self.0.answer(t3_ns, standing))
    }
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Client>()?;
    module.add_class::<Standing>()?;
    module.add_class::<Served>()?;
    module.add_class::<Server>()?;
    module.add_class::<Pending>()
}
