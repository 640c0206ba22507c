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
    /// Of the next block in order.
    next: Place,
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

/// Where a block begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    file: u32,
    at: u64,
}

impl Place {
    /// Goes on by a block, from the end of the last file to the start of the first.
    fn advance(&mut self, block: u64, size: u64, files: u32) {
        self.at += block;
        if self.at == size {
            let file = self.file + 1;
            *self = Self {
                file: if file == files { 0 } else { file },
                at: 0,
            };
        }
    }

    /// Any block: sysbench draws a byte of all files together.
    fn draw(random: &mut Random, block: u64, size: u64, files: u32) -> Self {
        let byte = random.below(size * u64::from(files));
        let at = byte - byte % block;
        Self {
            file: u32::try_from(at / size).unwrap_or(0),
            at: at % size,
        }
    }
}

#[derive(Clone, Copy)]
enum Request {
    Read(Place),
    Write(Place),
    Flush(u32),
}

/// A block in memory. It begins with a page, as there: what a copy costs depends on that.
struct Buffer(Vec<Page>, usize);

#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u8; 4096]);

impl Buffer {
    fn new(filling: u8, length: usize) -> Self {
        let page = Page([filling; 4096]);
        Self(vec![page; length.div_ceil(size_of::<Page>())], length)
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: pages are bytes, without anything between, and as many as were asked for.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.1) }
    }
}

struct Access<'a> {
    asked: &'a Files,
    files: &'a [File],
    /// Of a file: whole blocks.
    size: u64,
    requests: &'a Mutex<Requests>,
    random: Random,
    buffer: Buffer,
}

impl Access<'_> {
    fn shared(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn access(&mut self, request: Request) -> io::Result<u64> {
        match request {
            Request::Flush(number) => {
                self.files[number as usize].sync_all()?;
                return Ok(0);
            }
            Request::Read(Place { file, at }) => {
                at::read(&self.files[file as usize], self.buffer.bytes(), at)?;
            }
            Request::Write(Place { file, at }) => {
                at::write(&self.files[file as usize], self.buffer.bytes(), at)?;
            }
        }
        Ok(self.asked.block as u64)
    }
}

impl Worker for Access<'_> {
    type Request = Request;

    fn request(&mut self) -> Request {
        let (asked, size) = (self.asked, self.size);
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
        let block = asked.block as u64;
        let place = if asked.mode.random() {
            Place::draw(&mut self.random, block, size, asked.number)
        } else {
            let place = shared.next;
            shared.next.advance(block, size, asked.number);
            place
        };
        if writes {
            Request::Write(place)
        } else {
            Request::Read(place)
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
        size: blocks * asked.block as u64,
        requests: &requests,
        random: Random::new(seed, number),
        buffer: Buffer::new(number.to_le_bytes()[0], asked.block),
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
    fn a_buffer_begins_with_a_page() {
        for length in [1, 4096, 5000] {
            let mut buffer = Buffer::new(7, length);
            assert_eq!(buffer.bytes(), vec![7; length]);
            assert_eq!(buffer.bytes().as_ptr().addr() % 4096, 0);
        }
    }

    #[test]
    fn blocks_in_order_go_through_all_files_and_begin_again() {
        let (mut place, mut places) = (Place::default(), Vec::new());
        for _ in 0..5 {
            places.push((place.file, place.at));
            place.advance(4, 8, 2);
        }
        assert_eq!(places, [(0, 0), (0, 4), (1, 0), (1, 4), (0, 0)]);
    }

    #[test]
    fn a_block_that_is_drawn_is_a_whole_one_and_any() {
        let mut random = Random::new(1, 0);
        let mut places: Vec<_> = (0..200)
            .map(|_| Place::draw(&mut random, 4, 8, 3))
            .map(|place| (place.file, place.at))
            .collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places, [(0, 0), (0, 4), (1, 0), (1, 4), (2, 0), (2, 4)]);
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
