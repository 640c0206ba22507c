//! How many viewers nodes sustain: doubling until there is a violation, then bisection, each step a
//! run of its own. Where the generator was the limit, or the cap was reached, there is no figure.

use std::path::Path;
use std::process::ExitCode;

use nix::sys::signalfd::SignalFd;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::{Arrivals, Config};
use crate::fleet;
use crate::session::Outcome;
use crate::shard::ENDINGS;
use crate::summary::Summary;
use ullage_common::failure::{self, Failure, print_json, read_input};
use ullage_common::signals;

/// Where the generator used more of a CPU than this, it may itself have been the limit.
const FULL: f64 = 0.9;

/// Beside the fields of a run, without `front`, `arrivals` and `sessions`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// Viewers of the first step.
    #[serde(default = "one")]
    start: u64,
    /// No step has more.
    cap: u64,
    /// How long all of a step's viewers watch together.
    step_s: f64,
    /// The time within which they come.
    #[serde(default = "second")]
    ramp_s: f64,
    /// The bracket is narrowed to this part of itself, or to one viewer.
    #[serde(default = "percent")]
    resolution: f64,
    /// A number is given up when it was not sustained so often in a row: a machine that stood still
    /// for a moment would halve the figure.
    #[serde(default = "two")]
    tries: u32,
}

fn one() -> u64 {
    1
}

fn second() -> f64 {
    1.0
}

fn percent() -> f64 {
    0.01
}

fn two() -> u32 {
    2
}

#[derive(Debug, Serialize)]
struct SearchResult {
    format: u8,
    mode: &'static str,
    /// The largest number of viewers that was sustained.
    figure: Option<u64>,
    why: Option<String>,
    /// The largest number that was sustained, and the smallest that was not.
    lower: u64,
    upper: Option<u64>,
    interrupted: bool,
    search: Search,
    steps: Vec<Step>,
}

#[derive(Debug, Serialize)]
struct Step {
    viewers: u64,
    verdict: Verdict,
    run: Value,
}

#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "because")]
enum Verdict {
    Sustained,
    NotSustained(String),
    /// Nothing about the nodes: the generator was the limit.
    Worthless(String),
    Interrupted,
}

pub fn command(path: &Path) -> Result<ExitCode, Failure> {
    let (config, search) = read_input(path, parse)?;
    let signals = signals::descriptor(&ENDINGS)?;
    let result = look(search, |viewers| step(&config, &search, viewers, &signals))?;
    print_json(&result)?;
    Ok(ExitCode::from(match (result.interrupted, result.figure) {
        (true, _) => failure::INTERRUPTED,
        (false, None) => failure::FAILED,
        (false, Some(_)) => 0,
    }))
}

fn parse(text: &str) -> Result<(Config, Search), String> {
    let mut value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let fields = value.as_object_mut().ok_or("not an object")?;
    for own in ["front", "arrivals", "sessions", "start_at_ns", "share"] {
        if fields.contains_key(own) {
            return Err(format!("a search has no `{own}`"));
        }
    }
    let search = fields.remove("search").ok_or("`search` is needed")?;
    let search: Search = serde_json::from_value(search).map_err(|e| format!("search: {e}"))?;
    fields.insert(
        "arrivals".into(),
        json!({"kind": "uniform", "rate_hz": 1, "count": 1}),
    );
    let config = Config::parse(&value.to_string())?;
    let Search {
        start,
        cap,
        step_s,
        ramp_s,
        resolution,
        tries,
    } = search;
    if !(1..=1 << 30).contains(&cap) || !(1..=cap).contains(&start) {
        return Err("`search.start` must be 1 to `search.cap`, and that at most 2^30".into());
    }
    if !(1..=10).contains(&tries) {
        return Err("`search.tries` must be 1 to 10".into());
    }
    let times = (0.1..=86_400.0).contains(&step_s) && (0.1..=86_400.0).contains(&ramp_s);
    if !times || !(0.0..=0.5).contains(&resolution) {
        return Err(
            "`search.step_s` and `ramp_s` must be 0.1 to 86400, `resolution` 0 to 0.5".into(),
        );
    }
    #[expect(clippy::cast_precision_loss, reason = "seconds")]
    let length_s = config.plan().sending_ns() as f64 / 1e9;
    if length_s < step_s + ramp_s {
        return Err(format!(
            "the video is sent in {length_s} s, and a step of the search needs {} s",
            step_s + ramp_s
        ));
    }
    Ok((config, search))
}

