//! A specification to change.

use serde_json::{Value, json};
use ullage_elastic::sim::Spec;

pub fn fixed(s: f64) -> Value {
    json!({"kind": "fixed", "s": s})
}

/// 40 viewers at one in ten seconds, nodes with room for 4.
pub fn usual() -> Value {
    json!({
        "application": {"room": 4},
        "arrivals": {"kind": "poisson", "rate_hz": 0.1},
        "sessions": 40,
        "watch": fixed(180.0),
        "patience": fixed(60.0),
        "allocation": {"rows": [{"stages": [{"name": "TaR", "time": fixed(30.0)}]}]},
        "release": fixed(5.0),
        "seed": 1,
        "records": true,
    })
}

pub fn with(changes: Value) -> Spec {
    let mut spec = usual();
    let Value::Object(changes) = changes else {
        panic!("changes are an object");
    };
    for (field, value) in changes {
        spec[field] = value;
    }
    Spec::parse(&spec.to_string()).expect("a good specification")
}
