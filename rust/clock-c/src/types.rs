//! What is passed by structure: `ullage_clock.h` documents every member.
#![expect(missing_docs, reason = "the header has them")]

use core::ffi::c_int;

use rust_clock::rgap::{Counts, Drift, Fix, Instant, Outcome, Reading, Rules, Standing, Stop};
use rust_clock::{Reasons, Stamp};

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

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UllageStamp {
    pub ns: u64,
    pub reasons: u32,
    pub reserved: u32,
}

impl From<Stamp> for UllageStamp {
    fn from(stamp: Stamp) -> Self {
        Self {
            ns: stamp.ns,
            reasons: stamp.reasons.bits(),
            reserved: 0,
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UllageRules {
    pub spread_ns: u64,
    pub time_ns: u64,
    pub patience_ns: u64,
    pub reply_ns: u64,
    pub dropped: u32,
    pub smallest: u32,
    pub messages: u32,
    pub worst_ppb: u32,
}

impl From<Rules> for UllageRules {
    fn from(rules: Rules) -> Self {
        Self {
            spread_ns: rules.spread_ns,
            time_ns: rules.time_ns,
            patience_ns: rules.patience_ns,
            reply_ns: rules.reply_ns,
            dropped: rules.dropped,
            smallest: u32::try_from(rules.smallest).unwrap_or(u32::MAX),
            messages: rules.messages,
            worst_ppb: rules.worst_ppb,
        }
    }
}

impl From<UllageRules> for Rules {
    fn from(rules: UllageRules) -> Self {
        Self {
            spread_ns: rules.spread_ns,
            time_ns: rules.time_ns,
            patience_ns: rules.patience_ns,
            reply_ns: rules.reply_ns,
            dropped: rules.dropped,
            smallest: usize::try_from(rules.smallest).unwrap_or(usize::MAX),
            messages: rules.messages,
            worst_ppb: rules.worst_ppb,
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UllageDrift {
    pub baseline_ns: u64,
    pub worst_ppb: u32,
    pub wander_ppb: u32,
}

same_fields!(Drift => UllageDrift { baseline_ns, worst_ppb, wander_ppb });

same_fields!(UllageDrift => Drift { worst_ppb, wander_ppb, baseline_ns });

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UllageStanding {
    pub hard_ns: u64,
    pub bound_ns: u64,
    pub reasons: u32,
    pub stratum: u8,
    pub awake: u8,
    pub reserved: [u8; 2],
}

impl From<Standing> for UllageStanding {
    fn from(standing: Standing) -> Self {
        Self {
            hard_ns: standing.hard_ns,
            bound_ns: standing.bound_ns,
            reasons: standing.reasons.bits(),
            stratum: standing.stratum,
            awake: u8::from(standing.awake),
            reserved: [0; 2],
        }
    }
}

impl From<UllageStanding> for Standing {
    fn from(standing: UllageStanding) -> Self {
        Self {
            hard_ns: standing.hard_ns,
            bound_ns: standing.bound_ns,
            stratum: standing.stratum,
            awake: standing.awake != 0,
            reasons: Reasons::from_bits(standing.reasons),
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UllageCounts {
    pub sent: u32,
    pub answers: u32,
    pub lost: u32,
    pub malformed: u32,
    pub foreign: u32,
    pub old: u32,
}

same_fields!(Counts => UllageCounts { sent, answers, lost, malformed, foreign, old });

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UllageFix {
    pub local_ns: u64,
    pub offset_ns: i64,
    pub half_ns: u64,
    pub sure_ns: u64,
    pub noise_ns: u64,
    pub rtt_ns: u64,
}

same_fields!(Fix => UllageFix { local_ns, offset_ns, half_ns, sure_ns, noise_ns, rtt_ns });

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UllageOutcome {
    pub fix: UllageFix,
    pub standing: UllageStanding,
    pub counts: UllageCounts,
    pub took_ns: u64,
    pub stop: c_int,
    pub reserved: u32,
}

impl From<&Outcome> for UllageOutcome {
    fn from(outcome: &Outcome) -> Self {
        Self {
            fix: outcome.fix.into(),
            standing: outcome.best.standing().into(),
            counts: outcome.counts.into(),
            took_ns: outcome.took_ns,
            stop: match outcome.stop {
                Stop::Alike => 0,
                Stop::Messages => 1,
                Stop::Time => 2,
            },
            reserved: 0,
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UllageInstant {
    pub local_ns: u64,
    pub ns: u64,
    pub bound_ns: u64,
    pub hard_ns: u64,
    pub reasons: u32,
    pub reserved: u32,
}

impl UllageInstant {
    pub(crate) fn of(local_ns: u64, reading: Reading, reasons: Reasons) -> Self {
        Self {
            local_ns,
            ns: reading.ns,
            bound_ns: reading.bound_ns,
            hard_ns: reading.hard_ns,
            reasons: reasons.bits(),
            reserved: 0,
        }
    }
}

impl From<Instant> for UllageInstant {
    fn from(instant: Instant) -> Self {
        Self::of(instant.local_ns, instant.global, instant.reasons)
    }
}
