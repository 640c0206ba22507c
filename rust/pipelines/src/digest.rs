//! SHA-256 in hexadecimal, as the results have it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// Of bytes in memory.
#[must_use]
pub fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Length and digest of a file.
///
/// # Errors
/// When it cannot be read.
pub fn of_file(path: &Path) -> Result<(u64, String)> {
    let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    of_reader(&mut file)
}

/// Length and digest of what is left to read.
///
/// # Errors
/// When it cannot be read.
pub fn of_reader(from: &mut impl Read) -> Result<(u64, String)> {
    let (mut buffer, mut hasher, mut length) = (vec![0; 1 << 18], Sha256::new(), 0);
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            return Ok((length, hex(&hasher.finalize())));
        }
        length += count as u64;
        hasher.update(&buffer[..count]);
    }
}

#[must_use]
pub fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        for half in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(half), 16).unwrap_or('?'));
        }
        text
    })
}

/// Does this CPU show the instructions for SHA-256?
#[must_use]
pub fn sha_extensions() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("sha");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}
