//! The primes below a limit, by division: sysbench's `cpu_execute_event` (`tests/cpu/sb_cpu.c`).

use std::hint::black_box;

use crate::events::{self, Done, Limit};

pub fn run(prime: u64, threads: u32, limit: Limit) -> Done {
    events::run(threads, limit, |_| move || primes(black_box(prime)))
}

/// How many there are from 3 on, below the limit. The root is a double there, and so here.
#[expect(clippy::cast_precision_loss, reason = "as sysbench has it")]
fn primes(limit: u64) -> u64 {
    let mut count = 0;
    for candidate in 3..limit {
        let root = (candidate as f64).sqrt();
        let mut divisor = 2_u64;
        while divisor as f64 <= root && !candidate.is_multiple_of(divisor) {
            divisor += 1;
        }
        if divisor as f64 > root {
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_counted() {
        assert_eq!(primes(3), 0);
        assert_eq!(primes(30), 9);
        assert_eq!(primes(10_000), 1228);
    }
}
