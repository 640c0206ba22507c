//! One time for processes of one kernel: who has a clock offers its line, the others go over to it.

use std::fs;

use serde::{Deserialize, Serialize};
use ullage_clock::{Clock, LINE_LENGTH, Line};

use crate::hex;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The boot of this kernel. None where `/proc` does not tell; on Windows that would be a path of some
/// drive.
#[must_use]
pub fn boot_id() -> Option<String> {
    if cfg!(windows) {
        return None;
    }
    let text = fs::read_to_string(BOOT_ID).ok()?;
    Some(text.trim().into())
}

/// Goes over to the line of a clock on that boot. Looks at the machine first, which takes about 25 ms.
/// True if the other's time is ours now: it is on the same kernel, and reads the same counter.
#[must_use]
pub fn adopt(boot: &str, line: &Line) -> bool {
    let clock = Clock::get();
    boot_id().unwrap_or_default() == boot && clock.adopt(line).is_ok()
}

/// A process's clock, as it offers it: see [`Clock::adopt`].
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SharedClock {
    /// Names the boot of the kernel that it is on.
    pub boot_id: String,
    /// Its line, in hexadecimal digits.
    pub line: String,
}

impl SharedClock {
    /// This process's, on that boot.
    #[must_use]
    pub fn own(boot_id: String) -> Self {
        let line = hex::text(&Clock::get().line().encode());
        Self { boot_id, line }
    }

    /// [`adopt`]s it; false, too, where it is no line.
    #[must_use]
    pub fn adopt(&self) -> bool {
        let bytes = hex::parse::<LINE_LENGTH>(&self.line);
        let line = bytes.and_then(|bytes| Line::parse(&bytes).ok());
        line.is_some_and(|line| adopt(&self.boot_id, &line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shared_on_one_kernel_only() {
        let boot = boot_id().expect("a boot id");
        let offer = |boot_id: &str, line: &[u8]| SharedClock {
            boot_id: boot_id.into(),
            line: hex::text(line),
        };
        let line = Clock::get().line().encode();
        assert!(SharedClock::own(boot.clone()).adopt());
        assert!(offer(&boot, &line).adopt());
        assert!(!offer("another boot", &line).adopt());
        assert!(!offer("", &line).adopt());
        assert!(!offer(&boot, &line[1..]).adopt());
        assert!(!offer(&boot, &[0; LINE_LENGTH]).adopt());
    }
}
