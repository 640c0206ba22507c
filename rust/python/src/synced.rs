//! The process's global clock.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ullage_clock::Clock;
use ullage_clock::rgap::{self, SHARE_LENGTH};

use crate::exchange::{Drift, Outcome};
use crate::global::Correction;
use crate::sides::Standing;
use crate::{errors, reasons};

/// An instant by the global clock.
#[pyclass(frozen, eq, module = "ullage.host.clock")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instant(rgap::Instant);

#[pymethods]
impl Instant {
    /// By this process's own clock.
    #[getter]
    fn local_ns(&self) -> u64 {
        self.0.local_ns
    }

    /// By the root's; without a synchronisation, the own clock's value.
    #[getter]
    fn ns(&self) -> u64 {
        self.0.global.ns
    }

    /// It is not further off in 99.9 % of all cases, if the ways are alike.
    #[getter]
    fn bound_ns(&self) -> Option<u64> {
        reasons::bound(self.0.global.bound_ns)
    }

    /// It is never further off, if the assumed drift holds.
    #[getter]
    fn hard_ns(&self) -> Option<u64> {
        reasons::bound(self.0.global.hard_ns)
    }

    /// What is to be said of it.
    #[getter]
    fn reasons(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        reasons::names(py, self.0.reasons)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// This process's global clock; all of these are the same one.
#[pyclass(frozen, module = "ullage.host.clock")]
struct Synced(&'static rgap::Synced);

#[pymethods]
impl Synced {
    #[new]
    fn new(py: Python<'_>) -> Self {
        Self(py.detach(rgap::Synced::get))
    }

    /// This process is the root: its clock is the global one.
    fn lead(&self) {
        self.0.lead();
    }

    /// Now.
    fn now(&self) -> Instant {
        Instant(self.0.now())
    }

    /// The nanoseconds of `now`, and nothing else: cheaper.
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    /// What the root's clock showed when this process's showed this, by what is known now.
    fn at(&self, local_ns: u64) -> Instant {
        Instant(self.0.at(local_ns))
    }

    /// Takes over a synchronisation; `disruptions` as asked before it began. Time is slewed, never
    /// stepped. `ContradictionError`.
    #[pyo3(signature = (outcome, *, disruptions, drift=None))]
    fn learn(&self, outcome: &Outcome, disruptions: u32, drift: Option<Drift>) -> PyResult<()> {
        let drift = Drift::or_usual(drift);
        let learned = self.0.learn(&outcome.0, &drift, disruptions);
        learned.map_err(errors::refusal)
    }

    /// How often something has happened to this clock that voids what was known.
    fn disruptions(&self, py: Python<'_>) -> u32 {
        py.detach(|| self.0.disruptions())
    }

    /// What this process says of itself as a server, with its global time.
    fn serve(&self) -> (u64, Standing) {
        let (ns, standing) = self.0.serve();
        (ns, Standing(standing))
    }

    /// For the other processes of this kernel.
    fn encode(&self) -> [u8; SHARE_LENGTH] {
        self.0.encode()
    }

    /// Goes over to what another process of this kernel has learned; how far the own clock moved, in
    /// nanoseconds. `ApartError`.
    fn adopt(&self, share: &[u8]) -> PyResult<i64> {
        self.0.adopt(share).map_err(errors::refusal)
    }

    /// How much faster the root runs, and how well that is known, in parts per trillion.
    fn rate(&self) -> Option<(i64, u64)> {
        self.0.rate()
    }

    /// How many synchronisations lie between this clock and the root's; `None` before the first.
    #[getter]
    fn stratum(&self) -> Option<u8> {
        self.0.stratum()
    }

    /// From the first synchronisation to the last, those in between held against it.
    /// `ContradictionError`, also with fewer than two.
    #[pyo3(signature = (drift=None))]
    fn correction(&self, drift: Option<Drift>) -> PyResult<Correction> {
        let correction = self.0.correction(&Drift::or_usual(drift));
        correction.map(Correction).map_err(errors::contradiction)
    }

    fn __repr__(&self) -> String {
        format!("Synced({:?}, {})", self.0.now(), Clock::get().disruptions())
    }
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Instant>()?;
    module.add_class::<Synced>()
}
