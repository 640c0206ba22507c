//! When viewers come: instants after the start, the same for the same seed on every machine, and in
//! every number of processes.

use std::fs::File;
use std::io::{BufRead, BufReader};

use ullage_elastic::{Arrivals as Curve, Schedule};

use crate::config::Arrivals;
use ullage_common::Failure;

/// Nanoseconds since the start, in order.
pub fn schedule(arrivals: &Arrivals) -> Result<Schedule, Failure> {
    let (curve, seed, count, duration_s) = match arrivals {
        Arrivals::Poisson {
            rate_hz,
            count,
            duration_s,
            seed,
        } => {
            let curve = Curve::Poisson { rate_hz: *rate_hz };
            (curve, *seed, *count, *duration_s)
        }
        Arrivals::Uniform {
            rate_hz,
            count,
            duration_s,
        } => {
            let curve = Curve::Uniform { rate_hz: *rate_hz };
            (curve, 0, *count, *duration_s)
        }
        Arrivals::FlashCrowd {
            rate_hz,
            peak_hz,
            at_s,
            decay_s,
            count,
            duration_s,
            seed,
        } => {
            let curve = Curve::FlashCrowd {
                rate_hz: *rate_hz,
                peak_hz: *peak_hz,
                from_s: *at_s,
                decay_s: *decay_s,
            };
            (curve, *seed, *count, *duration_s)
        }
        Arrivals::Trace { path } => {
            let failure = |why: String| Failure::bad(path.display(), why);
            let file = File::open(path).map_err(|error| failure(error.to_string()))?;
            let at_s = trace(BufReader::new(file)).map_err(failure)?;
            (Curve::Trace { at_s }, 0, None, None)
        }
    };
    Ok(Schedule::seeded(&curve, seed, count, duration_s).at_once())
}

/// The lines of a trace: seconds in order; empty lines and those that begin with # do not count.
fn trace(lines: impl BufRead) -> Result<Vec<f64>, String> {
    let mut instants_s = Vec::new();
    for (number, line) in (1..).zip(lines.lines()) {
        let line = line.map_err(|error| error.to_string())?;
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        match text.parse() {
            Ok(at_s) if (0.0..1e8).contains(&at_s) => instants_s.push(at_s),
            _ => {
                return Err(format!(
                    "line {number}: not seconds since the start, 0 to 1e8"
                ));
            }
        }
    }
    if instants_s.is_sorted() {
        Ok(instants_s)
    } else {
        Err("the instants are not in order".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instants_ns(json: &str) -> Vec<u64> {
        let arrivals: Arrivals = serde_json::from_str(json).expect("arrivals");
        schedule(&arrivals).expect("schedule").collect()
    }

    #[test]
    fn equal_gaps_begin_at_once_and_end_openly() {
        let second = instants_ns(r#"{"kind": "uniform", "rate_hz": 10, "duration_s": 1}"#);
        assert_eq!((second.len(), second[0], second[9]), (10, 0, 900_000_000));
        assert!(instants_ns(r#"{"kind": "uniform", "rate_hz": 10, "count": 0}"#).is_empty());
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "a test's")]
    fn poisson_has_the_rate_and_the_spread_and_its_seed() {
        let text = r#"{"kind": "poisson", "rate_hz": 1000, "count": 200000, "seed": 7}"#;
        let at = instants_ns(text);
        let gaps: Vec<f64> = at
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64 / 1e9)
            .collect();
        let mean =
            |of: &dyn Fn(f64) -> f64| gaps.iter().map(|gap| of(*gap)).sum::<f64>() / 199_999.0;
        // Exponential: mean 1/rate, mean square 2/rate². Five standard errors of 200,000.
        assert!((mean(&|gap| gap) * 1e3 - 1.0).abs() < 5.0 / 2e5f64.sqrt());
        assert!((mean(&|gap| gap * gap) * 5e5 - 1.0).abs() < 5.0 * (5.0 / 2e5f64).sqrt());
        assert_eq!(instants_ns(text), at);
        assert_ne!(instants_ns(&text.replace("7}", "8}"))[..9], at[..9]);
    }

    /// The curve itself is tested where it is drawn.
    #[test]
    #[expect(clippy::cast_precision_loss, reason = "a test's")]
    fn a_crowd_is_that_of_its_fields() {
        let at = instants_ns(
            r#"{"kind": "flash-crowd", "rate_hz": 100, "peak_hz": 10000, "at_s": 10,
            "decay_s": 2, "duration_s": 30}"#,
        );
        let begin = at
            .iter()
            .filter(|at| (10_000_000_000..12_000_000_000).contains(*at));
        let expected = 200.0 + 19_800.0 * (1.0 - (-1f64).exp());
        assert!((begin.count() as f64 - expected).abs() < 5.0 * expected.sqrt());
    }

    #[test]
    fn a_trace_is_taken_as_it_is_or_refused() {
        let read = |text: &str| trace(text.as_bytes());
        assert_eq!(
            read("# s\n0\n\n0.5\n0.5\n").expect("trace"),
            [0.0, 0.5, 0.5]
        );
        for bad in ["x", "-1", "nan", "1e9", "2\n1"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
