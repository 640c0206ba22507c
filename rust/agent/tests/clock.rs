//! The clock over the channel: a shared line, exchanges, and what is not answered. One machine has one
//! counter, so the truth is known to the nanosecond.
#![cfg(unix)]

mod common;

use std::process::Command;
use std::time::Duration;

use common::{AGENT, Agent, Event, TOKEN, Value, frame, json};
use ullage_clock::rgap::{Action, Client, Outcome, Rules, Token};
use ullage_clock::{Clock, Reasons, SHIFT};

const BYTES: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
const RULES: Rules = Rules {
    time_ns: 1_000_000_000,
    patience_ns: 20_000_000_000,
    reply_ns: 20_000_000_000,
    ..Rules::PUBLISHED
};
const FAST_PPB: i64 = 11_250;
const AHEAD_NS: i64 = 5_000_000;

/// A hello with our line.
fn offer(agent: &mut Agent, boot_id: &str) -> Value {
    use std::fmt::Write;
    let mut line = String::new();
    for byte in Clock::get().line().encode() {
        write!(line, "{byte:02x}").expect("text");
    }
    let rate = Clock::get().rate();
    let (millihertz, sigma_ppb, bound_ppb) = (rate.millihertz, rate.sigma_ppb, rate.bound_ppb);
    let rate = json!({"millihertz": millihertz, "sigma_ppb": sigma_ppb, "bound_ppb": bound_ppb});
    let offer = json!({"boot_id": boot_id, "line": line, "rate": rate});
    let request = json!({"op": "hello", "id": 1, "version": 2, "token": TOKEN, "offer": offer});
    agent.ask(&request)["clock"].clone()
}

fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot id");
    id.trim().to_owned()
}

fn distorted() -> Agent {
    let mut command = Command::new(AGENT);
    command.env("ULLAGE_CLOCK_DISTORT", format!("{FAST_PPB},{AHEAD_NS}"));
    Agent::start_by(command.arg("serve"))
}

/// What `distorted` shows when the clock that it took its line from shows this.
fn false_time(line: &[u8; 48], ns: u64) -> i128 {
    let [high, low] = [16, 24].map(|at| {
        let word: [u8; 8] = line[at..at + 8].try_into().expect("eight");
        u128::from(u64::from_be_bytes(word))
    });
    let anchor = i128::try_from((high << 64 | low) >> SHIFT).expect("an instant");
    let since = i128::from(ns) - anchor;
    anchor + since + since * i128::from(FAST_PPB) / 1_000_000_000 + i128::from(AHEAD_NS)
}

fn synchronise(agent: &mut Agent) -> Outcome {
    let clock = Clock::get();
    let mut client = Client::new(RULES, Token(BYTES), clock.ordered());
    loop {
        match client.poll(clock.ordered()) {
            Action::Done(done) => return done.expect("a synchronisation"),
            Action::Send(bytes) => agent.send_bytes(&frame(4, &bytes)),
            Action::Wait { .. } => match agent.next() {
                Event::Clock(bytes) => client.receive(&bytes, clock.ordered(), false),
                other => panic!("an answer is wanted, not {other:?}"),
            },
        }
    }
}

#[test]
fn on_one_kernel_there_is_one_time() {
    let mut agent = Agent::serve();
    let before = Clock::get().ordered();
    let clock = offer(&mut agent, &boot_id());
    let after = Clock::get().ordered();
    assert_eq!(clock["shared"], true);
    // What we know of our own cores: its promise may differ a little from ours.
    let apart = Clock::get().promise().ordered_ns.unwrap_or(100_000);
    let ns = clock["ns"].as_u64().expect("ns");
    assert!(before <= ns + apart && ns <= after + apart);
    let argv = json!(["sh", "-c", "true"]);
    let at_ns = Clock::get().ordered() + 20_000_000;
    let run = agent.run(&json!({"op": "spawn", "id": 4, "argv": argv, "at_ns": at_ns}));
    let after = Clock::get().ordered();
    let [start, end] = ["start_ns", "end_ns"].map(|name| run.exit[name].as_u64().expect("ns"));
    assert!(at_ns <= start && start < end && end <= after + apart);
    let fix = synchronise(&mut agent).fix;
    assert!(fix.offset_ns.unsigned_abs() <= fix.half_ns, "{fix:?}");
}

#[test]
fn on_another_kernel_there_is_not() {
    let mut agent = Agent::serve();
    let clock = offer(&mut agent, "4f3ff1c6-0000-4000-8000-000000000000");
    assert_eq!(clock["shared"], false);
    // A later hello may offer again.
    assert_eq!(offer(&mut agent, &boot_id())["shared"], true);
}

#[test]
fn a_false_clock_is_measured_within_the_bound() {
    let mut agent = distorted();
    let line = Clock::get().line().encode();
    let clock = offer(&mut agent, &boot_id());
    assert_eq!(
        clock["shared"], false,
        "it took the line, and runs falsely from it"
    );
    let blamed = |clock: &Value| {
        let names = clock["reasons"].as_array().expect("reasons");
        names.contains(&json!("distorted"))
    };
    assert!(blamed(&clock));
    for _ in 0..3 {
        let outcome = synchronise(&mut agent);
        let (fix, standing) = (outcome.fix, outcome.best.standing());
        let truth = false_time(&line, fix.local_ns) - i128::from(fix.local_ns);
        let off = (i128::from(fix.offset_ns) - truth).unsigned_abs();
        assert!(off <= u128::from(fix.half_ns), "{off} {fix:?}");
        assert!(!standing.awake && standing.reasons.any(Reasons::DISTORTED));
        std::thread::sleep(Duration::from_millis(50));
    }
    // The child waits for an instant of the false clock, and tells it by that.
    let at_ns = false_time(&line, Clock::get().ordered() + 100_000_000);
    let at_ns = u64::try_from(at_ns).expect("an instant");
    let request = json!({"op": "spawn", "id": 5, "argv": ["true"], "at_ns": at_ns});
    let waited = agent.run(&request);
    let start = waited.exit["start_ns"].as_u64().expect("start");
    let late_ns = waited.started["late_ns"].as_u64().expect("late_ns");
    assert_eq!(start, at_ns + late_ns);
    // And without one.
    let run = agent.shell(4, "true");
    let start = run.exit["start_ns"].as_u64().expect("start");
    let now = false_time(&line, Clock::get().ordered());
    assert!((now - i128::from(start)).unsigned_abs() < 20_000_000_000);
    assert!(false_time(&line, 0) < i128::from(start));
    assert!(blamed(&run.exit));
}
