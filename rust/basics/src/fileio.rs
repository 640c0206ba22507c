//! Files: sysbench's `fileio` in its mode `sync` (`tests/fileio/sb_fileio.c`). An event is a block, or, after
//! every hundredth of those that were written, the flush of a file, until all are flushed; each thread
//! flushes all of them at its end.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use clap::{Args, ValueEnum};
use serde::Serialize;
use ullage_common::Failure;

use crate::events::{self, Done, Limit, Worker};
use crate::random::Random;

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
    /// Into new files; the others find them filled.
    Seqwr,
    Seqrewr,
    Rndrd,
    Rndwr,
    /// Three reads to two writes.
    Rndrw,
}

impl Mode {
    fn writes(self) -> bool {
        !matches!(self, Self::Seqrd | Self::Rndrd)
    }

    fn random(self) -> bool {
        matches!(self, Self::Rndrd | Self::Rndwr | Self::Rndrw)
    }

    /// The next one, after so many that were done: what sysbench holds against its ratio of 1.5.
    fn writes_next(self, reads: u64, writes: u64) -> bool {
        match self {
            Self::Rndrw => 2 * (reads + 1) >= 3 * (writes + 1),
            other => other.writes(),
        }
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

/// What all threads share: sysbench draws its requests, and counts, under one lock.
#[derive(Default)]
struct Requests {
    drawn: u64,
    /// The next block in order.
    block: u64,
    /// The next file to be flushed, in the midst of a flush of all.
    flushed: u32,
    /// Written to since all were flushed.
    dirty: bool,
    /// Blocks and flushes that were done.
    reads: u64,
    writes: u64,
    flushes: u64,
    failed: u64,
}

#[derive(Clone, Copy)]
enum Request {
    Read(u64),
    Write(u64),
    Flush(u32),
}

struct Access<'a> {
    asked: &'a Files,
    files: &'a [File],
    /// Of a file.
    blocks: u64,
    requests: &'a Mutex<Requests>,
    random: Random,
    buffer: Vec<u8>,
}

impl Access<'_> {
    fn count(&self) -> u64 {
        self.blocks * u64::from(self.asked.number)
    }

    fn shared(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file that the block is in, and where.
    fn place(&self, block: u64) -> (&File, u64) {
        let file = &self.files[usize::try_from(block / self.blocks).unwrap_or(0)];
        (file, block % self.blocks * self.asked.block as u64)
    }

    fn access(&mut self, request: Request) -> io::Result<u64> {
        match request {
            Request::Flush(number) => {
                self.files[number as usize].sync_all()?;
                return Ok(0);
            }
            Request::Read(block) => {
                let mut buffer = std::mem::take(&mut self.buffer);
                let (file, at) = self.place(block);
                let done = at::read(file, &mut buffer, at);
                self.buffer = buffer;
                done?;
            }
            Request::Write(block) => {
                let (file, at) = self.place(block);
                at::write(file, &self.buffer, at)?;
            }
        }
        Ok(self.asked.block as u64)
    }
}

impl Worker for Access<'_> {
    type Request = Request;

    fn request(&mut self) -> Request {
        let (count, asked) = (self.count(), self.asked);
        let mut shared = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.flush > 0 && shared.dirty && shared.drawn.is_multiple_of(asked.flush) {
            let number = shared.flushed;
            shared.flushed = (number + 1) % asked.number;
            shared.dirty = shared.flushed != 0;
            return Request::Flush(number);
        }
        let writes = asked.mode.writes_next(shared.reads, shared.writes);
        shared.drawn += 1;
        shared.dirty |= writes;
        let block = if asked.mode.random() {
            self.random.below(count)
        } else {
            let block = shared.block;
            shared.block = (block + 1) % count;
            block
        };
        if writes {
            Request::Write(block)
        } else {
            Request::Read(block)
        }
    }

    fn event(&mut self, request: Request) -> u64 {
        let done = self.access(request);
        let mut shared = self.shared();
        match (&done, request) {
            (Err(_), _) => shared.failed += 1,
            (Ok(_), Request::Read(_)) => shared.reads += 1,
            (Ok(_), Request::Write(_)) => shared.writes += 1,
            (Ok(_), Request::Flush(_)) => shared.flushes += 1,
        }
        done.unwrap_or(0)
    }

    /// Each thread flushes all.
    fn end(&mut self) {
        if self.asked.mode.writes() {
            for file in self.files {
                let done = file.sync_all();
                self.shared().failed += u64::from(done.is_err());
            }
        }
    }
}

pub fn run(asked: &Files, seed: u64, threads: u32, limit: Limit) -> Result<Done, Failure> {
    let blocks = asked.total / u64::from(asked.number.max(1)) / asked.block.max(1) as u64;
    if asked.number == 0 || asked.block == 0 || blocks == 0 {
        return Err(Failure::input("fileio: not a block in a file".into()));
    }
    let files = prepare(asked, blocks).map_err(|error| Failure::new("fileio", error))?;
    let requests = Mutex::new(Requests::default());
    let done = events::run(threads, limit, |number| Access {
        asked,
        files: &files,
        blocks,
        requests: &requests,
        random: Random::new(seed, number),
        buffer: vec![number.to_le_bytes()[0]; asked.block],
    });
    drop(files);
    remove(asked);
    let requests = requests
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    match requests.failed {
        0 => Ok(Done {
            flushes: Some(requests.flushes),
            written: Some(requests.writes * asked.block as u64),
            ..done
        }),
        count => Err(Failure::new("fileio", format!("{count} requests failed"))),
    }
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
        let old = if asked.mode == Mode::Seqwr { 0 } else { blocks };
        for _ in 0..old {
            file.write_all(&filled)?;
        }
        file.sync_all()?;
        Ok(file)
    };
    (0..asked.number).map(create).collect()
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
        for mode in Mode::value_variants() {
            let asked = files(*mode, "basics-modes");
            let done = run(&asked, 1, 1, Limit::Events(50)).expect("done");
            // Ten blocks, three flushes, over and over: the 50th event is a flush.
            let (flushes, writes) = match mode {
                Mode::Seqrd | Mode::Rndrd => (0, 0),
                Mode::Seqwr | Mode::Seqrewr | Mode::Rndwr => (10, 40),
                // With 24 reads: three to two.
                Mode::Rndrw => (10, 16),
            };
            assert_eq!((done.events, done.result), (50, (50 - flushes) * 4096));
            assert_eq!(done.flushes, Some(flushes), "{mode:?}");
            assert_eq!(done.written, Some(writes * 4096), "{mode:?}");
            let left = std::fs::read_dir(&asked.directory).expect("list").count();
            assert_eq!(left, 0);
        }
    }

    #[test]
    fn only_new_files_are_empty_before() {
        for (mode, size) in [(Mode::Seqwr, 0), (Mode::Seqrewr, 32 << 10)] {
            let asked = files(mode, "basics-new");
            let made = prepare(&asked, 8).expect("made");
            let sizes = made
                .iter()
                .map(|file| file.metadata().expect("a size").len());
            assert!(sizes.eq([size; 3]));
            remove(&asked);
        }
    }

    #[test]
    fn files_without_a_block_are_refused() {
        let asked = Files {
            total: 10,
            ..files(Mode::Seqrd, "basics-empty")
        };
        assert!(run(&asked, 1, 1, Limit::Events(1)).is_err());
    }
}
