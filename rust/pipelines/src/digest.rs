//! SHA-256 in hexadecimal, as the results have it.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use ullage_common::hex::text;

/// The digest of bytes in memory.
#[must_use]
pub fn of_bytes(bytes: &[u8]) -> String {
    text(&Sha256::digest(bytes))
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
            return Ok((length, text(&hasher.finalize())));
        }
        length += count as u64;
        hasher.update(&buffer[..count]);
    }
}

/// Writes the pieces to a file that is on the disk when this returns. Their digest.
///
/// # Errors
/// When it cannot be written, or a piece cannot be had.
pub fn store(path: &Path, pieces: impl Iterator<Item = Result<Vec<u8>>>) -> Result<String> {
    let problem = || format!("cannot write {}", path.display());
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).with_context(problem)?);
    let mut hasher = Sha256::new();
    for piece in pieces {
        let piece = piece?;
        hasher.update(&piece);
        file.write_all(&piece).with_context(problem)?;
    }
    let file = file.into_inner().with_context(problem)?;
    file.sync_all().with_context(problem)?;
    Ok(text(&hasher.finalize()))
}

/// Does this CPU show the instructions for SHA-256?
#[must_use]
pub fn sha_extensions() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("sha");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}
