//! Where mathematics knows the answer, the simulator's 99 % interval has it in it. Seeds are fixed, so
//! each test always does the same.

#![expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]

use serde_json::{Value, json};
use ullage_elastic::sim::{Outcome, Spec, Steady, run};

const SEEDS: u64 = 20;
/// Student's t with 19 degrees of freedom, two-sided 99 %.
const T: f64 = 2.861;

fn outcomes(spec: &Value) -> Vec<Outcome> {
    let simulate = |seed| {
        let mut spec = spec.clone();
        spec["seed"] = json!(seed);
        let spec = Spec::parse(&spec.to_string()).expect("a good specification");
        run(&spec).expect("it runs")
    };
    (1..=SEEDS).map(simulate).collect()
}

fn contains(figure: &str, outcomes: &[Outcome], value: fn(&Steady) -> f64, expected: f64) {
    let steady = |outcome: &Outcome| value(&outcome.steady.expect("many came"));
    let values: Vec<f64> = outcomes.iter().map(steady).collect();
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let half = T * (squares / (count - 1.0) / count).sqrt();
    assert!(
        (mean - expected).abs() <= half,
        "{figure}: {mean} ± {half}, where {expected} is expected"
    );
    assert!(
        half < 0.1 * expected,
        "{figure}: ± {half} proves nothing of {expected}"
    );
}

fn blocked(steady: &Steady) -> f64 {
    steady.blocked as f64 / steady.requests as f64
}

fn turned_away(steady: &Steady) -> f64 {
    steady.turned_away as f64 / steady.requests as f64
}

fn watching(steady: &Steady) -> f64 {
    steady.levels.watching.mean
}

fn variance(steady: &Steady) -> f64 {
    steady.levels.watching.variance
}

fn waiting(steady: &Steady) -> f64 {
    steady.levels.waiting.mean
}

/// Nodes that are there at once: 1 viewer comes in a second and stays 50 s.
fn spec(changes: &Value) -> Value {
    let mut spec = json!({
        "application": {"room": 10},
        "arrivals": {"kind": "poisson", "rate_hz": 1.0},
        "sessions": 20_000,
        "watch": {"kind": "exponential", "mean_s": 50.0},
        "allocation": {
            "rows": [{"stages": [{"name": "none", "time": {"kind": "fixed", "s": 0.0}}]}],
        },
        "warm_up_s": 1_000.0,
        "points": 0,
    });
    for (field, value) in changes.as_object().expect("an object") {
        spec[field] = value.clone();
    }
    spec
}

/// Offered 50 Erlang to so many servers that are always there.
fn servers(count: u32, waiting_room: Option<u32>) -> Value {
    json!({"room": 1, "min_nodes": count, "max_nodes": count, "waiting_room": waiting_room})
}

/// Without latency nobody waits, and the viewers are M/G/∞: Poisson, whatever the watching time.
#[test]
fn without_latency_it_is_m_g_infinity() {
    for (name, watch) in [
        ("fixed", json!({"kind": "fixed", "s": 50.0})),
        (
            "exponential",
            json!({"kind": "exponential", "mean_s": 50.0}),
        ),
        (
            "heavy-tailed",
            json!({"kind": "pareto", "least_s": 30.0, "shape": 2.5}),
        ),
    ] {
        let outcomes = outcomes(&spec(
            &json!({"watch": watch, "patience": {"kind": "fixed", "s": 0.0}}),
        ));
        contains(&format!("mean, {name}"), &outcomes, watching, 50.0);
        contains(&format!("variance, {name}"), &outcomes, variance, 50.0);
        assert!(outcomes.iter().all(|outcome| outcome.viewers.blocked == 0));
    }
}

/// Erlang's loss formula, by its recursion.
fn erlang_b(servers: u32, offered: f64) -> f64 {
    (1..=servers).fold(1.0, |b, n| offered * b / (f64::from(n) + offered * b))
}

/// Without a waiting room it is M/G/c/c: also insensitive to the watching time.
#[test]
fn with_a_cap_and_no_waiting_it_is_erlang_b() {
    for watch in [
        json!({"kind": "fixed", "s": 50.0}),
        json!({"kind": "exponential", "mean_s": 50.0}),
    ] {
        let outcomes = outcomes(&spec(
            &json!({"watch": watch, "application": servers(50, Some(0))}),
        ));
        let expected = erlang_b(50, 50.0);
        contains("loss", &outcomes, turned_away, expected);
        contains("carried", &outcomes, watching, 50.0 * (1.0 - expected));
    }
}

/// M/M/c+M, by its stationary distribution: part that loses patience, and how many wait.
fn erlang_a(servers: u32, rate: f64, mean_watch: f64, mean_patience: f64) -> (f64, f64) {
    let (mut weight, mut sum, mut wait) = (1.0, 1.0, 0.0);
    for n in 1..10_000_u32 {
        let busy = f64::from(n.min(servers)) / mean_watch;
        let queue = f64::from(n.saturating_sub(servers));
        weight *= rate / (busy + queue / mean_patience);
        sum += weight;
        wait += weight * queue;
    }
    let waiting = wait / sum;
    (waiting / mean_patience / rate, waiting)
}

#[test]
fn with_exponential_patience_it_is_erlang_a() {
    for patience_s in [10.0, 60.0] {
        let patience = json!({"kind": "exponential", "mean_s": patience_s});
        let outcomes = outcomes(&spec(&json!({
            "patience": patience, "application": servers(50, None), "sessions": 30_000,
        })));
        let (lost, queue) = erlang_a(50, 1.0, 50.0, patience_s);
        contains("abandoned", &outcomes, blocked, lost);
        contains("waiting", &outcomes, waiting, queue);
    }
}
