//! When viewers come: instants after the start, the same for the same seed on every machine, and in
//! every number of processes.

use std::fs::File;
use std::io::{BufRead, BufReader};

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::config::Arrivals;
use crate::failure::Failure;

/// Nanoseconds since the start, in order.
pub struct Schedule {
    kind: Kind,
    random: Xoshiro256PlusPlus,
    given: u64,
    count: u64,
    length_s: f64,
    at_s: f64,
}

enum Kind {
    Poisson(f64),
    Uniform(f64),
    Crowd {
        rate: f64,
        peak: f64,
        at_s: f64,
        decay_s: f64,
    },
    Trace(std::vec::IntoIter<u64>),
}

impl Schedule {
    pub fn new(arrivals: &Arrivals) -> Result<Self, Failure> {
        let (kind, count, length_s, seed) = match arrivals {
            Arrivals::Poisson {
                rate_hz,
                count,
                duration_s,
                seed,
            } => (Kind::Poisson(*rate_hz), count, duration_s, *seed),
            Arrivals::Uniform {
                rate_hz,
                count,
                duration_s,
            } => (Kind::Uniform(*rate_hz), count, duration_s, 0),
            Arrivals::FlashCrowd {
                rate_hz,
                peak_hz,
                at_s,
                decay_s,
                count,
                duration_s,
                seed,
            } => {
                let kind = Kind::Crowd {
                    rate: *rate_hz,
                    peak: *peak_hz,
                    at_s: *at_s,
                    decay_s: *decay_s,
                };
                (kind, count, duration_s, *seed)
            }
            Arrivals::Trace { path } => {
                let file = File::open(path)
                    .map_err(|e| Failure::input(format!("{}: {e}", path.display())))?;
                let instants = trace(BufReader::new(file))
                    .map_err(|why| Failure::input(format!("{}: {why}", path.display())))?;
                (Kind::Trace(instants.into_iter()), &None, &None, 0)
            }
        };
        Ok(Self {
            kind,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            given: 0,
            count: count.unwrap_or(u64::MAX),
            length_s: length_s.unwrap_or(f64::INFINITY),
            at_s: 0.0,
        })
    }

    /// Above 0, at most 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits")]
    fn uniform(&mut self) -> f64 {
        ((self.random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, rate: f64) -> f64 {
        -self.uniform().ln() / rate
    }

    /// By thinning: of a process at the highest rate from here on, what the rate at that instant keeps.
    fn crowd(&mut self, rate: f64, peak: f64, at_s: f64, decay_s: f64) -> f64 {
        let mut now = self.at_s;
        loop {
            now += self.exponential(peak);
            let crowd = if now < at_s {
                0.0
            } else {
                (peak - rate) * ((at_s - now) / decay_s).exp()
            };
            if now > self.length_s || self.uniform() * peak <= rate + crowd {
                return now;
            }
        }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    #[expect(clippy::cast_precision_loss, reason = "2^40 at most")]
    fn next(&mut self) -> Option<u64> {
        if self.given == self.count {
            return None;
        }
        self.at_s = match &mut self.kind {
            Kind::Trace(instants) => return instants.next(),
            Kind::Poisson(rate) => {
                let rate = *rate;
                self.at_s + self.exponential(rate)
            }
            Kind::Uniform(rate) => self.given as f64 / *rate,
            Kind::Crowd {
                rate,
                peak,
                at_s,
                decay_s,
            } => {
                let (rate, peak, at_s, decay_s) = (*rate, *peak, *at_s, *decay_s);
                self.crowd(rate, peak, at_s, decay_s)
            }
        };
        self.given += 1;
        // A uniform schedule's end is open: 10 in a second at 10 a second.
        (self.at_s < self.length_s).then(|| crate::config::nanoseconds(self.at_s))
    }
}

/// The lines of a trace: seconds in order; empty lines and those that begin with # do not count.
fn trace(lines: impl BufRead) -> Result<Vec<u64>, String> {
    let mut instants = Vec::new();
    for (number, line) in (1..).zip(lines.lines()) {
        let line = line.map_err(|error| error.to_string())?;
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        match text.parse::<f64>() {
            Ok(at_s) if (0.0..1e8).contains(&at_s) => {
                instants.push(crate::config::nanoseconds(at_s));
            }
            _ => {
                return Err(format!(
                    "line {number}: not seconds since the start, 0 to 1e8"
                ));
            }
        }
    }
    if instants.is_sorted() {
        Ok(instants)
    } else {
        Err("the instants are not in order".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> Vec<f64> {
        let arrivals: Arrivals = serde_json::from_str(json).expect("arrivals");
        let schedule = Schedule::new(&arrivals).expect("schedule");
        #[expect(clippy::cast_precision_loss, reason = "a test's")]
        schedule.map(|ns| ns as f64 / 1e9).collect()
    }

    #[test]
    fn equal_gaps_do_not_drift() {
        let at = of(r#"{"kind": "uniform", "rate_hz": 3, "count": 3000001}"#);
        assert!((at[3_000_000] - 1e6).abs() < 1e-6);
        assert_eq!(
            of(r#"{"kind": "uniform", "rate_hz": 10, "duration_s": 1}"#).len(),
            10
        );
        assert!(of(r#"{"kind": "uniform", "rate_hz": 10, "count": 0}"#).is_empty());
    }

    #[test]
    fn poisson_has_the_rate_and_the_spread_and_its_seed() {
        let text = r#"{"kind": "poisson", "rate_hz": 1000, "count": 200000, "seed": 7}"#;
        let at = of(text);
        let gaps: Vec<f64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean =
            |of: &dyn Fn(f64) -> f64| gaps.iter().map(|gap| of(*gap)).sum::<f64>() / 199_999.0;
        // Exponential: mean 1/rate, mean square 2/rate². Five standard errors of 200,000.
        assert!((mean(&|gap| gap) * 1e3 - 1.0).abs() < 5.0 / 2e5f64.sqrt());
        assert!((mean(&|gap| gap * gap) * 5e5 - 1.0).abs() < 5.0 * (5.0 / 2e5f64).sqrt());
        assert_eq!(of(text), at);
        assert_ne!(of(&text.replace("7}", "8}"))[..9], at[..9]);
    }

    #[test]
    fn a_crowd_comes_at_once_and_goes_by_and_by() {
        let at = of(
            r#"{"kind": "flash-crowd", "rate_hz": 100, "peak_hz": 10000, "at_s": 10,
            "decay_s": 2, "duration_s": 30}"#,
        );
        let within = |from: f64, to: f64| at.iter().filter(|at| (from..to).contains(at)).count();
        #[expect(clippy::cast_precision_loss, reason = "a test's")]
        let near = |count: usize, want: f64| (count as f64 - want).abs() < 5.0 * want.sqrt();
        assert!(near(within(0.0, 10.0), 1000.0));
        // 100 in a second, and 9900 · 2 · (1 - e^-1) of the crowd in its first two.
        assert!(near(
            within(10.0, 12.0),
            200.0 + 19_800.0 * (1.0 - (-1f64).exp())
        ));
        assert!(at.is_sorted() && at.iter().all(|at| *at < 30.0));
    }

    #[test]
    fn a_trace_is_taken_as_it_is_or_refused() {
        let read = |text: &str| trace(text.as_bytes());
        assert_eq!(
            read("# s\n0\n\n0.5\n0.5\n").expect("trace"),
            [0, 500_000_000, 500_000_000]
        );
        for bad in ["x", "-1", "nan", "1e9", "2\n1"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
