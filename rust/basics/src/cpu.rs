//! The primes below a limit, by division: sysbench's `cpu_execute_event` (`tests/cpu/sb_cpu.c`).

use crate::events::{self, Done, Limit, Worker};

struct Primes(u64);

impl Worker for Primes {
    type Request = ();

    fn request(&mut self) {}

    fn event(&mut self, (): ()) -> u64 {
        primes(self.0)
    }
}

pub fn run(prime: u64, threads: u32, limit: Limit) -> Done {
    events::run(threads, limit, |_| Primes(prime))
}

/// How many there are from 3 on, below the limit. The root is a double there, and so here. That an even
/// number is none needs no division: compilers of C see that, and Rust's does not.
#[inline(never)]
fn primes(limit: u64) -> u64 {
    let mut count = 0;
    for candidate in 3..limit {
        let root = double(candidate).sqrt();
        if root < 2.0 {
            count += 1;
            continue;
        }
        if candidate & 1 == 0 {
            continue;
        }
        let mut divisor = 3_u64;
        while double(divisor) <= root && rest(candidate, divisor) != 0 {
            divisor += 1;
        }
        if double(divisor) > root {
            count += 1;
        }
    }
    count
}

/// As compilers of C have it: a look at the sign, and then one instruction.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    reason = "a number below 2^63 is the same with a sign"
)]
fn double(number: u64) -> f64 {
    if number as i64 >= 0 {
        number as i64 as f64
    } else {
        (number >> 1 | number & 1) as i64 as f64 * 2.0
    }
}

/// By the division of 64 bits that sysbench has: left alone, Rust's compiler takes one of 32 bits
/// where the numbers are small, after a look at them.
#[cfg(target_arch = "x86_64")]
fn rest(number: u64, divisor: u64) -> u64 {
    let rest;
    // SAFETY: the divisor is no zero, and the quotient fits, as the upper half is zero.
    unsafe {
        std::arch::asm!(
            "div {divisor}",
            divisor = in(reg) divisor,
            inout("rax") number => _,
            inout("rdx") 0_u64 => rest,
            options(pure, nomem, nostack),
        );
    }
    rest
}

#[cfg(not(target_arch = "x86_64"))]
fn rest(number: u64, divisor: u64) -> u64 {
    number % divisor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_counted() {
        assert_eq!(primes(3), 0);
        assert_eq!(primes(5), 1);
        assert_eq!(primes(30), 9);
        assert_eq!(primes(10_000), 1228);
        assert_eq!(double(u64::MAX).to_bits(), 2_f64.powi(64).to_bits());
    }
}
