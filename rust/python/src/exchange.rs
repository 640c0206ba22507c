//! Plain values: what a synchronisation is asked, and what it says.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ullage_clock::rgap;

use crate::reasons;

/// One structure out of the other's fields of the same names.
macro_rules! same_fields {
    ($from:ty => $to:ty { $($field:ident),+ }) => {
        impl From<$from> for $to {
            fn from(from: $from) -> Self {
                Self { $($field: from.$field),+ }
            }
        }
    };
}

/// What an exchange says: at `local_ns`, the other clock was ahead by `offset_ns`.
#[pyclass(frozen, get_all, eq, from_py_object, module = "ullage.host.clock")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the unit")]
pub struct Fix {
    /// When, by the client's clock.
    local_ns: u64,
    /// The server's clock less the client's.
    offset_ns: i64,
    /// The offset is not further off than this, however unlike the two ways are.
    half_ns: u64,
    /// The same in 99.9 % of all cases, if they are alike.
    sure_ns: u64,
    /// The part of it that another synchronisation on the same path would not share.
    noise_ns: u64,
    /// The shortest round trip, without the server's part of it.
    rtt_ns: u64,
}

#[pymethods]
impl Fix {
    #[new]
    #[pyo3(signature = (*, local_ns, offset_ns, half_ns, sure_ns, noise_ns, rtt_ns))]
    fn new(
        local_ns: u64,
        offset_ns: i64,
        half_ns: u64,
        sure_ns: u64,
        noise_ns: u64,
        rtt_ns: u64,
    ) -> Self {
        Self {
            local_ns,
            offset_ns,
            half_ns,
            sure_ns,
            noise_ns,
            rtt_ns,
        }
    }

    fn __repr__(&self) -> String {
        format!("{self:?}")
    }
}

same_fields!(rgap::Fix => Fix { local_ns, offset_ns, half_ns, sure_ns, noise_ns, rtt_ns });
same_fields!(Fix => rgap::Fix { local_ns, offset_ns, half_ns, sure_ns, noise_ns, rtt_ns });

/// A global instant with its bounds; a bound is `None` where nothing is known.
#[pyclass(frozen, get_all, eq, module = "ullage.host.clock")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What the other clock shows.
    ns: u64,
    /// It is not further off in 99.9 % of all cases, if the two ways are alike.
    bound_ns: Option<u64>,
    /// It is never further off, if the assumed drift holds.
    hard_ns: Option<u64>,
}

#[pymethods]
impl Reading {
    fn __repr__(&self) -> String {
        format!("{self:?}")
    }
}

impl From<rgap::Reading> for Reading {
    fn from(reading: rgap::Reading) -> Self {
        Self {
            ns: reading.ns,
            bound_ns: reasons::bound(reading.bound_ns),
            hard_ns: reasons::bound(reading.hard_ns),
        }
    }
}

/// When a client stops asking.
#[pyclass(frozen, get_all, eq, from_py_object, module = "ullage.host.clock")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// D: exchanges before anything counts.
    dropped: u32,
    /// K: the smallest round trips' standard deviation is under this.
    spread_ns: u64,
    /// N: how many are the smallest, 2 to 64.
    smallest: usize,
    /// No more requests and answers together than this.
    messages: u32,
    /// Once there is one exchange, no longer than this.
    time_ns: u64,
    /// For the first answer, no longer than this.
    patience_ns: u64,
    /// A request without an answer is taken for lost after this.
    reply_ns: u64,
    /// What the two clocks' rates may differ by at most.
    worst_ppb: u32,
}

const PUBLISHED: rgap::Rules = rgap::Rules::PUBLISHED;

#[pymethods]
impl Rules {
    #[new]
    #[pyo3(signature = (
        *,
        dropped = PUBLISHED.dropped,
        spread_ns = PUBLISHED.spread_ns,
        smallest = PUBLISHED.smallest,
        messages = PUBLISHED.messages,
        time_ns = PUBLISHED.time_ns,
        patience_ns = PUBLISHED.patience_ns,
        reply_ns = PUBLISHED.reply_ns,
        worst_ppb = PUBLISHED.worst_ppb,
    ))]
    #[expect(clippy::too_many_arguments, reason = "they have names")]
    fn new(
        dropped: u32,
        spread_ns: u64,
        smallest: usize,
        messages: u32,
        time_ns: u64,
        patience_ns: u64,
        reply_ns: u64,
        worst_ppb: u32,
    ) -> Self {
        Self {
            dropped,
            spread_ns,
            smallest,
            messages,
            time_ns,
            patience_ns,
            reply_ns,
            worst_ppb,
        }
    }

    fn __repr__(&self) -> String {
        format!("{self:?}")
    }
}

