//! Where data is cut: coarsely into fragments, then finely into chunks, by content in both cases.

use clap::ValueEnum;
use serde::Serialize;

use crate::rabin;

/// Fewest bytes in a fragment, but for the last.
pub const FRAGMENT: usize = 2 << 20;
/// Most bytes in a fragment, and so in a chunk: it is cut here when no anchor was found before.
pub const LONGEST: usize = 4 << 20;

/// How a fragment is cut into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Chunking {
    /// Rabin's fingerprint, as PARSEC's dedup: see [`rabin`].
    Rabin,
    /// `FastCDC` of 2020: a gear hash, not Rabin's, with the same minimum and nearly the same mean.
    Fastcdc,
}

/// `FastCDC`'s average and maximum. Its mean chunk is a little longer than the average asked for, as
/// Rabin's is: minimum + 4 KiB.
const FASTCDC_AVERAGE: u32 = 4096;
const FASTCDC_LONGEST: u32 = 65_536;

impl Chunking {
    /// The ends of the chunks of a fragment, in order; the last is its length.
    #[must_use]
    pub fn ends(self, fragment: &[u8]) -> Vec<usize> {
        match self {
            Self::Rabin => rabin_ends(fragment),
            Self::Fastcdc => fastcdc_ends(fragment),
        }
    }
}

/// Where the first fragment of this data ends; None when more data is needed to tell.
///
/// It is the first anchor at or after 2 MiB, with either chunking, as in PARSEC; at 4 MiB at the latest.
#[must_use]
pub fn fragment_end(data: &[u8]) -> Option<usize> {
    let within = &data[..data.len().min(LONGEST)];
    match rabin::anchor(within, FRAGMENT) {
        Some(end) => Some(end),
        None if data.len() >= LONGEST => Some(LONGEST),
        None => None,
    }
}

fn rabin_ends(fragment: &[u8]) -> Vec<usize> {
    let mut ends = Vec::with_capacity(fragment.len() / 4096);
    let mut start = 0;
    for anchor in rabin::anchors(fragment) {
        if anchor - start >= rabin::MINIMUM {
            ends.push(anchor);
            start = anchor;
        }
    }
    if start < fragment.len() {
        ends.push(fragment.len());
    }
    ends
}

fn fastcdc_ends(fragment: &[u8]) -> Vec<usize> {
    let minimum = u32::try_from(rabin::MINIMUM).unwrap_or(u32::MAX);
    fastcdc::v2020::FastCDC::new(fragment, minimum, FASTCDC_AVERAGE, FASTCDC_LONGEST)
        .map(|chunk| chunk.offset + chunk.length)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn noise(length: usize, seed: u64) -> Vec<u8> {
        let mut draw = crate::draw::Draw::new(seed);
        (0..length).map(|_| draw.byte()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn chunks_cover_the_fragment_within_their_bounds(
            length in 0usize..100_000, seed: u64, fine in any::<bool>(),
        ) {
            let chunking = if fine { Chunking::Rabin } else { Chunking::Fastcdc };
            let data = noise(length, seed);
            let ends = chunking.ends(&data);
            prop_assert_eq!(ends.last().copied().unwrap_or(0), length);
            let starts = std::iter::once(0).chain(ends.iter().copied());
            let lengths: Vec<usize> = starts.zip(&ends).map(|(start, end)| end - start).collect();
            prop_assert!(lengths.iter().all(|&length| length > 0));
            prop_assert!(lengths.iter().rev().skip(1).all(|&length| length >= rabin::MINIMUM));
        }

        #[test]
        fn cuts_come_back_after_an_insertion(seed: u64, at in 0usize..1000, fine in any::<bool>()) {
            let chunking = if fine { Chunking::Rabin } else { Chunking::Fastcdc };
            let data = noise(100_000, seed);
            let mut longer = data.clone();
            longer.insert(at, 7);
            let (old, new) = (chunking.ends(&data), chunking.ends(&longer));
            let moved = old.iter().filter(|&&end| new.contains(&(end + 1))).count();
            prop_assert!(moved + 8 >= old.len(), "{moved} of {} came back", old.len());
        }
    }

    #[test]
    fn a_fragment_ends_at_an_anchor_or_at_the_limit() {
        let data = noise(LONGEST, 3);
        let end = fragment_end(&data).expect("there is an anchor in 2 MiB of noise");
        assert!((FRAGMENT..LONGEST).contains(&end));
        assert_eq!(rabin::anchor(&data, FRAGMENT), Some(end));
        assert_eq!(fragment_end(&data[..FRAGMENT - 1]), None);
        // A window of 0xff has a fingerprint that never matches: no anchor anywhere.
        let dull = vec![0xff; LONGEST + 10];
        assert_eq!(rabin::anchors(&dull[..100]), Vec::<usize>::new());
        assert_eq!(fragment_end(&dull), Some(LONGEST));
        assert_eq!(fragment_end(&dull[..LONGEST - 1]), None);
    }
}
