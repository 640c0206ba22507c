//! Runs a simulation: `sim SPEC.json` prints a JSON object of the outcome, how long it took on the CPU
//! and by the clock, and the most memory that the process ever had.

mod cpu;

use std::process::ExitCode;
use std::time::Instant;

use serde_json::json;

use cpu::cpu_s;
use ullage_elastic::sim::{Spec, run};

fn main() -> ExitCode {
    match simulate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::from(2)
        }
    }
}

fn simulate() -> Result<(), String> {
    let path = std::env::args()
        .nth(1)
        .ok_or("say which specification to run")?;
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let spec = Spec::parse(&text).map_err(|error| error.to_string())?;
    let (clock, cpu) = (Instant::now(), cpu_s());
    let outcome = run(&spec).map_err(|error| error.to_string())?;
    let report = json!({
        "cpu_s": cpu_s() - cpu,
        "elapsed_s": clock.elapsed().as_secs_f64(),
        "memory_bytes": memory_bytes(),
        "outcome": outcome,
    });
    println!("{report}");
    Ok(())
}

fn memory_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux tells it");
    let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    first_number(peak.expect("it has a peak")) * 1024.0
}

fn first_number(text: &str) -> f64 {
    let word = text.split_whitespace().next();
    word.and_then(|word| word.parse().ok()).expect("a number")
}
