//! The header's structures and numbers are this crate's.

use core::mem::{offset_of, size_of};
use std::format;
use std::io::Write;
use std::process::{Command, Stdio};
use std::string::String;

use rust_clock::rgap::{LENGTH, SHARE_LENGTH};

use crate::types::{
    UllageCounts, UllageDrift, UllageFix, UllageInstant, UllageOutcome, UllageRules, UllageStamp,
    UllageStanding,
};
use crate::{ABI, UllageAction, UllageCorrectionFacts, code};

/// Statements that a C compiler refuses if it sees it otherwise.
macro_rules! agree {
    ($c:ident, $type:ident, [$($member:ident),*]) => {{
        let name = stringify!($c);
        let mut lines = format!("static_assert(sizeof({name}) == {}, \"{name}\");\n", size_of::<$type>());
        let mut end = 0;
        $(
            let (member, at) = (stringify!($member), offset_of!($type, $member));
            lines += &format!("static_assert(offsetof({name}, {member}) == {at}, \"{name}.{member}\");\n");
            end = end.max(at);
        )*
        assert!(end < size_of::<$type>());
        lines
    }};
}

fn structures() -> String {
    [
        agree!(ullage_stamp, UllageStamp, [ns, reasons, reserved]),
        agree!(
            ullage_rules,
            UllageRules,
            [
                spread_ns,
                time_ns,
                patience_ns,
                reply_ns,
                dropped,
                smallest,
                messages,
                worst_ppb
            ]
        ),
        agree!(
            ullage_drift,
            UllageDrift,
            [baseline_ns, worst_ppb, wander_ppb]
        ),
        agree!(
            ullage_standing,
            UllageStanding,
            [hard_ns, bound_ns, reasons, stratum, awake, reserved]
        ),
        agree!(
            ullage_counts,
            UllageCounts,
            [sent, answers, lost, malformed, foreign, old]
        ),
        agree!(
            ullage_fix,
            UllageFix,
            [local_ns, offset_ns, half_ns, sure_ns, noise_ns, rtt_ns]
        ),
        agree!(
            ullage_outcome,
            UllageOutcome,
            [fix, standing, counts, took_ns, stop, reserved]
        ),
        agree!(
            ullage_action,
            UllageAction,
            [kind, result, until_ns, message]
        ),
        agree!(
            ullage_instant,
            UllageInstant,
            [local_ns, ns, bound_ns, hard_ns, reasons, reserved]
        ),
        agree!(
            ullage_correction_facts,
            UllageCorrectionFacts,
            [drifted_ns, residual_ns, wander_ppb, checked, reserved]
        ),
    ]
    .concat()
}

fn numbers() -> String {
    let length = i64::try_from(LENGTH).expect("small");
    let share = i64::try_from(SHARE_LENGTH).expect("small");
    [
        ("ULLAGE_CLOCK_ABI", i64::from(ABI)),
        ("ULLAGE_MESSAGE_LENGTH", length),
        ("ULLAGE_TOKEN_LENGTH", 16),
        ("ULLAGE_SHARE_LENGTH", share),
        ("ULLAGE_OK", code::OK.into()),
        ("ULLAGE_NULL", code::NULL.into()),
        ("ULLAGE_ARGUMENT", code::ARGUMENT.into()),
        ("ULLAGE_NO_ANSWER", code::NO_ANSWER.into()),
        ("ULLAGE_CONTRADICTION", code::CONTRADICTION.into()),
        ("ULLAGE_APART", code::APART.into()),
        ("ULLAGE_UNSYNCHRONISED", code::UNSYNCHRONISED.into()),
        ("ULLAGE_NOT_YET", code::NOT_YET.into()),
    ]
    .map(|(name, number)| format!("static_assert({name} == {number}, \"{name}\");\n"))
    .concat()
}

#[test]
fn a_c_compiler_sees_the_same() {
    let program = format!(
        "#include <assert.h>\n#include \"ullage_clock.h\"\n{}{}",
        structures(),
        numbers()
    );
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
    let mut compiler = Command::new("cc")
        .args(["-std=c11", "-fsyntax-only", "-x", "c", "-I", include, "-"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("cc");
    let mut source = compiler.stdin.take().expect("pipe");
    source.write_all(program.as_bytes()).expect("written");
    drop(source);
    assert!(compiler.wait().expect("ends").success(), "{program}");
}
