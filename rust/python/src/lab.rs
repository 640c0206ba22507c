//! The measurements of `ullage-clocklab`; options and outcomes are JSON.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use ullage_clocklab::{Error, accuracy, cost, ecp, loops, scaling, strict};

create_exception!(
    ullage.host.clock,
    LabError,
    PyException,
    "A measurement that could not be made: code, what happened, hint."
);

/// How far a measurement is. It may be read while another thread measures.
#[pyclass(frozen, module = "ullage.host.clock")]
#[derive(Default)]
struct Progress {
    done: AtomicU64,
    of: AtomicU64,
}

#[pymethods]
impl Progress {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// So much is done.
    #[getter]
    fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Of so much; 0 before it began.
    #[getter]
    fn of(&self) -> u64 {
        self.of.load(Ordering::Relaxed)
    }
}

/// Measures `unit` (accuracy, ecp, strict, cost, loops, scaling) in this thread, which needs no interpreter
/// meanwhile. The outcome, as JSON. `LabError`; `ValueError` for options that are not the unit's.
#[pyfunction]
fn lab(py: Python<'_>, unit: &str, options: &str, progress: &Progress) -> PyResult<String> {
    py.detach(|| match unit {
        "accuracy" => measure(accuracy::run, options, progress),
        "ecp" => measure(ecp::run, options, progress),
        "strict" => measure(strict::run, options, progress),
        "cost" => measure(cost::run, options, progress),
        "loops" => measure(loops::run, options, progress),
        "scaling" => measure(scaling::run, options, progress),
        _ => Err(PyValueError::new_err(format!("no unit is called {unit:?}"))),
    })
}

type Run<O, R> = fn(&O, &mut ullage_clocklab::Progress<'_>) -> Result<R, Error>;

fn measure<O: DeserializeOwned, R: Serialize>(
    run: Run<O, R>,
    options: &str,
    progress: &Progress,
) -> PyResult<String> {
    let wrong = |error: serde_json::Error| PyValueError::new_err(error.to_string());
    let options = serde_json::from_str(options).map_err(wrong)?;
    let outcome = run(&options, &mut |done, of| {
        progress.of.store(of, Ordering::Relaxed);
        progress.done.store(done, Ordering::Relaxed);
    });
    let failed = |error: Error| LabError::new_err((error.code(), error.to_string(), error.hint()));
    serde_json::to_string(&outcome.map_err(failed)?).map_err(wrong)
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("LabError", module.py().get_type::<LabError>())?;
    module.add_class::<Progress>()?;
    module.add_function(wrap_pyfunction!(lab, module)?)
}
