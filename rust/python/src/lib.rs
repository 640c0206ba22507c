//! Two modules for Python in one shared object, which is installed under both names: `ullage._clock`
//! (the clock of this process, and RGAP) and `ullage._elastic` (the simulator). Each is imported only
//! where it is used. `ullage.host.clock` says what each name means to a Python program; here it is only
//! translated:
//!
//! * reasons are tuples of their names, a bound that bounds nothing is `None`;
//! * what takes long (the first look at the machine, a synchronisation) lets other threads run.

mod clock;
mod elastic;
mod errors;
mod exchange;
mod global;
mod lab;
mod network;
mod reasons;
mod service;
mod sides;
mod synced;

use pyo3::prelude::*;

#[pymodule]
#[pyo3(name = "_clock")]
fn clock_module(module: &Bound<'_, PyModule>) -> PyResult<()> {
    errors::add(module)?;
    clock::add(module)?;
    exchange::add(module)?;
    sides::add(module)?;
    global::add(module)?;
    synced::add(module)?;
    network::add(module)?;
    lab::add(module)
}

#[pymodule]
#[pyo3(name = "_elastic")]
fn elastic_module(module: &Bound<'_, PyModule>) -> PyResult<()> {
    elastic::add(module)
}
