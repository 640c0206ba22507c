//! `ullage-pipelines`: `dedup` and `ferret`, and what makes their inputs. Prints one JSON object on
//! standard output.

use std::fs::File;
use std::io::BufReader;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use serde::Serialize;
use serde_json::json;

use ullage_pipelines::chunking::Chunking;
use ullage_pipelines::corpus::{Corpus, Plan};
use ullage_pipelines::dedup::container::Codec;
use ullage_pipelines::dedup::reference::{Reference, unpack};
use ullage_pipelines::ferret::format::Format;
use ullage_pipelines::ferret::{Search, images};
use ullage_pipelines::source::Source;
use ullage_pipelines::{dedup, ferret, manifest, usage};

#[derive(Parser)]
#[command(
    version,
    about = "Pipelines on threads: dedup and ferret, and what makes their inputs"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make an input for dedup, and a manifest beside it
    DedupCorpus(DedupCorpus),
    /// Say what dedup's output for a corpus has to be: by one thread, decompressed and compared
    DedupReference(DedupReference),
    /// Cut by content, drop duplicates, compress
    Dedup(Dedup),
    /// Decompress what dedup wrote
    Undedup(Undedup),
    /// Make images for ferret, and a manifest beside them
    FerretCorpus(FerretCorpus),
    /// Segment the database of a corpus, and say what ferret has to find
    FerretReference(FerretReference),
    /// Search for the images most like each query
    Ferret(Ferret),
}

#[derive(Args)]
struct DedupCorpus {
    /// The file to write; its manifest is written beside it, with .json behind the name
    #[arg(long)]
    output: PathBuf,
    /// Bytes
    #[arg(long)]
    size: u64,
    /// Share of the segments that are copies of earlier ones
    #[arg(long, default_value_t = 0.3, value_parser = share)]
    duplicates: f64,
    /// Share of what is no copy that is text; the rest is random bytes
    #[arg(long, default_value_t = 0.75, value_parser = share)]
    compressible: f64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// How unique chunks are made and kept.
#[derive(Args)]
struct Packing {
    #[arg(long, value_enum, default_value_t = Chunking::Rabin)]
    chunking: Chunking,
    /// zstd's level, 1 to 19; 0: chunks are not compressed
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(i32).range(0..=19))]
    level: i32,
}

impl Packing {
    fn codec(&self) -> Codec {
        match self.level {
            0 => Codec::Stored,
            level => Codec::Zstd(level),
        }
    }
}

#[derive(Args)]
struct DedupReference {
    /// A file that dedup-corpus made
    #[arg(long)]
    corpus: PathBuf,
    /// The file to write
    #[arg(long)]
    output: PathBuf,
    #[command(flatten)]
    packing: Packing,
}

#[derive(Args)]
struct Dedup {
    #[arg(long)]
    input: PathBuf,
    /// The file to write; without it the output stays in memory, and only its digest is told
    #[arg(long)]
    output: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t = Source::File)]
    source: Source,
    /// Stop the clock when the output is on the disk
    #[arg(long, requires = "output")]
    sync: bool,
    /// Threads of each of the three middle stages, n: 3n + 2 in all [default: the CPUs]
    #[arg(long)]
    threads: Option<NonZero<u16>>,
    /// A file that dedup-reference made: told beside the result
    #[arg(long)]
    reference: Option<PathBuf>,
    #[command(flatten)]
    packing: Packing,
}

#[derive(Args)]
struct Undedup {
    #[arg(long)]
    input: PathBuf,
    #[arg(long)]
    output: PathBuf,
}

#[derive(Args)]
struct FerretCorpus {
    /// The file to write; its manifest is written beside it, with .json behind the name
    #[arg(long)]
    output: PathBuf,
    /// Images of the database
    #[arg(long, default_value_t = 512, value_parser = counted)]
    images: usize,
    /// Images to search with
    #[arg(long, default_value_t = 1024, value_parser = counted)]
    queries: usize,
    /// Scenes that the images are variations of
    #[arg(long, default_value_t = 32, value_parser = counted)]
    classes: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What an image's bytes are
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Args)]
struct FerretReference {
    /// A file that ferret-corpus made
    #[arg(long)]
    corpus: PathBuf,
    /// The file to write
    #[arg(long)]
    output: PathBuf,
    #[command(flatten)]
    search: Search,
}

#[derive(Args)]
struct Ferret {
    /// A file that ferret-corpus made
    #[arg(long)]
    corpus: PathBuf,
    /// A file that ferret-reference made of it: the database, and what has to be found
    #[arg(long)]
    reference: PathBuf,
    #[arg(long, value_enum, default_value_t = Source::File)]
    source: Source,
    /// Threads of each of the four middle stages, n: 4n + 2 in all [default: the CPUs]
    #[arg(long)]
    threads: Option<NonZero<u16>>,
}

fn counted(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=1_000_000) => Ok(count),
        _ => Err("a count is a whole number from 1 to 1000000".into()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is a number from 0 to 1".into()),
    }
}

fn threads(options: Option<NonZero<u16>>) -> usize {
    options.map_or_else(usage::cpus, |threads| threads.get().into())
}

fn print(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(value)?;
    ullage_common::print(&text).context("cannot write the result")
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::DedupCorpus(options) => {
            let plan = Plan {
                size: options.size,
                duplicates: options.duplicates,
                compressible: options.compressible,
                seed: options.seed,
            };
            print(&Corpus::make(plan, &options.output)?)
        }
        Command::DedupReference(options) => {
            let (chunking, codec) = (options.packing.chunking, options.packing.codec());
            let reference = Reference::make(&options.corpus, chunking, codec)?;
            manifest::write(&options.output, &reference)?;
            print(&reference)
        }
        Command::Dedup(options) => print(&dedup::run(&dedup::Options {
            codec: options.packing.codec(),
            chunking: options.packing.chunking,
            input: options.input,
            output: options.output,
            source: options.source,
            sync: options.sync,
            threads: threads(options.threads),
            reference: options.reference,
        })?),
        Command::Undedup(options) => {
            let from = File::open(&options.input)
                .with_context(|| format!("cannot open {}", options.input.display()))?;
            let bytes = unpack(BufReader::with_capacity(1 << 20, from), &options.output)?;
            print(&json!({"program": "undedup", "bytes": bytes}))
        }
        Command::FerretCorpus(options) => {
            let plan = images::Plan {
                images: options.images,
                queries: options.queries,
                classes: options.classes,
                seed: options.seed,
                format: options.format,
            };
            print(&images::Corpus::make(plan, &options.output)?)
        }
        Command::FerretReference(options) => {
            let reference = ferret::reference::Reference::make(&options.corpus, options.search)?;
            manifest::write(&options.output, &reference)?;
            print(&reference.facts)
        }
        Command::Ferret(options) => print(&ferret::run(&ferret::Options {
            corpus: options.corpus,
            reference: options.reference,
            source: options.source,
            threads: threads(options.threads),
        })?),
    }
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            ullage_common::say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
