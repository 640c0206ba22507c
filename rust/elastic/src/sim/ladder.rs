//! A priority queue for times that never go back: a ladder queue (Tang, Goh and Thng, 2005).
//!
//! What is far away lies unsorted in `top`; what comes nearer is dealt into the buckets of a rung, a
//! bucket that is too full into a finer rung, and only the bucket that is next is sorted, into
//! `bottom`. Each entry is moved a few times, whatever the number of others, and the buckets are as
//! wide as the entries are dense: the cost of one hardly grows with how many are pending.

/// Sorted by time, then by event: one number, so that comparing two is one comparison.
pub(crate) type Entry = u128;

/// An entry's time, in nanoseconds, and what happens then.
#[expect(clippy::cast_possible_truncation, reason = "the two halves")]
pub(crate) fn parts(entry: Entry) -> (u64, u64) {
    (time(entry), entry as u64)
}

/// What happens at a time. Of the same time, the lower `event` is first.
pub(crate) fn entry(at: u64, event: u64) -> Entry {
    u128::from(at) << 64 | u128::from(event)
}

fn time(entry: Entry) -> u64 {
    (entry >> 64) as u64
}

/// How many are sorted at once, at most: more are dealt into a finer rung first.
const SORTED: usize = 64;
/// Entries to a bucket, on average, when a rung is made. In a small rung few: its buckets are in the
/// nearest cache all the same, and what comes later seldom has to be dealt again.
const IN_A_BUCKET: usize = 16;
// Else a rung could be dealt into one of its own size, for ever.
const _: () = assert!(SORTED >= 4 * IN_A_BUCKET);
const IN_A_SMALL_BUCKET: usize = 1;
/// Entries of a small rung.
const SMALL: usize = 4096;

/// Buckets of equal width, a power of two.
#[derive(Default)]
struct Rung {
    start: u64,
    /// The width's logarithm.
    shift: u32,
    /// The first bucket that has not been taken.
    next: usize,
    /// Buckets of this rung; `buckets` may be longer, to keep the memory of earlier ones.
    count: usize,
    buckets: Vec<Vec<Entry>>,
}

impl Rung {
    /// Where the buckets that were not taken begin.
    fn floor(&self) -> u64 {
        self.start.saturating_add((self.next as u64) << self.shift)
    }

    /// Lays it over `span` from `start`, for `entries`.
    fn lay(&mut self, start: u64, span: u64, entries: usize) {
        let per_bucket = if entries < SMALL {
            IN_A_SMALL_BUCKET
        } else {
            IN_A_BUCKET
        };
        let buckets = (entries / per_bucket).next_power_of_two().max(2);
        let width = span / buckets as u64 + 1;
        self.shift = width.next_power_of_two().trailing_zeros();
        self.start = start;
        self.next = 0;
        self.count = self.bucket(start.saturating_add(span)) + 1;
        if self.buckets.len() < self.count {
            self.buckets.resize_with(self.count, Vec::new);
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "at most `count`")]
    fn bucket(&self, at: u64) -> usize {
        ((at - self.start) >> self.shift) as usize
    }

    fn put(&mut self, entry: Entry) {
        let bucket = self.bucket(time(entry));
        self.buckets[bucket].push(entry);
    }

    /// The next bucket that is not empty, as its number.
    fn advance(&mut self) -> Option<usize> {
        let next = (self.next..self.count).find(|bucket| !self.buckets[*bucket].is_empty());
        self.next = next.map_or(self.count, |bucket| bucket + 1);
        next
    }
}

#[derive(Default)]
pub(crate) struct Ladder {
    /// The last one is next.
    bottom: Vec<Entry>,
    /// The finest is the last of those in use.
    rungs: Vec<Rung>,
    used: usize,
    top: Vec<Entry>,
    /// All of `top` is at or after this, all else before it.
    top_start: u64,
}

impl Ladder {
    /// Adds an entry whose time is not before that of what was taken last.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "for most of the ends of sessions")]
    pub(crate) fn push(&mut self, entry: Entry) {
        let at = time(entry);
        if at >= self.top_start {
            self.top.push(entry);
            return;
        }
        for rung in &mut self.rungs[..self.used] {
            if at >= rung.floor() {
                rung.put(entry);
                return;
            }
        }
        self.insert(entry);
    }

    /// Into `bottom`, where it belongs.
    #[inline(never)]
    fn insert(&mut self, entry: Entry) {
        let place = self.bottom.partition_point(|other| *other > entry);
        self.bottom.insert(place, entry);
        if self.bottom.len() > 2 * SORTED {
            self.thin_out();
        }
    }

    /// The first one, left where it is.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<Entry> {
        if self.bottom.is_empty() && (self.used > 0 || !self.top.is_empty()) {
            self.fill();
        }
        self.bottom.last().copied()
    }

    /// Takes what `peek` has just shown.
    #[inline]
    pub(crate) fn pop(&mut self) {
        self.bottom.pop();
    }

    /// The next entries into `bottom`, which is empty.
    #[inline(never)]
    fn fill(&mut self) {
        loop {
            let Some(last) = self.used.checked_sub(1) else {
                if self.top.is_empty() {
                    return;
                }
                self.cut_top();
                if self.bottom.is_empty() {
                    continue;
                }
                return;
            };
            let rung = &mut self.rungs[last];
            let Some(bucket) = rung.advance() else {
                self.used = last;
                continue;
            };
            let mut full = std::mem::take(&mut rung.buckets[bucket]);
            let end = rung.floor();
            self.deal(&mut full, end);
            // Its memory is kept for those who come into this bucket the next time.
            self.rungs[last].buckets[bucket] = full;
            if !self.bottom.is_empty() {
                return;
            }
        }
    }

    /// All of `top` is dealt; what comes later than all of it is the new top.
    fn cut_top(&mut self) {
        let mut all = std::mem::take(&mut self.top);
        let most = all.iter().max().map_or(0, |last| time(*last));
        self.top_start = most.saturating_add(1);
        self.deal(&mut all, self.top_start);
        if self.used > 0 {
            let rung = &self.rungs[0];
            let end = rung.start.saturating_add((rung.count as u64) << rung.shift);
            self.top_start = end;
        }
        self.top = all;
    }

    /// Too many have been put into `bottom` one by one: the rest of them get a rung of their own.
    fn thin_out(&mut self) {
        let finest = self.rungs[..self.used].last();
        let end = finest.map_or(self.top_start, Rung::floor);
        let mut crowded = std::mem::take(&mut self.bottom);
        self.deal(&mut crowded, end);
        if self.bottom.is_empty() {
            self.bottom = crowded;
        }
    }

    /// Few entries, or all of one time, into `bottom`, which is empty; more into a new rung that
    /// ends at `end` or after.
    fn deal(&mut self, entries: &mut Vec<Entry>, end: u64) {
        if entries.len() <= SORTED {
            return self.sort(entries);
        }
        let least = entries.iter().min().map_or(0, |first| time(*first));
        let most = entries.iter().max().map_or(0, |last| time(*last));
        if least == most {
            return self.sort(entries);
        }
        if self.rungs.len() == self.used {
            self.rungs.push(Rung::default());
        }
        let rung = &mut self.rungs[self.used];
        rung.lay(least, end.max(most) - least, entries.len());
        for entry in entries.drain(..) {
            rung.put(entry);
        }
        self.used += 1;
    }

    fn sort(&mut self, entries: &mut Vec<Entry>) {
        entries.sort_unstable_by(|a, b| b.cmp(a));
        std::mem::swap(&mut self.bottom, entries);
    }
}

#[cfg(test)]
#[path = "ladder_tests.rs"]
mod tests;
