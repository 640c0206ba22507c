//! What the clock may promise here: decided once, from facts, and readable.

use core::fmt;

use crate::{Bridging, Rate, Reasons, Scale, Synchrony};

/// Certainly apart by more than this: threads must not be compared by the counter. A migrating
/// thread takes longer.
const APART_NS: u64 = 200;
/// With a looser bound than this, nobody was measured: the other core was not there.
const LOOSE_NS: u64 = 100_000;
/// The rate of oscillators wanders with temperature; beyond this, it is not the oscillator.
pub(crate) const WANDER_PPB: u32 = 5_000;
/// Another rate than stated by more than this is not the oscillator either.
const DISPUTE_PPB: u64 = 500_000;

/// Where it is not promised how well the cores agree, each thread's values are still compared with the
/// bridge clock at least once a second: a thread that is further off than this is found out.
#[cfg(feature = "std")]
pub(crate) const UNPROMISED_NS: u64 = 100_000;

/// What was found out about this machine's counter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "facts are true or not")]
pub struct Facts {
    /// There is a counter, and this process may read it.
    pub readable: bool,
    /// Its rate does not change with power states (CPUID `0x8000_0007` EDX bit 8, AMD APM 3 E.4.7,
    /// Intel SDM 3 17.17.1; by definition on Arm).
    pub invariant: bool,
    /// Counter and core can be read in one go (`rdtscp`).
    pub paired: bool,
    /// The kernel itself keeps time by it.
    pub kernel_uses: bool,
    /// The kernel does not offer it as a clock source any more.
    pub kernel_distrusts: bool,
    /// A hypervisor is below us.
    pub virtual_machine: bool,
    /// The hypervisor tells about live migrations (`/dev/vmclock0`), and we may read it.
    pub vmclock: bool,
    /// The rate as the processor, firmware or hypervisor states it.
    pub stated: Option<Rate>,
    /// The rate as measured against `CLOCK_MONOTONIC_RAW`.
    pub rate: Option<Rate>,
    /// The counters of the cores, compared.
    pub synchrony: Option<Synchrony>,
}

/// What time is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The processor's counter.
    Counter,
    /// The kernel's `CLOCK_MONOTONIC_RAW`: slower.
    MonotonicRaw,
}

/// What the clock promises. Values of a thread are strictly increasing in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// What time is read from.
    pub source: Source,
    /// How a thread gets from one core to the next.
    pub bridging: Bridging,
    /// Ordered reads of different threads never go back by more than this, in nanoseconds; none if
    /// they cannot be compared at all.
    pub ordered_ns: Option<u64>,
    /// How many cores that was found out for; on others, time-stamps say [`Reasons::UNMEASURED`].
    /// None where cores do not matter.
    pub cores: Option<u32>,
    /// The rate that time is computed with.
    pub rate: Rate,
    /// More than this between counter and bridge clock, in parts per billion, counts as a jump.
    pub drift_ppb: u32,
    /// Why it is not more.
    pub reasons: Reasons,
}

impl Promise {
    /// Decides. Refuses the counter rather than guess.
    #[must_use]
    pub fn decide(facts: &Facts) -> Self {
        let reasons = why(facts);
        let vetoes = Reasons::NO_COUNTER
            | Reasons::NOT_INVARIANT
            | Reasons::RATE_UNKNOWN
            | Reasons::DISTRUSTED
            | Reasons::UNPAIRED;
        let Some(rate) = facts.rate.filter(|_| !reasons.any(vetoes)) else {
            return Self::fallback(reasons);
        };
        let apart = reasons.any(Reasons::UNSYNCHRONISED);
        let bound = facts
            .synchrony
            .zip(Scale::of(&rate))
            .map(|(cores, scale)| cores.bound_ns(scale));
        let comparable = !apart && !reasons.any(Reasons::UNMEASURED);
        Self {
            source: Source::Counter,
            bridging: if apart {
                Bridging::Clock
            } else {
                Bridging::Counter
            },
            ordered_ns: bound.filter(|_| comparable),
            cores: facts.synchrony.map(|cores| cores.cpus.count()),
            rate,
            drift_ppb: rate.bound_ppb.saturating_add(WANDER_PPB),
            reasons,
        }
    }

    /// How far the same instant's values on two cores are apart at most, in nanoseconds: as promised,
    /// or what would be noticed.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn apart_ns(&self) -> u64 {
        self.ordered_ns.unwrap_or(UNPROMISED_NS)
    }

    /// The kernel's clock, which all cores agree on.
    #[must_use]
    pub fn fallback(reasons: Reasons) -> Self {
        Self {
            source: Source::MonotonicRaw,
            bridging: Bridging::Counter,
            ordered_ns: Some(0),
            cores: None,
            rate: Rate::NANOSECONDS,
            drift_ppb: WANDER_PPB,
            reasons,
        }
    }
}

fn why(facts: &Facts) -> Reasons {
    if !facts.readable {
        return Reasons::NO_COUNTER;
    }
    let disputed = facts
        .rate
        .zip(facts.stated)
        .is_some_and(|(rate, stated)| rate.apart_ppb(&stated) > DISPUTE_PPB);
    let scale = facts.rate.and_then(|rate| Scale::of(&rate));
    let cores = scale.zip(facts.synchrony);
    let apart = cores.is_some_and(|(scale, cores)| scale.ns(cores.apart) > APART_NS);
    let measured =
        cores.is_some_and(|(scale, cores)| cores.missed == 0 && cores.bound_ns(scale) <= LOOSE_NS);
    Reasons::NOT_INVARIANT.when(!facts.invariant)
        | Reasons::RATE_UNKNOWN.when(scale.is_none())
        | Reasons::RATE_DISPUTED.when(disputed)
        | Reasons::DISTRUSTED.when(facts.kernel_distrusts)
        | Reasons::UNSYNCHRONISED.when(apart)
        | Reasons::UNPAIRED.when(apart && !facts.paired)
        | Reasons::UNMEASURED.when(!apart && !measured)
        | Reasons::MOVES_UNSEEN.when(facts.virtual_machine && !facts.vmclock)
}

