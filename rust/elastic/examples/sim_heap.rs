//! A bare binary heap, for comparison: `sim_heap PENDING SESSIONS` does only the pushes and pops of a
//! simulation with so many viewers on the average, and prints how long that took on the CPU.
//!
//! Viewers come as a Poisson process and stay for an exponential time: both are drawn beforehand, and
//! nothing is decided or counted. Only ends are in the heap; the next arrival is a number.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "lengths of time, drawn"
)]

mod cpu;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cpu::cpu_s;
use rand::{Rng, SeedableRng};
use rand_distr::Exp1;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Prime, so that the two rows are never in step.
const GAPS: usize = 65_521;
const STAYS: usize = 65_519;

fn main() {
    let argument = |n| {
        let text = std::env::args().nth(n).expect("PENDING SESSIONS");
        text.parse::<u64>().expect("a whole number")
    };
    let (pending, sessions) = (argument(1), argument(2));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut drawn = |count: usize, mean: u64| -> Vec<u64> {
        let draw = |_| random.sample::<f64, _>(Exp1) * mean as f64;
        (0..count).map(draw).map(|value| value as u64).collect()
    };
    let gaps = drawn(GAPS, 1_000_000);
    let stays = drawn(STAYS, pending * 1_000_000);
    let mut heap = BinaryHeap::new();
    let mut at = 0;
    let mut pass = |count: u64| {
        let rows = gaps.iter().cycle().zip(stays.iter().cycle());
        for ((gap, stay), number) in rows.zip(0..count) {
            at += gap;
            while heap.peek().is_some_and(|Reverse((end, _))| *end <= at) {
                heap.pop();
            }
            heap.push(Reverse((at + stay, number)));
        }
        heap.len()
    };
    // Until it is as full as it gets.
    pass(5 * pending);
    let begin = cpu_s();
    let left = pass(sessions);
    println!("{{\"cpu_s\": {}, \"left\": {left}}}", cpu_s() - begin);
}
