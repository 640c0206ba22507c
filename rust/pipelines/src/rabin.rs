//! Rabin's fingerprint of a rolling window, by table, with the parameters of PARSEC's dedup.
//!
//! The fingerprint of a window is its bits as a polynomial over GF(2), modulo an irreducible one of
//! degree 32 (Rabin 1981, "Fingerprinting by random polynomials", TR-15-81, Harvard; tables after
//! Broder 1993, "Some applications of Rabin's fingerprinting method"). Window, mask and polynomial are
//! those of PARSEC 3.0, pkgs/kernels/dedup/src/rabin.{h,c}. It declares a minimum of 1 KiB there
//! (`MinSegment`) and prints it; we apply it.

/// Bytes in the rolling window.
pub const WINDOW: usize = 32;
/// A window ends a chunk when these bits of its fingerprint are all 0: once in 4 096 bytes by chance.
pub const MASK: u32 = 0xfff;
/// Fewest bytes in a chunk, but for the last of a fragment.
pub const MINIMUM: usize = 1024;
/// The polynomial below its leading x³².
pub const POLYNOMIAL: u32 = 0x45c2_b6a1;

/// Positions that are looked at in turn, so that one step need not wait for the one before.
const LANES: usize = 8;

const fn times_x(value: u32, times: usize) -> u32 {
    let (mut value, mut i) = (value, 0);
    while i < times {
        let carry = value >> 31;
        value <<= 1;
        if carry == 1 {
            value ^= POLYNOMIAL;
        }
        i += 1;
    }
    value
}

/// For each byte b: b · x^bits modulo the polynomial.
const fn table(bits: usize) -> [u32; 256] {
    let (mut table, mut byte) = ([0; 256], 0);
    while byte < 256 {
        #[allow(clippy::cast_possible_truncation)] // Below 256.
        let value = byte as u32;
        table[byte] = times_x(value, bits);
        byte += 1;
    }
    table
}

/// What the byte that is shifted out at the top comes back as.
static TOP: [u32; 256] = table(32);
/// What a byte that leaves the window is worth after the next shift.
static LEAVING: [u32; 256] = table(8 * WINDOW);

#[inline]
fn shifted(hash: u32, byte: u8) -> u32 {
    TOP[(hash >> 24) as usize] ^ (hash << 8) ^ u32::from(byte)
}

#[inline]
fn rolled(hash: u32, leaving: u8, entering: u8) -> u32 {
    // Only the first term waits for the hash.
    TOP[(hash >> 24) as usize]
        ^ ((hash << 8) ^ (u32::from(entering) ^ LEAVING[usize::from(leaving)]))
}

fn fingerprint(window: &[u8]) -> u32 {
    window.iter().fold(0, |hash, &byte| shifted(hash, byte))
}

/// The first position at or after `from` that a window with a matching fingerprint ends at; None when
/// there is none in the data. A position is that of the byte behind.
#[must_use]
pub fn anchor(data: &[u8], from: usize) -> Option<usize> {
    let first = from.max(WINDOW);
    if data.len() < first {
        return None;
    }
    let mut hash = fingerprint(&data[first - WINDOW..first]);
    if hash & MASK == 0 {
        return Some(first);
    }
    for (i, pair) in data[first - WINDOW..].windows(WINDOW + 1).enumerate() {
        hash = rolled(hash, pair[0], pair[WINDOW]);
        if hash & MASK == 0 {
            return Some(first + i + 1);
        }
    }
    None
}

/// All such positions, in order.
#[must_use]
pub fn anchors(data: &[u8]) -> Vec<usize> {
    let Some(positions) = data.len().checked_sub(WINDOW) else {
        return Vec::new();
    };
    // Position `WINDOW + i` for i in 0..=positions; each lane has `share` of them, the rest follow.
    let share = (positions + 1) / LANES;
    let mut boundaries: [Vec<usize>; LANES] = Default::default();
    if share > 0 {
        lanes(data, share, &mut boundaries);
    }
    let mut all = boundaries.concat();
    let mut next = share * LANES + WINDOW;
    while let Some(position) = anchor(data, next) {
        all.push(position);
        next = position + 1;
    }
    all
}

fn lanes(data: &[u8], share: usize, boundaries: &mut [Vec<usize>; LANES]) {
    let part = |lane: usize| &data[lane * share..lane * share + share + WINDOW - 1];
    let parts: [&[u8]; LANES] = std::array::from_fn(part);
    let leaving: [&[u8]; LANES] = parts.map(|part| &part[..share - 1]);
    let entering: [&[u8]; LANES] = parts.map(|part| &part[WINDOW..][..share - 1]);
    let mut hashes = parts.map(|part| fingerprint(&part[..WINDOW]));
    let mut keep = |hashes: &[u32; LANES], step: usize| {
        for (lane, hash) in hashes.iter().enumerate() {
            if hash & MASK == 0 {
                boundaries[lane].push(lane * share + step + WINDOW);
            }
        }
    };
    keep(&hashes, 0);
    for i in 0..share - 1 {
        let mut any = false;
        for lane in 0..LANES {
            hashes[lane] = rolled(hashes[lane], leaving[lane][i], entering[lane][i]);
            any |= hashes[lane] & MASK == 0;
        }
        if any {
            keep(&hashes, i + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Straight from the definition: bit by bit, each window anew.
    fn by_division(window: &[u8]) -> u32 {
        window.iter().fold(0u32, |mut hash, byte| {
            for bit in (0..8).rev() {
                let carry = hash >> 31;
                hash = (hash << 1) | u32::from(byte >> bit & 1);
                if carry == 1 {
                    hash ^= POLYNOMIAL;
                }
            }
            hash
        })
    }

    fn by_definition(data: &[u8]) -> Vec<usize> {
        (WINDOW..=data.len())
            .filter(|&end| by_division(&data[end - WINDOW..end]) & MASK == 0)
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn anchors_are_where_the_definition_has_them(
            data in proptest::collection::vec(any::<u8>(), 0..6000),
            from in 0usize..6000,
        ) {
            let expected = by_definition(&data);
            prop_assert_eq!(&anchors(&data), &expected);
            prop_assert_eq!(anchor(&data, from), expected.into_iter().find(|&end| end >= from));
        }
    }

    #[test]
    fn short_and_uniform_data() {
        for length in 0..200 {
            let zeros = vec![0; length];
            assert_eq!(anchors(&zeros), (WINDOW..=length).collect::<Vec<_>>());
            let ones = vec![0xff; length];
            assert_eq!(anchors(&ones), by_definition(&ones));
        }
    }
}
