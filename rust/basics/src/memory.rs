//! A block of memory, written or read in order, a word at a time: sysbench's `event_seq_write` and
//! `event_seq_read` (`tests/memory/sb_memory.c`). All threads have the same block, as there.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

use ullage_common::Failure;

use crate::events::{self, Done, Limit, Worker};

const WORD: usize = size_of::<AtomicUsize>();
/// A gibibyte: more is no block.
const MOST: usize = 1 << 30;
/// A block begins with a page.
const PAGE: usize = 4096;

struct Block<'a> {
    words: &'a [AtomicUsize],
    read: bool,
}

impl Worker for Block<'_> {
    type Request = ();

    fn request(&mut self) {}

    fn event(&mut self, (): ()) -> u64 {
        if self.read {
            load(self.words);
        } else {
            store(self.words);
        }
        size_of_val(self.words) as u64
    }
}

pub fn run(block: usize, read: bool, threads: u32, limit: Limit) -> Result<Done, Failure> {
    if !(WORD..=MOST).contains(&block) || !block.is_multiple_of(WORD) {
        let message = format!("--block: {block} is no number of whole words up to {MOST}");
        return Err(Failure::input(message));
    }
    let create = || AtomicUsize::new(0);
    let all: Vec<_> = std::iter::repeat_with(create)
        .take((block + PAGE) / WORD)
        .collect();
    let words = &all[all.as_ptr().align_offset(PAGE)..][..block / WORD];
    Ok(events::run(threads, limit.in_parts(), |_| Block {
        words,
        read,
    }))
}

/// What is written is how many words are left. A compiler must neither leave a store out nor make
/// two of them one: that is what atomic ones are for, as in sysbench.
#[inline(never)]
fn store(words: &[AtomicUsize]) {
    let mut left = words.len();
    for word in words {
        word.store(left, Ordering::Relaxed);
        left -= 1;
    }
}

#[inline(never)]
fn load(words: &[AtomicUsize]) {
    for word in words {
        black_box(word.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_and_words_written() {
        let done = run(64, false, 2, Limit::Events(10)).expect("a block");
        assert_eq!((done.events, done.result), (10, 640));
        let words: Vec<_> = (0..4).map(|_| AtomicUsize::new(0)).collect();
        store(&words);
        let written: Vec<_> = words
            .iter()
            .map(|word| word.load(Ordering::Relaxed))
            .collect();
        assert_eq!(written, [4, 3, 2, 1]);
        assert!(run(7, false, 1, Limit::Events(1)).is_err());
        assert!(run(0, true, 1, Limit::Events(1)).is_err());
    }
}
