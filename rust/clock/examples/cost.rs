//! What a read costs, as ratios: rounds of all clocks interleaved, the median over the rounds of
//! each round's ratio, with the range of its middle half.

use std::hint::black_box;
use std::time::Instant;

use ullage_clock::{Clock, Raw};

const ROUNDS: usize = 301;
const READS: u32 = 20_000;

const CLOCKS: [&str; 8] = [
    "rdtsc",
    "rdtscp",
    "RVEC",
    "RVEC ordered",
    "RVEC stamp",
    "CLOCK_MONOTONIC",
    "CLOCK_MONOTONIC_RAW",
    "CLOCK_MONOTONIC as a system call",
];

fn main() {
    println!("{}", Clock::get().promise());
    let mut rounds: Vec<Vec<f64>> = vec![Vec::new(); CLOCKS.len()];
    for round in 0..ROUNDS {
        // Everybody is first as often as the others.
        for place in 0..CLOCKS.len() {
            let clock = (place + round) % CLOCKS.len();
            rounds[clock].push(cost_ns(clock));
        }
    }
    println!(
        "{:34} {:>7} {:>20} {:>20} {:>20}",
        "", "ns", "/ rdtsc", "/ MONOTONIC", "/ MONOTONIC_RAW"
    );
    for (costs, name) in rounds.iter().zip(CLOCKS) {
        let over = [0, 5, 6].map(|other| quartiles(ratios(costs, &rounds[other])));
        let over = over.map(|[low, median, high]| format!("{median:.2} [{low:.2}–{high:.2}]"));
        let [_, ns, _] = quartiles(costs.clone());
        println!(
            "{name:34} {ns:7.1} {:>20} {:>20} {:>20}",
            over[0], over[1], over[2]
        );
    }
}

/// Monomorphic, so that a clock is inlined as it would be in a program.
fn cost_ns(clock: usize) -> f64 {
    match clock {
        0 => time(counter),
        1 => time(counter_ordered),
        2 => {
            let clock = Clock::get();
            time(|| clock.now())
        }
        3 => {
            let clock = Clock::get();
            time(|| clock.ordered())
        }
        4 => {
            let clock = Clock::get();
            time(|| clock.stamp().ns)
        }
        5 => time(|| kernel(libc::CLOCK_MONOTONIC)),
        6 => time(Raw::ns),
        _ => time(by_system_call),
    }
}

#[inline]
fn time(read: impl Fn() -> u64) -> f64 {
    let start = Instant::now();
    for _ in 0..READS {
        black_box(read());
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(READS)
}

fn ratios(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    ours.iter()
        .zip(theirs)
        .map(|(ours, theirs)| ours / theirs)
        .collect()
}

fn quartiles(mut numbers: Vec<f64>) -> [f64; 3] {
    numbers.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| numbers[numbers.len() * quarter / 4])
}

#[inline]
fn kernel(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid timespec.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

fn by_system_call() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid timespec.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_nsec.cast_unsigned()
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: rdtsc may be executed here, or the clock would have said so.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter_ordered() -> u64 {
    let mut aux = 0;
    // SAFETY: as above.
    unsafe { core::arch::x86_64::__rdtscp(&raw mut aux) }
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    Raw::ns()
}

#[cfg(not(target_arch = "x86_64"))]
fn counter_ordered() -> u64 {
    Raw::ns()
}
