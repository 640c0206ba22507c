//! Another clock's time from one's own: during a run, and corrected afterwards.

use pyo3::prelude::*;
use ullage_clock::rgap;

use crate::errors;
use crate::exchange::{Drift, Fix, Reading};

/// The global clock: a line.
#[pyclass(frozen, eq, module = "ullage.host.clock")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Global(rgap::Global);

#[pymethods]
impl Global {
    /// After one synchronisation: no rate is known.
    #[staticmethod]
    #[pyo3(signature = (fix, drift=None))]
    fn once(fix: Fix, drift: Option<Drift>) -> Self {
        Self(rgap::Global::once(&fix.into(), &Drift::or_usual(drift)))
    }

    /// After several, in the order of time. `ContradictionError`.
    #[staticmethod]
    #[pyo3(signature = (fixes, drift=None))]
    fn fit(fixes: Vec<Fix>, drift: Option<Drift>) -> PyResult<Self> {
        let fixes: Vec<rgap::Fix> = fixes.into_iter().map(Into::into).collect();
        let global = rgap::Global::fit(&fixes, &Drift::or_usual(drift));
        global.map(Self).map_err(errors::contradiction)
    }

    /// What the other clock shows when one's own shows this.
    fn at(&self, local_ns: u64) -> Reading {
        self.0.at(local_ns).into()
    }

    /// How much faster the other clock runs, and how well that is known, in parts per trillion; `None`
    /// if only the assumed drift is known.
    fn rate(&self) -> Option<(i64, u64)> {
        self.0.rate()
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// The chord between the first synchronisation and the last.
#[pyclass(eq, module = "ullage.host.clock")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correction(pub rgap::Correction);

#[pymethods]
impl Correction {
    #[new]
    #[pyo3(signature = (first, last, drift=None))]
    fn new(first: Fix, last: Fix, drift: Option<Drift>) -> PyResult<Self> {
        let drift = Drift::or_usual(drift);
        let correction = rgap::Correction::new(&first.into(), &last.into(), &drift);
        correction.map(Self).map_err(errors::contradiction)
    }

    /// Holds a synchronisation in between against the chord. `ContradictionError`.
    fn check(&mut self, fix: Fix) -> PyResult<()> {
        self.0.check(&fix.into()).map_err(errors::contradiction)
    }

    /// What the other clock showed when one's own showed this.
    fn at(&self, local_ns: u64) -> Reading {
        self.0.at(local_ns).into()
    }

    /// How far the offset moved from the first to the last.
    #[getter]
    fn drifted_ns(&self) -> u64 {
        self.0.drifted_ns()
    }

    /// How far any synchronisation in between was off the chord; `None` if there was none.
    #[getter]
    fn residual_ns(&self) -> Option<u64> {
        self.0.residual_ns()
    }

    /// As assumed, or what the residual shows at least.
    #[getter]
    fn wander_ppb(&self) -> u64 {
        self.0.wander_ppb()
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Global>()?;
    module.add_class::<Correction>()
}
