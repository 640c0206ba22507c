//! Specifications: written, read, refused.

use serde_json::{Value, json};
use sim_kit::{fixed, usual, with};
use ullage_elastic::sim::Spec;

mod sim_kit;

/// The same specification comes out of its own text.
#[test]
fn a_specification_can_be_written_down() {
    let spec = with(json!({}));
    let text = serde_json::to_string(&spec).expect("text");
    assert_eq!(Spec::parse(&text), Ok(spec));
}

#[test]
fn what_cannot_be_simulated_is_refused_by_its_field() {
    let said = |changes: Value| {
        let mut spec = usual();
        for (field, value) in changes.as_object().expect("changes") {
            spec[field] = value.clone();
        }
        Spec::parse(&spec.to_string())
            .expect_err("refused")
            .to_string()
    };
    let rows = |time: Value| json!({"rows": [{"stages": [{"name": "boot", "time": time}]}]});
    for (changes, words) in [
        (json!({"paitence": 1}), ["paitence", "unknown field"]),
        (json!({"watch": fixed(-1.0)}), ["watch.s", "0 to 1e9"]),
        (
            json!({"watch": {"kind": "fixed", "mean_s": 1}}),
            ["watch", "expected `s`"],
        ),
        (
            json!({"watch": {"kind": "gauss"}}),
            ["watch", "unknown variant"],
        ),
        (
            json!({"arrivals": {"kind": "poisson", "rate_hz": 0}}),
            ["arrivals.rate_hz", "more than 0"],
        ),
        (
            json!({"arrivals": {"kind": "trace", "at_s": [2, 1]}}),
            ["arrivals.at_s[1]", "2 or more"],
        ),
        (json!({"sessions": null}), ["sessions", "duration_s"]),
        (
            json!({"sessions": 1_000_000_000}),
            ["sessions", "1e9 seconds"],
        ),
        (json!({"sessions": 2_000_000}), ["records", "1000000"]),
        (
            json!({"allocation": {"rows": []}}),
            ["allocation.rows", "first row"],
        ),
        (
            json!({"allocation": rows(fixed(-3.0))}),
            ["allocation.rows[0].stages[0].time.s", "0 to"],
        ),
        (
            json!({"failures": {"error": 2}}),
            ["failures.error", "0 to 1"],
        ),
        (
            json!({"failures": {"never_ready": 0.5}}),
            ["allocation.gives_up_s", "never_ready"],
        ),
        (
            json!({"failures": {"error": 1}, "patience": null}),
            ["patience", "for ever"],
        ),
        (
            json!({"failures": {"error_after": fixed(0.0)}}),
            ["failures.error_after", "1 ms"],
        ),
        (
            json!({"policy": {"name": "elastic-film"}}),
            ["policy", "elastic-movie"],
        ),
        (
            json!({"application": {"room": 1, "max_nodes": 1, "min_nodes": 2}}),
            ["min_nodes", "0 to"],
        ),
    ] {
        let found = said(changes.clone());
        assert!(
            words.iter().all(|word| found.contains(word)),
            "{changes}: {found}"
        );
    }
    let error = Spec::parse("{").expect_err("refused");
    assert_eq!(error.field, "");
}
