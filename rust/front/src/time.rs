//! The front's time: that of the controller, where both are on one kernel (`ullage-clock`).

use serde::Deserialize;
use ullage_clock::{Clock, LINE_LENGTH, Line};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Another process's clock, as it offers it: see [`Clock::adopt`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// Names the boot of the kernel that it is on.
    pub boot_id: String,
    /// Its line, in hexadecimal digits.
    pub line: String,
}

/// Goes over to the offered line. Looks at the machine first, which takes about 25 ms. True if the
/// other's time is ours now; without an offer, or on another kernel, it is not.
pub fn share(offer: Option<&Offer>) -> bool {
    let clock = Clock::get();
    let Some(offer) = offer else {
        return false;
    };
    let here = std::fs::read_to_string(BOOT_ID).unwrap_or_default();
    let line = parse(&offer.line).and_then(|bytes| Line::parse(&bytes).ok());
    here.trim() == offer.boot_id && line.is_some_and(|line| clock.adopt(&line).is_ok())
}

/// Nanoseconds, increasing. For one thread.
pub fn now_ns() -> u64 {
    Clock::get().now()
}

fn parse(digits: &str) -> Option<[u8; LINE_LENGTH]> {
    let digits = digits.as_bytes();
    if digits.len() != 2 * LINE_LENGTH {
        return None;
    }
    let mut bytes = [0; LINE_LENGTH];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |place: usize| char::from(pair[place]).to_digit(16);
        *byte = u8::try_from(digit(0)? << 4 | digit(1)?).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    fn offer(boot_id: &str, line: &[u8]) -> Offer {
        let line = line.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        let boot_id = boot_id.into();
        Offer { boot_id, line }
    }

    #[test]
    fn a_line_is_shared_on_one_kernel_only() {
        let boot_id = std::fs::read_to_string(BOOT_ID).unwrap();
        let line = Clock::get().line().encode();
        assert!(share(Some(&offer(boot_id.trim(), &line))));
        assert!(!share(Some(&offer("another boot", &line))));
        assert!(!share(Some(&offer(boot_id.trim(), &line[1..]))));
        assert!(!share(Some(&offer(boot_id.trim(), &[0; LINE_LENGTH]))));
        assert!(!share(None));
        assert!(parse(&"+1".repeat(LINE_LENGTH)).is_none());
        let first = now_ns();
        assert!(now_ns() > first);
    }
}
