//! Bytes as hexadecimal digits in JSON.

use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// Exactly `N` bytes as 2·`N` digits, for serde.
///
/// # Errors
/// These are no such digits.
pub fn bytes<'de, D: Deserializer<'de>, const N: usize>(from: D) -> Result<[u8; N], D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).ok_or_else(|| D::Error::custom(format!("{} hexadecimal digits are wanted", 2 * N)))
}

/// The same bytes as digits.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

/// The bytes of digits; none of anything else.
#[must_use]
pub fn parse<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |place: usize| char::from(pair[place]).to_digit(16);
        *byte = u8::try_from(digit(0)? << 4 | digit(1)?).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_and_nothing_else() {
        assert_eq!(parse("00fF10"), Some([0, 255, 16]));
        assert_eq!(text(&[0, 255, 16]), "00ff10");
        for wrong in ["", "00ff1", "00ff1g", "00ff100", "+0ff10", "00é10"] {
            assert_eq!(parse::<3>(wrong), None, "{wrong}");
        }
    }
}
