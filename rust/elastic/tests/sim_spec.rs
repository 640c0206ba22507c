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
    let refusal = |changes: Value| {
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
            json!({"arrivals": {"kind": "flash-crowd", "rate_hz": 2, "peak_hz": 1, "from_s": 0, "decay_s": 1}}),
            ["arrivals.peak_hz", "rate_hz or more"],
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
        let message = refusal(changes.clone());
        assert!(
            words.iter().all(|word| message.contains(word)),
            "{changes}: {message}"
        );
    }
    let error = Spec::parse("{").expect_err("refused");
    assert_eq!(error.field, "");
}

/// Allocations that take so long, at most so many at the same time, and are given up after 30 s.
fn given_up(time: &Value, slow_down: &Value, more: &Value) -> Result<Spec, String> {
    let mut spec = usual();
    spec["allocation"] = json!({
        "rows": [{"stages": [{"name": "copy", "time": fixed(10.0)}, {"name": "boot", "time": time}]}],
        "slow_down": slow_down,
        "gives_up_s": 30.0,
    });
    for (field, value) in more.as_object().expect("changes") {
        spec[field] = value.clone();
    }
    Spec::parse(&spec.to_string()).map_err(|error| error.to_string())
}

/// A viewer without patience would wait for ever, and the simulation with it.
#[test]
fn allocations_that_are_all_given_up_need_patience() {
    let endless = json!({"patience": null});
    let slow = json!([{"concurrent": 2, "factor": 1.0}, {"concurrent": 4, "factor": 3.0}]);
    let image = json!({"patience": null, "hosts": {"count": 1, "nodes_each": 1,
        "first_image": fixed(5.0)}});
    let none = json!([]);
    let slow_row = json!({"patience": null, "allocation": {"gives_up_s": 30.0, "rows": [
        {"stages": [{"name": "boot", "time": fixed(10.0)}]},
        {"concurrent": 7, "stages": [{"name": "boot", "time": fixed(31.0)}]},
    ]}});
    for (time, slow_down, more, concurrent) in [
        (fixed(21.0), &none, &endless, 1),
        (
            json!({"kind": "uniform", "low_s": 20.5, "high_s": 90}),
            &none,
            &endless,
            1,
        ),
        (
            json!({"kind": "empirical", "values_s": [21, 90]}),
            &none,
            &endless,
            1,
        ),
        (
            json!({"kind": "normal", "mean_s": 21, "sd_s": 0}),
            &none,
            &endless,
            1,
        ),
        (fixed(5.0), &slow, &endless, 4),
        (fixed(16.0), &none, &image, 1),
        (fixed(1.0), &none, &slow_row, 7),
    ] {
        let message = given_up(&time, slow_down, more).expect_err("refused");
        assert!(
            message.starts_with("patience: is needed")
                && message.contains(&format!("{concurrent} concurrent allocations takes longer")),
            "{time}: {message}"
        );
        let mut patient = more.clone();
        patient["patience"] = fixed(60.0);
        given_up(&time, slow_down, &patient).expect("patience ends it");
    }
    for (time, slow_down) in [
        (fixed(20.0), &none),
        (json!({"kind": "exponential", "mean_s": 90}), &none),
        (json!({"kind": "empirical", "values_s": [1, 90]}), &none),
        (fixed(0.0), &slow),
    ] {
        given_up(&time, slow_down, &endless).expect("some are ready");
    }
}

/// As many as there may be: their number is more than a u32 holds.
#[test]
fn hosts_without_number_are_no_hosts_without_room() {
    let of = |count: u32, nodes_each: u32| {
        let hosts = json!({"count": count, "nodes_each": nodes_each});
        let mut spec = usual();
        spec["patience"] = Value::Null;
        spec["hosts"] = hosts;
        Spec::parse(&spec.to_string()).map_err(|error| error.to_string())
    };
    of(65_536, 65_536).expect("room for all");
    for message in [of(0, 65_536), of(65_536, 0)].map(|refused| refused.expect_err("no room")) {
        assert!(message.contains("no node ever becomes ready"), "{message}");
    }
    let many = of(u32::MAX, u32::MAX).expect_err("too many");
    assert!(many.starts_with("hosts.count: "), "{many}");
}