/// One run with so many viewers, who are all still watching at its end.
fn step(
    config: &Config,
    search: &Search,
    viewers: u64,
    signals: &SignalFd,
) -> Result<(Verdict, Value), Failure> {
    let mut config = config.clone();
    #[expect(clippy::cast_precision_loss, reason = "2^30 at most")]
    let rate_hz = viewers as f64 / search.ramp_s;
    config.arrivals = Arrivals::Uniform {
        rate_hz,
        count: Some(viewers),
        duration_s: None,
    };
    config.limits.run_s = Some(search.ramp_s + search.step_s);
    let summary = fleet::run(&config, signals)?;
    let run = serde_json::to_value(&summary).map_err(|error| Failure::new("result", error))?;
    let video = &config.video;
    let sent_bps = video.sent_bps.unwrap_or(video.bitrate_bps);
    #[expect(clippy::cast_precision_loss, reason = "2^30 at most")]
    let due = viewers as f64 * search.step_s * sent_bps as f64 / 8.0;
    Ok((verdict(&summary, viewers, due), run))
}

/// A run that ended before that says nothing of the CPU that its viewers need.
const SHORT_S: f64 = 0.5;

/// What a step shows. All of its viewers together are `due_bytes` of video at least: a picture that
/// begins so late that it has no time to stand still is not sustained either.
fn verdict(run: &Summary, viewers: u64, due_bytes: f64) -> Verdict {
    let watching = run.outcomes.get(&Outcome::Cut).copied().unwrap_or(0);
    let broken = viewers - watching.min(viewers);
    let unserved = viewers.saturating_sub(run.most_playing);
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let received = run.bytes as f64;
    let because = if run.violations.count > 0 {
        format!(
            "{} of {viewers} viewers had a violation",
            run.violations.viewers
        )
    } else if broken > 0 {
        format!(
            "{broken} of {viewers} viewers were not served: {:?}",
            run.whys
        )
    } else if unserved > 0 {
        format!("for {unserved} of {viewers} viewers it never began to play")
    } else if received < due_bytes {
        let share = received / due_bytes * 100.0;
        format!("{viewers} viewers had {share:.0} % of the bytes that they should have seen")
    } else {
        String::new()
    };
    if run.interrupted {
        Verdict::Interrupted
    } else if !run.valid {
        Verdict::Worthless(run.why.join("; "))
    } else if because.is_empty() {
        Verdict::Sustained
    } else if run.cpu_share >= FULL && run.seconds >= SHORT_S {
        Verdict::Worthless(format!(
            "{because}, but the generator used {:.0} % of its CPU",
            run.cpu_share * 100.0
        ))
    } else {
        Verdict::NotSustained(because)
    }
}

/// Doubling, then bisection, over whatever a step is.
fn look(
    search: Search,
    mut step: impl FnMut(u64) -> Result<(Verdict, Value), Failure>,
) -> Result<SearchResult, Failure> {
    let (mut lower, mut upper) = (0, None);
    let mut steps: Vec<Step> = Vec::new();
    let mut why = None;
    let mut interrupted = false;
    let mut failed = 0;
    let mut viewers = Some(search.start);
    while let Some(now) = viewers {
        let (verdict, run) = step(now)?;
        steps.push(Step {
            viewers: now,
            verdict: verdict.clone(),
            run,
        });
        match verdict {
            Verdict::Sustained if now == search.cap => {
                lower = now;
                why = Some(format!("the cap was reached: {now} viewers were sustained"));
            }
            Verdict::Sustained => lower = now,
            Verdict::NotSustained(_) if failed + 1 < search.tries => {
                failed += 1;
                continue;
            }
            Verdict::NotSustained(_) => upper = Some(now),
            Verdict::Worthless(because) => {
                why = Some(format!(
                    "at {now} viewers the generator was the limit: {because}"
                ));
            }
            Verdict::Interrupted => {
                interrupted = true;
                why = Some("the search was interrupted".into());
            }
        }
        failed = 0;
        viewers = if why.is_some() {
            None
        } else {
            next(&search, lower, upper)
        };
    }
    if lower == 0 && why.is_none() {
        why = Some("not one viewer was sustained".into());
    }
    Ok(SearchResult {
        format: 1,
        mode: "search",
        figure: why.is_none().then_some(lower),
        why,
        lower,
        upper,
        interrupted,
        search,
        steps,
    })
}

