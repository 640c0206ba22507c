//! Reasons by their names, and bounds that bound something.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ullage_clock::Reasons;

pub fn names(py: Python<'_>, reasons: Reasons) -> PyResult<Py<PyTuple>> {
    let names: Vec<&str> = reasons.iter().map(|(name, _)| name).collect();
    Ok(PyTuple::new(py, names)?.unbind())
}

pub fn of_names(names: &[String]) -> PyResult<Reasons> {
    let mut all = Reasons::NONE;
    for name in names {
        let reason_bits = (0..u32::BITS)
            .map(|bit| Reasons::from_bits(1 << bit))
            .find(|it| it.iter().any(|(reason, _)| reason == name))
            .ok_or_else(|| PyValueError::new_err(format!("no reason is called {name:?}")))?;
        all = all | reason_bits;
    }
    Ok(all)
}

/// None where it bounds nothing.
pub fn bound(ns: u64) -> Option<u64> {
    (ns < u64::MAX).then_some(ns)
}
