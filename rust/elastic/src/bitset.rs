//! A set of small numbers whose least and greatest are found in a few steps.

const BITS: usize = u64::BITS as usize;

/// Each bit of a level says that a word of the level below it is not 0.
#[derive(Clone, Debug)]
pub struct BitSet {
    /// The numbers themselves.
    words: Vec<u64>,
    /// The levels between, the finest first; none up to 4096 numbers.
    between: Vec<Vec<u64>>,
    top: u64,
}

impl BitSet {
    /// Of numbers below `limit`.
    pub fn new(limit: usize) -> Self {
        let words = vec![0; limit.div_ceil(BITS).max(1)];
        let mut between = Vec::new();
        let mut wide = words.len();
        while wide > BITS {
            wide = wide.div_ceil(BITS);
            between.push(vec![0; wide]);
        }
        Self {
            words,
            between,
            top: 0,
        }
    }

    /// Whether a number is in the set from now on.
    #[inline]
    pub fn put(&mut self, number: usize, present: bool) {
        let place = number / BITS;
        let word = &mut self.words[place];
        let empty = *word == 0;
        set(word, number % BITS, present);
        // Of a few words of 64 numbers, one seldom becomes empty, or is so no longer.
        if empty != (*word == 0) {
            self.raise(place, empty);
        }
    }

    /// A word is not empty from now on, or is.
    #[inline(never)]
    fn raise(&mut self, mut place: usize, mut present: bool) {
        for level in &mut self.between {
            let word = &mut level[place / BITS];
            set(word, place % BITS, present);
            present = *word != 0;
            place /= BITS;
        }
        set(&mut self.top, place, present);
    }

    #[inline]
    pub fn last(&self) -> Option<usize> {
        self.descend(|word| BITS - 1 - word.leading_zeros() as usize)
    }

    #[inline]
    pub fn first(&self) -> Option<usize> {
        self.descend(|word| word.trailing_zeros() as usize)
    }

    #[inline]
    fn descend(&self, pick: impl Fn(u64) -> usize) -> Option<usize> {
        if self.top == 0 {
            return None;
        }
        let mut place = pick(self.top);
        for level in self.between.iter().rev() {
            place = place * BITS + pick(level[place]);
        }
        Some(place * BITS + pick(self.words[place]))
    }
}

#[inline]
fn set(word: &mut u64, bit: usize, present: bool) {
    *word = *word & !(1 << bit) | u64::from(present) << bit;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Few levels and many, and where one more begins.
    fn limits() -> impl Strategy<Value = usize> {
        let ends = prop::sample::select(vec![1, 64, 65, 4_096, 4_097, 262_144, 262_145]);
        prop_oneof![1..200_usize, 1..5_000_usize, 1..300_000_usize, ends]
    }

    proptest! {
        /// Of a few numbers, so that they come and go, and their words fill and empty.
        #[test]
        fn the_least_and_the_greatest_are_those_of_a_sorted_set(
            limit in limits(),
            few in prop::collection::vec(any::<prop::sample::Index>(), 1..8),
            changes in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..80),
        ) {
            let (mut marks, mut set) = (BitSet::new(limit), BTreeSet::new());
            let few: Vec<_> = few.iter().map(|it| it.index(limit)).chain([limit - 1]).collect();
            for (add, index) in changes {
                let number = *index.get(&few);
                marks.put(number, add);
                if add {
                    set.insert(number);
                } else {
                    set.remove(&number);
                }
                prop_assert_eq!(marks.first(), set.first().copied());
                prop_assert_eq!(marks.last(), set.last().copied());
            }
        }
    }
}
