//! One reading of what the system says of the whole instance.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::system::sample::counts;
use crate::time::{self, Both};

#[derive(Debug, Serialize)]
pub struct Sample {
    pub ns: u64,
    pub mono_ns: u64,
    pub width_ns: u64,
    /// Jiffies by kind, and `hz`.
    pub cpu: BTreeMap<&'static str, u64>,
    /// Bytes, by the kernel's names.
    pub memory: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pressure: BTreeMap<&'static str, BTreeMap<String, Pressure>>,
    pub loadavg: Vec<f64>,
}

/// Shares of time in percent, and the time that was lost so far.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Pressure {
    pub avg10: f64,
    pub avg60: f64,
    pub avg300: f64,
    pub total_us: u64,
}

/// What the system counts.
pub struct Counts {
    pub cpu: BTreeMap<&'static str, u64>,
    pub memory: BTreeMap<&'static str, u64>,
    pub pressure: BTreeMap<&'static str, BTreeMap<String, Pressure>>,
    pub loadavg: Vec<f64>,
}

impl Sample {
    pub fn take() -> Self {
        let Both {
            ns,
            mono_ns,
            width_ns,
        } = time::both();
        let Counts {
            cpu,
            memory,
            pressure,
            loadavg,
        } = counts();
        Self {
            ns,
            mono_ns,
            width_ns,
            cpu,
            memory,
            pressure,
            loadavg,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_sample() {
        let sample = Sample::take();
        assert!(sample.cpu["idle"] > 0 && sample.memory["MemTotal"] > 0);
    }
}
