//! A block of memory, written or read in order, a word at a time: sysbench's `event_seq_write` and
//! `event_seq_read` (`tests/memory/sb_memory.c`), each thread in a block of its own.

use std::ptr;

use ullage_common::Failure;

use crate::events::{self, Done, Limit};

/// A gibibyte: more is no block.
const MOST: usize = 1 << 30;

pub fn run(block: usize, read: bool, threads: u32, limit: Limit) -> Result<Done, Failure> {
    if block < size_of::<usize>() || block > MOST || !block.is_multiple_of(size_of::<usize>()) {
        let message = format!("--block: {block} is no number of whole words up to {MOST}");
        return Err(Failure::input(message));
    }
    Ok(events::run(threads, limit, |_| {
        let mut words = vec![0_usize; block / size_of::<usize>()];
        move || {
            if read {
                load(&words);
            } else {
                store(&mut words);
            }
            block as u64
        }
    }))
}

/// A compiler that sees no use of it must not leave it out: neither may sysbench's.
fn store(words: &mut [usize]) {
    for word in words {
        let value = ptr::from_mut(word).addr();
        // SAFETY: a word of ours.
        unsafe { ptr::write_volatile(word, value) };
    }
}

fn load(words: &[usize]) {
    for word in words {
        // SAFETY: a word of ours.
        unsafe { ptr::read_volatile(word) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_and_words_written() {
        let done = run(64, false, 2, Limit::events(10)).expect("a block");
        assert_eq!(done.result, 640);
        let mut words = vec![0; 4];
        store(&mut words);
        assert!(words.iter().all(|word| *word != 0));
        load(&words);
        assert!(run(7, false, 1, Limit::events(1)).is_err());
        assert!(run(0, true, 1, Limit::events(1)).is_err());
    }
}
