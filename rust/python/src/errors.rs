//! What goes wrong, as Python has it.

use std::io;

use pyo3::create_exception;
use pyo3::exceptions::{
    PyConnectionResetError, PyException, PyOSError, PyTimeoutError, PyValueError,
};
use pyo3::prelude::*;
use ullage_clock::Apart;
use ullage_clock::rgap::{Contradiction, Failure, Refusal, Token};

create_exception!(
    ullage.host.clock,
    ContradictionError,
    PyException,
    "What was measured cannot be, if the clocks keep within their stated rate."
);
create_exception!(
    ullage.host.clock,
    NoAnswerError,
    PyException,
    "Nobody answered in time."
);
create_exception!(
    ullage.host.clock,
    ApartError,
    PyException,
    "The other process's clock is not one that this process could read."
);

pub fn contradiction(error: Contradiction) -> PyErr {
    ContradictionError::new_err(error.to_string())
}

pub fn apart(error: Apart) -> PyErr {
    ApartError::new_err(error.to_string())
}

pub fn refusal(error: Refusal) -> PyErr {
    match error {
        Refusal::Contradiction => contradiction(Contradiction),
        Refusal::Apart => apart(Apart),
    }
}

pub fn failure(failure: Failure) -> PyErr {
    match failure {
        Failure::NoAnswer => NoAnswerError::new_err("nobody answered in time"),
        Failure::Contradiction => contradiction(Contradiction),
    }
}

/// With the number, from which Python makes the right kind of `OSError`; some have none.
pub fn system(error: &io::Error) -> PyErr {
    let text = error.to_string();
    let text = text
        .split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned();
    match (error.raw_os_error(), error.kind()) {
        (Some(number), _) => PyOSError::new_err((number, text)),
        (None, io::ErrorKind::TimedOut) => PyTimeoutError::new_err(text),
        (None, io::ErrorKind::UnexpectedEof) => PyConnectionResetError::new_err(text),
        (None, _) => PyOSError::new_err(text),
    }
}

pub fn token(bytes: &[u8]) -> PyResult<Token> {
    let bytes = bytes
        .try_into()
        .map_err(|_| PyValueError::new_err("a token is 16 bytes"))?;
    Ok(Token(bytes))
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("ContradictionError", py.get_type::<ContradictionError>())?;
    module.add("NoAnswerError", py.get_type::<NoAnswerError>())?;
    module.add("ApartError", py.get_type::<ApartError>())
}