same_fields!(Rules => rgap::Rules {
    dropped, spread_ns, smallest, messages, time_ns, patience_ns, reply_ns, worst_ppb
});

impl Rules {
    pub fn or_published(rules: Option<Self>) -> rgap::Rules {
        rules.map_or(PUBLISHED, Into::into)
    }
}

/// What is assumed of the two clocks' rates.
#[pyclass(frozen, get_all, eq, from_py_object, module = "ullage.host.clock")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The rates never differ by more.
    worst_ppb: u32,
    /// The rate of any moment is within this of its mean over the baseline.
    wander_ppb: u32,
    /// Two synchronisations at least this far apart make a rate.
    baseline_ns: u64,
}

const USUAL: rgap::Drift = rgap::Drift::USUAL;

#[pymethods]
impl Drift {
    #[new]
    #[pyo3(signature = (
        *,
        worst_ppb = USUAL.worst_ppb,
        wander_ppb = USUAL.wander_ppb,
        baseline_ns = USUAL.baseline_ns,
    ))]
    fn new(worst_ppb: u32, wander_ppb: u32, baseline_ns: u64) -> Self {
        Self {
            worst_ppb,
            wander_ppb,
            baseline_ns,
        }
    }

    fn __repr__(&self) -> String {
        format!("{self:?}")
    }
}

same_fields!(Drift => rgap::Drift { worst_ppb, wander_ppb, baseline_ns });

impl Drift {
    pub fn or_usual(drift: Option<Self>) -> rgap::Drift {
        drift.map_or(USUAL, Into::into)
    }
}

/// What was sent and came in a synchronisation.
#[pyclass(frozen, get_all, eq, module = "ullage.host.clock")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Requests sent.
    sent: u32,
    /// Answers taken.
    answers: u32,
    /// Requests given up.
    lost: u32,
    /// What came and was no answer of this version.
    malformed: u32,
    /// Answers with another token.
    foreign: u32,
    /// Answers to another request than the last one, duplicates among them.
    old: u32,
}

#[pymethods]
impl Counts {
    fn __repr__(&self) -> String {
        format!("{self:?}")
    }
}

same_fields!(rgap::Counts => Counts { sent, answers, lost, malformed, foreign, old });

/// A synchronisation.
#[pyclass(frozen, eq, module = "ullage.host.clock")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome(pub rgap::Outcome);

#[pymethods]
impl Outcome {
    /// What it says.
    #[getter]
    fn fix(&self) -> Fix {
        self.0.fix.into()
    }

    /// What was sent and came.
    #[getter]
    fn counts(&self) -> Counts {
        self.0.counts.into()
    }

    /// Why there was no more: `alike` (the published rule), `messages` or `time` (the caps).
    #[getter]
    fn stop(&self) -> &'static str {
        match self.0.stop {
            rgap::Stop::Alike => "alike",
            rgap::Stop::Messages => "messages",
            rgap::Stop::Time => "time",
        }
    }

    /// How long it took, by the client's clock.
    #[getter]
    fn took_ns(&self) -> u64 {
        self.0.took_ns
    }

    /// How many synchronisations are between the server and the root: 0 is the root.
    #[getter]
    fn stratum(&self) -> u8 {
        self.0.best.standing().stratum
    }

    /// Nobody had to be woken up; else the hard bound is all there is.
    #[getter]
    fn awake(&self) -> bool {
        self.0.best.standing().awake
    }

    /// What is to be said of the server's clock.
    #[getter]
    fn reasons(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        reasons::names(py, self.0.best.standing().reasons)
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Fix>()?;
    module.add_class::<Reading>()?;
    module.add_class::<Rules>()?;
    module.add_class::<Drift>()?;
    module.add_class::<Counts>()?;
    module.add_class::<Outcome>()
}
