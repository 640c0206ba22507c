//! What is known of a file, as JSON beside it: the same name, with `.json` behind.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".json");
    name.into()
}

/// Writes the manifest of a file.
///
/// # Errors
/// When it cannot be written.
pub fn store(path: &Path, manifest: &impl Serialize) -> Result<()> {
    write(&beside(path), manifest)
}

/// Reads the manifest of a file.
///
/// # Errors
/// When it is missing or is none.
pub fn load<T: DeserializeOwned>(path: &Path) -> Result<T> {
    read(&beside(path), "manifest")
}

/// Writes JSON.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, value: &impl Serialize) -> Result<()> {
    std::fs::write(path, serde_json::to_string(value)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Reads JSON of a kind that messages call `kind`.
///
/// # Errors
/// When it is missing or is of no such kind.
pub fn read<T: DeserializeOwned>(path: &Path, kind: &str) -> Result<T> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("there is no {kind} {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no {kind}", path.display()))
}