/// How many viewers the next step has; none when the bracket is narrow enough.
fn next(search: &Search, lower: u64, upper: Option<u64>) -> Option<u64> {
    let Some(upper) = upper else {
        return Some((lower * 2).min(search.cap));
    };
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "2^30 at most"
    )]
    let narrow = ((upper as f64 * search.resolution) as u64).max(1);
    (upper - lower > narrow).then(|| lower + (upper - lower) / 2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn search(start: u64, cap: u64, resolution: f64) -> Search {
        Search {
            start,
            cap,
            step_s: 1.0,
            ramp_s: 1.0,
            resolution,
            tries: 1,
        }
    }

    fn until(limit: u64) -> impl FnMut(u64) -> Result<(Verdict, Value), Failure> {
        move |viewers| {
            let verdict = match viewers {
                few if few <= limit => Verdict::Sustained,
                _ => Verdict::NotSustained(String::new()),
            };
            Ok((verdict, Value::Null))
        }
    }

    proptest! {
        #[test]
        fn the_limit_is_found(limit in 1..100_000u64, start in 1..2000u64) {
            let result = look(search(start, 1 << 30, 0.0), until(limit)).expect("found");
            prop_assert_eq!(result.figure, Some(limit));
            prop_assert_eq!((result.lower, result.upper), (limit, Some(limit + 1)));
            prop_assert!(result.steps.len() < 60);
            let result = look(search(start, 1 << 30, 0.1), until(limit)).expect("found");
            let Some(upper) = result.upper else { panic!("it has an end") };
            prop_assert!(result.lower <= limit && limit < upper);
        }
    }

    #[test]
    fn there_is_no_figure_at_the_cap_nor_of_nobody() {
        let result = look(search(1, 100, 0.0), until(1000)).expect("found");
        assert_eq!(
            (result.figure, result.lower, result.upper),
            (None, 100, None)
        );
        assert!(result.why.expect("why").contains("cap"));
        let result = look(search(8, 100, 0.0), until(0)).expect("found");
        assert_eq!((result.figure, result.upper), (None, Some(1)));
        assert!(result.why.expect("why").contains("not one"));
    }

    #[test]
    fn there_is_no_figure_when_the_generator_is_the_limit() {
        let result = look(search(1, 100, 0.0), |viewers| {
            let late = Verdict::Worthless("late".into());
            Ok((
                if viewers < 16 {
                    Verdict::Sustained
                } else {
                    late
                },
                Value::Null,
            ))
        });
        let result = result.expect("found");
        assert_eq!((result.figure, result.lower, result.upper), (None, 8, None));
        assert!(result.why.expect("why").contains("the generator"));
    }

    #[test]
    fn a_number_is_given_up_after_so_many_tries_in_a_row() {
        let search = Search {
            tries: 3,
            ..search(4, 100, 0.0)
        };
        // Of each number the first two steps are disturbed.
        let mut visits = std::collections::HashMap::new();
        let result = look(search, |viewers| {
            let times = visits.entry(viewers).or_insert(0);
            *times += 1;
            let fine = viewers <= 9 && *times == 3;
            let verdict = if fine {
                Verdict::Sustained
            } else {
                Verdict::NotSustained(String::new())
            };
            Ok((verdict, Value::Null))
        });
        let result = result.expect("found");
        assert_eq!((result.figure, result.upper), (Some(9), Some(10)));
        let numbers: Vec<_> = result.steps.iter().map(|step| step.viewers).collect();
        let thrice = [4, 8, 16, 12, 10, 9].map(|viewers| [viewers; 3]);
        assert_eq!(numbers, thrice.concat());
    }

    #[test]
    fn a_search_is_read_or_refused() {
        let good = r#"{"nodes": ["http://127.0.0.1:80/clip"],
            "video": {"bytes": 10000, "bitrate_bps": 8000, "chunk_bytes": 100},
            "search": {"cap": 10, "step_s": 5}}"#;
        parse(good).expect("good");
        for (from, to, named) in [
            ("\"step_s\": 5", "\"step_s\": 9.5", "video"),
            ("\"step_s\": 5", "\"step_s\": 0", "step_s"),
            ("\"cap\": 10", "\"cap\": 0", "cap"),
            ("\"cap\": 10", "\"cap\": 10, \"start\": 11", "start"),
            ("\"cap\": 10", "\"cap\": 10, \"tries\": 0", "tries"),
            ("\"cap\": 10", "\"cap\": 10, \"x\": 11", "x"),
            ("\"video\"", "\"sessions\": \"x\", \"video\"", "sessions"),
            ("\"search\"", "\"find\"", "search"),
        ] {
            let why = parse(&good.replace(from, to)).expect_err(to);
            assert!(why.contains(named), "{to}: {why}");
        }
    }
}
