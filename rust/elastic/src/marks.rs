//! A set of small numbers whose least and greatest are found in a few steps.

const BITS: usize = u64::BITS as usize;

/// Each level's bits say which words of the one before are not 0; the last has one word.
#[derive(Clone, Debug)]
pub struct Marks {
    levels: Vec<Vec<u64>>,
}

impl Marks {
    /// Of numbers below `limit`.
    pub fn new(limit: usize) -> Self {
        let mut words = limit.div_ceil(BITS).max(1);
        let mut levels = vec![vec![0; words]];
        while words > 1 {
            words = words.div_ceil(BITS);
            levels.push(vec![0; words]);
        }
        Self { levels }
    }

    /// Whether a number is in the set from now on. All levels are written, needed or not: that is as
    /// quick as to guess where to stop.
    #[inline]
    pub fn put(&mut self, mut number: usize, mut there: bool) {
        for level in &mut self.levels {
            let word = &mut level[number / BITS];
            let bit = number % BITS;
            *word = *word & !(1 << bit) | u64::from(there) << bit;
            there = *word != 0;
            number /= BITS;
        }
    }

    /// The greatest.
    #[inline]
    pub fn last(&self) -> Option<usize> {
        self.descend(|word| BITS - 1 - word.leading_zeros() as usize)
    }

    /// The least.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        self.descend(|word| word.trailing_zeros() as usize)
    }

    #[inline]
    fn descend(&self, pick: impl Fn(u64) -> usize) -> Option<usize> {
        let mut number = 0;
        for level in self.levels.iter().rev() {
            let word = level[number];
            if word == 0 {
                return None;
            }
            number = number * BITS + pick(word);
        }
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_least_and_the_greatest_are_those_of_a_sorted_set(
            limit in 1_usize..300_000,
            changes in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..80),
        ) {
            let (mut marks, mut set) = (Marks::new(limit), BTreeSet::new());
            for (add, index) in changes {
                let number = index.index(limit);
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
