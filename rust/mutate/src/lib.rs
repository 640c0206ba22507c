//! Changed inputs for the tests of parsers: what is right, with a few bytes that are not.
//!
//! `MUTATIONS` says how many (2,000 unless told), `MUTATION_SEED` which. An input that breaks its
//! parser is printed.

use std::env;
use std::thread;

const LONGEST: usize = 4096;
const WORDS: [&[u8]; 14] = [
    b"0",
    b"-1",
    b"18446744073709551616",
    b"9223372036854775808",
    b"1e999",
    b"NaN",
    b"null",
    b"[[[[[[[[",
    b"\"",
    b"\r\n",
    b"\r\n\r\n",
    b"\0",
    b"\xff\xff\xff\xff",
    b"\x80\0\0\0",
];

/// `SplitMix64`.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap_or(0)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}

/// Prints the input that is being read when a parser panics.
struct Witness<'a>(&'a [u8]);

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the input: b\"{}\"", self.0.escape_ascii());
        }
    }
}

/// Have them all read, and say how many they were.
///
/// # Panics
/// When a variable of the environment is no number, and as `read` does.
pub fn inputs(seeds: &[&[u8]], mut read: impl FnMut(&[u8])) {
    let number = |name, default| {
        env::var(name).map_or(default, |text| text.parse().expect("a whole number"))
    };
    let count = number("MUTATIONS", 2000);
    let mut chance = Chance(number("MUTATION_SEED", 1));
    for _ in 0..count {
        let input = changed(seeds, &mut chance);
        let witness = Witness(&input);
        read(witness.0);
    }
    println!("{count} changed inputs were read");
}

fn changed(seeds: &[&[u8]], chance: &mut Chance) -> Vec<u8> {
    let mut input = seeds[chance.below(seeds.len())].to_vec();
    for _ in 0..=chance.below(5) {
        change(&mut input, seeds, chance);
        input.truncate(LONGEST);
    }
    input
}

fn change(input: &mut Vec<u8>, seeds: &[&[u8]], chance: &mut Chance) {
    let start = chance.below(input.len() + 1);
    let end = (start + chance.below(8)).min(input.len());
    match chance.below(8) {
        0 => {
            input.drain(start..end);
        }
        1 => {
            let again = input[start..end].repeat(1 + chance.below(40));
            input.splice(start..start, again);
        }
        2 => {
            input.splice(start..end, WORDS[chance.below(WORDS.len())].iter().copied());
        }
        3 => {
            let other = seeds[chance.below(seeds.len())];
            let from = chance.below(other.len() + 1);
            input.splice(start.., other[from..].iter().copied());
        }
        4 => input.truncate(start),
        5 => input.insert(start, chance.byte()),
        _ => {
            if let Some(byte) = input.get_mut(start) {
                *byte = if chance.below(2) == 0 {
                    *byte ^ (1 << chance.below(8))
                } else {
                    chance.byte()
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Chance, changed, inputs};

    #[test]
    fn most_inputs_are_others() {
        let mut others = 0;
        inputs(&[b"right"], |input| {
            others += usize::from(input != b"right");
        });
        assert!(others > 1500, "{others}");
    }

    #[test]
    fn a_seed_makes_them_again() {
        let of = |seed| changed(&[b"one", b"two"], &mut Chance(seed));
        assert_eq!(of(7), of(7));
        assert!((0..9).any(|seed| of(seed) != of(9)));
    }
}
