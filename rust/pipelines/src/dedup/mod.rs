//! dedup: fragment (1) → refine (n) → deduplicate (n) → compress (n) → reorder and write (1).
//!
//! The stages of PARSEC's dedup (Bienia et al. 2008, PACT, doi:10.1145/1454115.1454128), 3n + 2 threads:
//! duplicates pass by the compression. Ours hashes by SHA-256, compresses by zstd, and writes the same
//! bytes whatever n is.

pub mod container;
pub mod fragments;
mod order;
pub mod reference;
mod stages;
mod table;

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use self::container::{Codec, Writer};
use self::fragments::{Fragments, Stream};
use self::order::Order;
use self::reference::Reference;
use self::stages::{Fragment, Packer, deduplicate, refine};
use self::table::Table;
use crate::chunking::Chunking;
use crate::frame::{Pipeline, Report, credits};
use crate::source::Source;
use crate::usage::{Cpu, Mark};
use crate::{digest, manifest, ratio};

/// Batches in a queue between two stages, for each of its threads.
const ROOM: usize = 8;
/// Fragments under way at once, for each thread of a stage: what bounds the memory.
const UNDER_WAY: usize = 4;
/// The table counts chunks in 32 bits.
const LONGEST_INPUT: u64 = 1 << 42;

pub struct Options {
    pub input: PathBuf,
    /// None: the output stays in memory.
    pub output: Option<PathBuf>,
    pub source: Source,
    /// Is the output to be on the disk before the clock stops?
    pub sync: bool,
    pub threads: usize,
    pub chunking: Chunking,
    pub codec: Codec,
    /// What is known of the input and the right output.
    pub reference: Option<PathBuf>,
}

/// What was done, and what it took.
#[derive(Serialize)]
pub struct Done {
    pub program: &'static str,
    pub version: &'static str,
    pub threads: usize,
    pub chunking: Chunking,
    /// None: chunks are stored.
    pub level: Option<i32>,
    pub source: Source,
    pub sync: bool,
    pub seconds: f64,
    pub input_bytes: u64,
    pub output_bytes: u64,
    pub ratio: f64,
    pub chunks: u64,
    pub unique_chunks: u64,
    pub input_sha256: String,
    pub output_sha256: String,
    pub reference: Option<Reference>,
    pub cpu: Cpu,
    pub io: Io,
    #[serde(flatten)]
    pub report: Report,
    pub sha_extensions: bool,
}

/// Time within calls that read and write, and its shares of the elapsed time: each is one thread's.
#[derive(Serialize)]
pub struct Io {
    pub read_s: f64,
    pub write_s: f64,
    pub read_share: f64,
    pub write_share: f64,
}

/// Runs the pipeline over a file.
///
/// # Errors
/// What is missing or cannot be read or written.
pub fn run(options: &Options) -> Result<Done> {
    let path = options.input.display();
    let length = std::fs::metadata(&options.input)
        .with_context(|| format!("there is no input {path}"))?
        .len();
    ensure!(length > 0, "the input {path} is empty");
    let load = |path| manifest::read(path, "reference of dedup's");
    let reference: Option<Result<Reference>> = options.reference.as_deref().map(load);
    let reference = reference.transpose()?;
    let memory = match options.source {
        Source::Memory => std::fs::read(&options.input).context("cannot read the input")?,
        Source::File | Source::Direct => Vec::new(),
    };
    let fragments = match options.source {
        Source::Memory => Fragments::Memory(&memory),
        other => Fragments::Stream(Stream::open(&options.input, other == Source::Direct)?),
    };
    let mut sink = Sink::create(options, length)?;
    let (mark, began) = (Mark::now(), Instant::now());
    let work = pipe(options, length, fragments, &mut sink)?;
    if options.sync {
        sink.sync()?;
    }
    let seconds = began.elapsed().as_secs_f64();
    let cpu = mark.until_now(seconds);
    let input_sha256 = if memory.is_empty() {
        digest::of_file(&options.input)?.1
    } else {
        digest::of_bytes(&memory)
    };
    let (output_bytes, output_sha256) = sink.digest()?;
    Ok(Done {
        program: "dedup",
        version: env!("CARGO_PKG_VERSION"),
        threads: options.threads,
        chunking: options.chunking,
        level: match options.codec {
            Codec::Stored => None,
            Codec::Zstd(level) => Some(level),
        },
        source: options.source,
        sync: options.sync,
        seconds,
        input_bytes: length,
        output_bytes,
        ratio: ratio(output_bytes, length),
        chunks: work.chunks,
        unique_chunks: work.unique,
        input_sha256,
        output_sha256,
        reference,
        cpu,
        io: Io {
            read_s: work.reading.as_secs_f64(),
            write_s: sink.writing.as_secs_f64(),
            read_share: work.reading.as_secs_f64() / seconds,
            write_share: sink.writing.as_secs_f64() / seconds,
        },
        report: work.report,
        sha_extensions: digest::sha_extensions(),
    })
}