impl fmt::Display for Promise {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match (self.source, self.bridging) {
            (Source::MonotonicRaw, _) => "the kernel's CLOCK_MONOTONIC_RAW",
            (Source::Counter, Bridging::Counter) => "the processor's counter",
            (Source::Counter, Bridging::Clock) => "the counter of each core for itself",
        };
        writeln!(out, "time is read from {source} at {}", self.rate)?;
        writeln!(out, "values of one thread are strictly increasing")?;
        match self.ordered_ns {
            Some(0) => writeln!(out, "ordered values of different threads never go back")?,
            Some(ns) => writeln!(
                out,
                "ordered values of different threads never go back by more than {ns} ns"
            )?,
            None => writeln!(out, "values of different threads cannot be compared")?,
        }
        if let Some(cores) = self.cores {
            writeln!(out, "cores compared: {cores}")?;
        }
        for (name, meaning) in self.reasons.iter() {
            writeln!(out, "{name}: {meaning}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Offset, RateSource};
    use std::string::ToString;

    fn good() -> Facts {
        let rate = Rate {
            sigma_ppb: 10,
            bound_ppb: 2_000,
            ..stated(2_000_000_000)
        };
        let mut cores = Synchrony::alone(0);
        cores.add(
            1,
            Offset {
                lowest: -100,
                highest: 200,
            },
            1000,
        );
        Facts {
            readable: true,
            invariant: true,
            paired: true,
            kernel_uses: true,
            rate: Some(rate),
            synchrony: Some(cores),
            ..Facts::default()
        }
    }

    fn stated(hertz: u64) -> Rate {
        Rate::stated(hertz, RateSource::Crystal).expect("rate")
    }

    fn apart() -> Facts {
        let mut cores = Synchrony::alone(0);
        cores.add(
            1,
            Offset {
                lowest: 9_000,
                highest: 9_300,
            },
            1000,
        );
        Facts {
            synchrony: Some(cores),
            ..good()
        }
    }

    #[test]
    fn a_good_counter_is_used() {
        let promise = Promise::decide(&good());
        assert_eq!(
            (promise.source, promise.bridging),
            (Source::Counter, Bridging::Counter)
        );
        assert_eq!((promise.ordered_ns, promise.drift_ppb), (Some(101), 7_000));
        assert!(promise.reasons.is_empty());
    }

    #[test]
    fn counters_that_are_apart_serve_one_thread_only() {
        let promise = Promise::decide(&apart());
        assert_eq!(
            (promise.source, promise.bridging),
            (Source::Counter, Bridging::Clock)
        );
        assert_eq!(
            (promise.ordered_ns, promise.reasons),
            (None, Reasons::UNSYNCHRONISED)
        );
        let unpaired = Promise::decide(&Facts {
            paired: false,
            ..apart()
        });
        assert_eq!(unpaired.source, Source::MonotonicRaw);
        assert!(unpaired.reasons.any(Reasons::UNPAIRED));
    }

    #[test]
    fn what_is_not_known_is_not_promised() {
        let mut cores = Synchrony::alone(0);
        cores.add(1, Offset::UNKNOWN, 0);
        for synchrony in [None, Some(cores)] {
            let promise = Promise::decide(&Facts {
                synchrony,
                ..good()
            });
            assert_eq!(
                (promise.source, promise.ordered_ns),
                (Source::Counter, None)
            );
            assert_eq!(promise.reasons, Reasons::UNMEASURED);
        }
    }

    #[test]
    fn a_bad_counter_is_refused_aloud() {
        let cases = [
            (
                Facts {
                    readable: false,
                    ..good()
                },
                Reasons::NO_COUNTER,
            ),
            (
                Facts {
                    invariant: false,
                    ..good()
                },
                Reasons::NOT_INVARIANT,
            ),
            (
                Facts {
                    kernel_distrusts: true,
                    ..good()
                },
                Reasons::DISTRUSTED,
            ),
            (
                Facts {
                    rate: None,
                    synchrony: None,
                    ..good()
                },
                Reasons::RATE_UNKNOWN,
            ),
        ];
        for (facts, reason) in cases {
            let promise = Promise::decide(&facts);
            assert_eq!(
                (promise.source, promise.ordered_ns),
                (Source::MonotonicRaw, Some(0))
            );
            assert!(promise.reasons.any(reason), "{promise}");
        }
    }

    #[test]
    fn what_does_not_matter_is_only_said() {
        let disputed = Facts {
            stated: Some(stated(2_010_000_000)),
            ..good()
        };
        assert_eq!(Promise::decide(&disputed).reasons, Reasons::RATE_DISPUTED);
        let guest = Facts {
            virtual_machine: true,
            kernel_uses: false,
            ..good()
        };
        let promise = Promise::decide(&guest);
        assert_eq!(
            (promise.source, promise.reasons),
            (Source::Counter, Reasons::MOVES_UNSEEN)
        );
        assert!(
            promise
                .to_string()
                .contains("moves-unseen: a virtual machine without vmclock")
        );
    }
}
