//! The clock of this process.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ullage_clock::{Clock, Line, Reasons, json};

use crate::{errors, reasons};

/// Nanoseconds, strictly increasing in this thread; not to be compared with other threads' values.
#[pyfunction]
fn now_ns() -> u64 {
    Clock::get().now()
}

/// Nanoseconds, strictly increasing in this thread, and to be compared with other threads' ordered
/// values within the promise.
#[pyfunction]
fn ordered_ns() -> u64 {
    Clock::get().ordered()
}

/// An ordered value, and the names of the reasons why it is worth less than it could be.
#[pyfunction]
fn stamp(py: Python<'_>) -> PyResult<(u64, Py<PyTuple>)> {
    let stamp = Clock::get().stamp();
    Ok((stamp.ns, reasons::names(py, stamp.reasons)?))
}

/// Looks for suspension, live migration and the kernel's loss of trust; the reasons that hold now.
#[pyfunction]
fn check(py: Python<'_>) -> PyResult<Py<PyTuple>> {
    let reasons_now = py.detach(|| Clock::get().check());
    reasons::names(py, reasons_now)
}

/// How often something has happened to this clock that voids what was known of others.
#[pyfunction]
fn disruptions() -> u32 {
    Clock::get().disruptions()
}

/// What was found out about this machine, as JSON.
#[pyfunction]
fn facts_json(py: Python<'_>) -> String {
    json::facts(py.detach(Clock::get).facts()).to_string()
}

/// What the clock promises here, as JSON.
#[pyfunction]
fn promise_json(py: Python<'_>) -> String {
    json::promise(py.detach(Clock::get).promise()).to_string()
}

/// Fits the counter's rate again over everything since the start, and goes on with it if it is
/// better known than the one in use; 2 ms. The rate, as JSON.
#[pyfunction]
fn refine_json(py: Python<'_>) -> String {
    json::rate(&py.detach(|| Clock::get().refine())).to_string()
}

/// The rate in use, as JSON.
#[pyfunction]
fn rate_json(py: Python<'_>) -> String {
    json::rate(&py.detach(Clock::get).rate()).to_string()
}

/// Every reason's name and what it means.
#[pyfunction]
fn reason_meanings() -> Vec<(&'static str, &'static str)> {
    Reasons::from_bits(u32::MAX).iter().collect()
}

/// The line that this process reads time from, for other processes of this kernel.
#[pyfunction]
fn line() -> [u8; ullage_clock::LINE_LENGTH] {
    Clock::get().line().encode()
}

/// Goes over to the line of another process of this kernel; how far this clock's time moved, in
/// nanoseconds. `ApartError`.
#[pyfunction]
fn adopt(line: &[u8]) -> PyResult<i64> {
    let line = Line::parse(line).map_err(errors::apart)?;
    Clock::get().adopt(&line).map_err(errors::apart)
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(now_ns, module)?)?;
    module.add_function(wrap_pyfunction!(ordered_ns, module)?)?;
    module.add_function(wrap_pyfunction!(stamp, module)?)?;
    module.add_function(wrap_pyfunction!(check, module)?)?;
    module.add_function(wrap_pyfunction!(disruptions, module)?)?;
    module.add_function(wrap_pyfunction!(facts_json, module)?)?;
    module.add_function(wrap_pyfunction!(promise_json, module)?)?;
    module.add_function(wrap_pyfunction!(refine_json, module)?)?;
    module.add_function(wrap_pyfunction!(rate_json, module)?)?;
    module.add_function(wrap_pyfunction!(reason_meanings, module)?)?;
    module.add_function(wrap_pyfunction!(line, module)?)?;
    module.add_function(wrap_pyfunction!(adopt, module)?)
}