/// The container of some bytes.
///
/// # Errors
/// When zstd refuses the level.
pub fn pack(bytes: &[u8], threads: usize, chunking: Chunking, codec: Codec) -> Result<Vec<u8>> {
    let options = Options {
        input: PathBuf::new(),
        output: None,
        source: Source::Memory,
        sync: false,
        threads,
        chunking,
        codec,
        reference: None,
    };
    let mut sink = Sink::create(&options, 0)?;
    let length = bytes.len() as u64;
    pipe(&options, length, Fragments::Memory(bytes), &mut sink)?;
    Ok(sink.memory)
}

struct Work {
    chunks: u64,
    unique: u64,
    reading: Duration,
    report: Report,
}

fn pipe(
    options: &Options,
    length: u64,
    mut fragments: Fragments<'_>,
    sink: &mut Sink,
) -> Result<Work> {
    ensure!(
        length < LONGEST_INPUT,
        "an input of {length} bytes is too long: {LONGEST_INPUT} are"
    );
    let (n, chunking, codec) = (options.threads, options.chunking, options.codec);
    let (table, mut chunks, mut unique) = (&Table::default(), 0, 0);
    let (count, written, input) = (&mut chunks, &mut unique, &mut fragments);
    let report = thread::scope(|scope| {
        let mut pipeline = Pipeline::new(scope);
        let (to_refine, refining) = pipeline.queue("fragments", n);
        let (to_deduplicate, deduplicating) = pipeline.queue("chunks", ROOM * n);
        let (to_compress, compressing) = pipeline.queue("unique", ROOM * n);
        let (to_order, ordering) = pipeline.queue("done", 2 * ROOM * n);
        let (give_back, buffers) = credits(UNDER_WAY * n + 2);
        for _ in 0..UNDER_WAY * n + 2 {
            give_back.offer(Vec::new());
        }
        pipeline.single("fragment", move |worker| {
            for number in 0.. {
                let Some(buffer) = worker.receive(&buffers)? else {
                    break;
                };
                let Some(bytes) = input.next(buffer)? else {
                    break;
                };
                worker.send(&to_refine, Fragment { number, bytes })?;
            }
            Ok(())
        });
        pipeline.several("refine", n, move |worker| {
            while let Some(fragment) = worker.receive(&refining)? {
                for batch in refine(fragment, chunking) {
                    worker.send(&to_deduplicate, batch)?;
                }
            }
            Ok(())
        });
        let bypass = to_order.clone();
        pipeline.several("deduplicate", n, move |worker| {
            while let Some(mut batch) = worker.receive(&deduplicating)? {
                let next = if deduplicate(&mut batch, table) {
                    &to_compress
                } else {
                    &bypass
                };
                worker.send(next, batch)?;
            }
            Ok(())
        });
        pipeline.several("compress", n, move |worker| {
            let mut packer = Packer::new(codec)?;
            while let Some(mut batch) = worker.receive(&compressing)? {
                packer.pack(&mut batch)?;
                worker.send(&to_order, batch)?;
            }
            Ok(())
        });
        pipeline.single("reorder", move |worker| {
            let to = BufWriter::with_capacity(1 << 20, sink);
            let mut order = Order::new(Writer::new(to, codec, length)?);
            while let Some(batch) = worker.receive(&ordering)? {
                for batch in order.take(batch)? {
                    *count += batch.chunks.len() as u64;
                    if let (true, Some(batch)) = (batch.last, Arc::into_inner(batch)) {
                        give_back.offer(batch.fragment.into_buffer());
                    }
                }
            }
            let (_, numbers) = order.finish()?;
            *written = u64::from(numbers);
            Ok(())
        });
        pipeline.finish()
    })?;
    Ok(Work {
        chunks,
        unique,
        reading: fragments.reading(),
        report,
    })
}

/// What is written to, and how long that took.
struct Sink {
    file: Option<File>,
    memory: Vec<u8>,
    writing: Duration,
}

impl Sink {
    fn create(options: &Options, length: u64) -> Result<Self> {
        let create = |path: &PathBuf| {
            // Read back for its digest.
            let mut how = File::options();
            how.read(true).write(true).create(true).truncate(true);
            how.open(path)
                .with_context(|| format!("cannot write {}", path.display()))
        };
        let file = options.output.as_ref().map(create).transpose()?;
        let room = if file.is_some() { 0 } else { length };
        Ok(Self {
            file,
            memory: Vec::with_capacity(usize::try_from(room)?),
            writing: Duration::ZERO,
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        let began = Instant::now();
        self.file.as_ref().map_or(Ok(()), File::sync_data)?;
        self.writing += began.elapsed();
        Ok(())
    }

    /// Length and SHA-256 of what was written.
    fn digest(&mut self) -> Result<(u64, String)> {
        let Some(file) = &mut self.file else {
            return Ok((self.memory.len() as u64, digest::of_bytes(&self.memory)));
        };
        file.rewind()?;
        digest::of_reader(file)
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(file) = &mut self.file else {
            self.memory.extend_from_slice(bytes);
            return Ok(bytes.len());
        };
        let began = Instant::now();
        let written = file.write(bytes);
        self.writing += began.elapsed();
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
