//! The simulator. What to simulate and its outcome are JSON; while it simulates, other threads run.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use pyo3::create_exception;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use ullage_elastic::policy::NAMES;
use ullage_elastic::sim::{self, Error, Progress, Spec, SpecError as BadSpec};

create_exception!(
    ullage._elastic,
    SpecError,
    PyValueError,
    "It cannot be simulated: the field, and what is wrong with it."
);

/// How often the interpreter is asked whether to go on. A person does not notice it, nor does a run.
const LOOK: Duration = Duration::from_millis(50);

fn bad(error: BadSpec) -> PyErr {
    SpecError::new_err((error.field, error.problem))
}

/// What policies are called.
#[pyfunction]
fn policies() -> Vec<&'static str> {
    NAMES.to_vec()
}

/// Says whether this can be simulated. `SpecError`.
#[pyfunction]
fn check(py: Python<'_>, spec: &str) -> PyResult<()> {
    py.detach(|| Spec::parse(spec)).map(drop).map_err(bad)
}

/// Simulates; the outcome, as JSON. `progress` is told the requests so far, the seconds simulated and the
/// part that is done, a few times a second; what it raises ends the simulation, as Ctrl-C does.
/// `SpecError`.
#[pyfunction]
#[pyo3(signature = (spec, progress=None))]
#[allow(clippy::needless_pass_by_value)] // PyO3 gives it so.
fn simulate(py: Python<'_>, spec: &str, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let (mut looked, mut raised) = (Instant::now(), None);
    let outcome = py.detach(|| {
        let spec = Spec::parse(spec)?;
        let mut tell = |now: Progress| {
            if looked.elapsed() < LOOK {
                return ControlFlow::Continue(());
            }
            looked = Instant::now();
            let goes_on = Python::attach(|py| go_on(py, progress.as_ref(), now));
            match goes_on {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    raised = Some(error);
                    ControlFlow::Break(())
                }
            }
        };
        let outcome = sim::run_with(&spec, &mut tell, &mut ())?;
        Ok(serde_json::to_string(&outcome))
    });
    match outcome {
        Ok(text) => text.map_err(|error| PyRuntimeError::new_err(error.to_string())),
        Err(Error::Spec(error)) => Err(bad(error)),
        Err(Error::Cancelled) => Err(raised.unwrap_or_else(|| PyKeyboardInterrupt::new_err(()))),
        Err(Error::Refused(refused)) => Err(PyRuntimeError::new_err(refused.to_string())),
    }
}

fn go_on(py: Python<'_>, progress: Option<&Py<PyAny>>, now: Progress) -> PyResult<()> {
    py.check_signals()?;
    if let Some(progress) = progress {
        progress.call1(py, (now.requests, now.at_s, now.part))?;
    }
    Ok(())
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("SpecError", module.py().get_type::<SpecError>())?;
    module.add_function(wrap_pyfunction!(policies, module)?)?;
    module.add_function(wrap_pyfunction!(check, module)?)?;
    module.add_function(wrap_pyfunction!(simulate, module)?)
}
