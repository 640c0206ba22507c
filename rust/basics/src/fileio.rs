//! Files: sysbench's `fileio` in its mode `sync` (`tests/fileio/sb_fileio.c`). Each event is a block;
//! after every hundredth, and at the end, what was written is flushed.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::{Args, ValueEnum};
use serde::Serialize;
use ullage_common::Failure;

use crate::events::{self, Done, Limit};
use crate::locks::Choice;

#[derive(Args, Clone, Debug, Serialize)]
pub struct Files {
    #[arg(long = "files", default_value_t = 16)]
    #[serde(rename = "files")]
    number: u32,
    /// Of all files together, in bytes.
    #[arg(long, default_value_t = 64 << 20)]
    total: u64,
    #[arg(long, default_value_t = 16 << 10)]
    block: usize,
    #[arg(long, value_enum, default_value_t = Mode::Rndrd)]
    mode: Mode,
    /// Flushes after so many events; 0: only at the end.
    #[arg(long, default_value_t = 100)]
    flush: u64,
    #[arg(skip)]
    #[serde(skip)]
    directory: PathBuf,
}

/// sysbench's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Seqrd,
    Seqwr,
    Rndrd,
    Rndwr,
}

impl Mode {
    fn writes(self) -> bool {
        matches!(self, Self::Seqwr | Self::Rndwr)
    }

    fn random(self) -> bool {
        matches!(self, Self::Rndrd | Self::Rndwr)
    }
}

#[cfg(unix)]
mod at {
    use std::os::unix::fs::FileExt;

    pub fn read(file: &std::fs::File, buffer: &mut [u8], at: u64) -> std::io::Result<()> {
        file.read_exact_at(buffer, at)
    }
    pub fn write(file: &std::fs::File, buffer: &[u8], at: u64) -> std::io::Result<()> {
        file.write_all_at(buffer, at)
    }
}

#[cfg(windows)]
mod at {
    use std::fs::File;
    use std::io;
    use std::os::windows::fs::FileExt;
    pub fn read(file: &File, mut buffer: &mut [u8], mut at: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            let count = file.seek_read(buffer, at)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            at += count as u64;
            buffer = &mut buffer[count..];
        }
        Ok(())
    }
    pub fn write(file: &File, mut buffer: &[u8], mut at: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            let count = file.seek_write(buffer, at)?;
            at += count as u64;
            buffer = &buffer[count..];
        }
        Ok(())
    }
}

pub fn run(asked: &Files, seed: u64, threads: u32, limit: Limit) -> Result<Done, Failure> {
    let blocks = asked.total / u64::from(asked.number.max(1)) / asked.block.max(1) as u64;
    if asked.number == 0 || asked.block == 0 || blocks == 0 {
        return Err(Failure::input("fileio: not a block in a file".into()));
    }
    let all = prepare(asked, blocks).map_err(|error| Failure::new("fileio", error))?;
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let count = blocks * u64::from(asked.number);
    let done = events::run(threads, limit, |number| {
        let mut choice = Choice::new(seed, number, count);
        let mut buffer = vec![number.to_le_bytes()[0]; asked.block];
        let (all, next, failed) = (all.as_slice(), &next, &failed);
        move || {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            let block = if asked.mode.random() {
                choice.next()
            } else {
                turn % count
            };
            if event(asked, all, blocks, block, turn, &mut buffer).is_ok() {
                asked.block as u64
            } else {
                failed.fetch_add(1, Ordering::Relaxed);
                0
            }
        }
    });
    let ended = finish(asked, &all);
    drop(all);
    remove(asked);
    ended.map_err(|error| Failure::new("fileio", error))?;
    match failed.into_inner() {
        0 => Ok(done),
        count => Err(Failure::new("fileio", format!("{count} blocks failed"))),
    }
}

fn event(
    asked: &Files,
    all: &[File],
    blocks: u64,
    block: u64,
    turn: u64,
    buffer: &mut [u8],
) -> io::Result<()> {
    let file = &all[usize::try_from(block / blocks).unwrap_or(0)];
    let at = block % blocks * asked.block as u64;
    if !asked.mode.writes() {
        return at::read(file, buffer, at);
    }
    at::write(file, buffer, at)?;
    if asked.flush > 0 && (turn + 1).is_multiple_of(asked.flush) {
        for file in all {
            file.sync_all()?;
        }
    }
    Ok(())
}

fn path(asked: &Files, number: u32) -> PathBuf {
    asked.directory.join(format!("test_file.{number}"))
}

fn prepare(asked: &Files, blocks: u64) -> io::Result<Vec<File>> {
    let filled = vec![0x55; asked.block];
    let create = |number| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let mut file = options.open(path(asked, number))?;
        for _ in 0..blocks {
            file.write_all(&filled)?;
        }
        file.sync_all()?;
        Ok(file)
    };
    (0..asked.number).map(create).collect()
}

fn finish(asked: &Files, all: &[File]) -> io::Result<()> {
    if asked.mode.writes() {
        for file in all {
            file.sync_all()?;
        }
    }
    Ok(())
}

fn remove(asked: &Files) {
    for number in 0..asked.number {
        let _ = std::fs::remove_file(path(asked, number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(mode: Mode, name: &str) -> Files {
        let directory = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("mkdir");
        Files {
            number: 3,
            total: 96 << 10,
            block: 4 << 10,
            mode,
            flush: 10,
            directory,
        }
    }

    #[test]
    fn every_mode_moves_its_bytes_and_leaves_nothing() {
        for mode in [Mode::Seqrd, Mode::Seqwr, Mode::Rndrd, Mode::Rndwr] {
            let asked = files(mode, "basics-modes");
            let done = run(&asked, 1, 2, Limit::events(50)).expect("done");
            assert_eq!((done.events, done.result), (50, 50 * 4096));
            let left = std::fs::read_dir(&asked.directory).expect("list").count();
            assert_eq!(left, 0);
        }
    }

    #[test]
    fn files_without_a_block_are_refused() {
        let asked = Files {
            total: 10,
            ..files(Mode::Seqrd, "basics-empty")
        };
        assert!(run(&asked, 1, 1, Limit::events(1)).is_err());
    }
}
