//! Work of a known number of instructions, in assembly, so that no optimiser folds it.

use std::arch::asm;

/// How many additions [`additions`] makes.
pub const ADDITIONS: u32 = 15;

/// What the additions are, for who reads the outcome.
#[cfg(target_arch = "x86_64")]
pub const WORK: &str = "add r64, r64: 15 in a chain, each needs the one before";
#[cfg(target_arch = "aarch64")]
pub const WORK: &str = "add x, x, x: 15 in a chain, each needs the one before";

/// Instructions in one turn of [`turns`]: eight additions, a decrement and a branch.
pub const PER_TURN: u64 = 10;

/// `sum` + 15 × `term`, by fifteen additions. Clobbers memory as far as the compiler knows, so that
/// reads of clocks stay before and after it.
#[expect(clippy::inline_always, reason = "a call would be measured too")]
#[inline(always)]
pub fn additions(sum: u64, term: u64) -> u64 {
    let mut sum = sum;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: touches two registers and the flags.
    unsafe {
        asm!(
            ".rept 15",
            "add {sum}, {term}",
            ".endr",
            sum = inout(reg) sum,
            term = in(reg) term,
            options(nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: touches two registers.
    unsafe {
        asm!(
            ".rept 15",
            "add {sum}, {sum}, {term}",
            ".endr",
            sum = inout(reg) sum,
            term = in(reg) term,
            options(nostack),
        );
    }
    sum
}

/// Runs [`PER_TURN`] × `count` instructions; `count` must not be 0. Returns 8 × `count`, counted by
/// the additions themselves.
#[expect(clippy::inline_always, reason = "a call would be measured too")]
#[inline(always)]
pub fn turns(count: u64) -> u64 {
    let mut sum: u64 = 0;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: touches three registers and the flags, and ends after `count` turns.
    unsafe {
        asm!(
            "2:",
            ".rept 8",
            "add {sum}, {one}",
            ".endr",
            "dec {left}",
            "jnz 2b",
            sum = inout(reg) sum,
            one = in(reg) 1_u64,
            left = inout(reg) count => _,
            options(nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        asm!(
            "2:",
            ".rept 8",
            "add {sum}, {sum}, {one}",
            ".endr",
            "subs {left}, {left}, #1",
            "b.ne 2b",
            sum = inout(reg) sum,
            one = in(reg) 1_u64,
            left = inout(reg) count => _,
            options(nostack),
        );
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_is_done() {
        assert_eq!(additions(3, 7), 3 + u64::from(ADDITIONS) * 7);
        assert_eq!(turns(1), 8);
        assert_eq!(turns(100_000), 800_000);
    }
}
