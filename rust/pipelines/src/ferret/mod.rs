//! ferret: load (1) → segment (n) → extract (n) → index (n) → rank (n) → out (1).
//!
//! The stages of PARSEC's ferret (Bienia et al. 2008, PACT, doi:10.1145/1454115.1454128; the toolkit is Lv et
//! al. 2006, doi:10.1145/1217935.1217966), 4n + 2 threads: each query image is segmented, its
//! segments are described, looked up in an index, and the candidates ranked. The images are generated,
//! and all that decides is whole numbers: the same answers on every machine and with every n.

pub mod emd;
pub mod features;
pub mod format;
pub mod images;
pub mod lsh;
pub mod reference;
pub mod search;
pub mod segment;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use self::features::{Segment, extract};
use self::format::Format;
use self::images::Plan;
use self::lsh::Settings;
use self::reference::{Reference, ReferenceFacts};
use self::search::{Database, Hit, recall};
use self::segment::{Segments, segment};
use crate::frame::{Pipeline, Report, credits};
use crate::source::{Aligned, Source, open_direct};
use crate::usage::{Cpu, Mark};
use crate::{digest, manifest};

/// Images in a queue between two stages, for each of its threads.
const ROOM: usize = 4;
/// Images under way at once, for each thread of a stage: what bounds the memory.
const UNDER_WAY: usize = 20;

/// What is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Args, Serialize, Deserialize)]
pub struct Search {
    /// Nearest images to find
    #[arg(long, default_value_t = 10)]
    pub k: usize,
    /// Most candidates that are ranked
    #[arg(long, default_value_t = 128)]
    pub candidates: usize,
    #[command(flatten)]
    pub index: Settings,
}

pub struct Options {
    pub corpus: PathBuf,
    pub reference: PathBuf,
    pub source: Source,
    pub threads: usize,
}

/// What was done, and what it took.
#[derive(Serialize)]
pub struct Done {
    pub program: &'static str,
    pub version: &'static str,
    pub threads: usize,
    pub source: Source,
    pub seconds: f64,
    pub queries: usize,
    pub input_bytes: usize,
    pub recall: f64,
    pub corpus_sha256: String,
    pub output_sha256: String,
    pub reference: ReferenceFacts,
    pub cpu: Cpu,
    pub read_s: f64,
    pub read_share: f64,
    #[serde(flatten)]
    pub report: Report,
}

/// The nearest of the candidates.
fn answer(database: &Database, query: &[Segment], candidates: &[u32], search: Search) -> Vec<Hit> {
    database.rank(query, candidates.iter().copied(), search.k)
}

/// A line of the output: the query, then image and distance of each hit.
fn line(number: usize, hits: &[Hit]) -> String {
    let mut text = number.to_string();
    for hit in hits {
        let _ = write!(text, " {}:{}", hit.image, hit.distance);
    }
    text.push('\n');
    text
}

/// Runs the queries of a corpus through the pipeline.
///
/// # Errors
/// When the corpus or the reference is missing, or cannot be read.
pub fn run(options: &Options) -> Result<Done> {
    let reference: Reference = manifest::read(&options.reference, "reference of ferret's")?;
    let (facts, exact) = (reference.facts, reference.exact);
    let (plan, search) = (facts.corpus.plan, facts.search);
    ensure!(
        reference.database.len() == plan.images && exact.len() == plan.queries,
        "{} is not whole",
        options.reference.display()
    );
    let database = Database::new(reference.database, search.index);
    let mut images = Images::open(options, plan)?;
    let (mark, began) = (Mark::now(), Instant::now());
    let (answers, report) = pipe(options.threads, &mut images, &database, search)?;
    let seconds = began.elapsed().as_secs_f64();
    let cpu = mark.until_now(seconds);
    let read_s = images.reading.as_secs_f64();
    let lines = answers.iter().enumerate();
    let output: String = lines.map(|(number, hits)| line(number, hits)).collect();
    let numbers = |hits: &Vec<Hit>| hits.iter().map(|hit| hit.image).collect();
    let images: Vec<Vec<u32>> = answers.iter().map(numbers).collect();
    Ok(Done {
        program: "ferret",
        version: env!("CARGO_PKG_VERSION"),
        threads: options.threads,
        source: options.source,
        seconds,
        queries: answers.len(),
        input_bytes: answers.len() * plan.format.bytes(),
        recall: recall(&images, &exact),
        corpus_sha256: digest::of_file(&options.corpus)?.1,
        output_sha256: digest::of_bytes(output.as_bytes()),
        reference: facts,
        cpu,
        read_s,
        read_share: read_s / seconds,
        report,
    })
}

/// The query images, one after the other.
struct Images {
    file: File,
    source: Source,
    memory: Vec<u8>,
    block: Aligned,
    format: Format,
    first: usize,
    count: usize,
    reading: Duration,
}

impl Images {
    fn open(options: &Options, plan: Plan) -> Result<Self> {
        let (first, count, place) = (plan.images, plan.queries, plan.format.bytes());
        let path = &options.corpus;
        let problem = || format!("there is no corpus {}", path.display());
        let length = std::fs::metadata(path).with_context(problem)?.len();
        ensure!(
            length == ((first + count) * place) as u64,
            "the corpus {} has {length} bytes, which is not what it was made with",
            path.display()
        );
        let file = match options.source {
            Source::Direct => open_direct(path)?,
            Source::Memory | Source::File => File::open(path).with_context(problem)?,
        };
        let mut memory = Vec::new();
        if options.source == Source::Memory {
            memory.resize(count * place, 0);
            file.read_exact_at(&mut memory, (first * place) as u64)?;
        }
        Ok(Self {
            file,
            source: options.source,
            memory,
            block: Aligned::new(place),
            format: plan.format,
            first,
            count,
            reading: Duration::ZERO,
        })
    }

    /// The pixels of one: read, and decoded where it has to be, which is no reading.
    fn image(&mut self, number: usize) -> Result<Vec<u8>> {
        let bytes = self.bytes(number)?;
        self.format.pixels(bytes)
    }

    fn bytes(&mut self, number: usize) -> Result<Vec<u8>> {
        let place = self.format.bytes();
        if self.source == Source::Memory {
            return Ok(self.memory[number * place..(number + 1) * place].to_vec());
        }
        let began = Instant::now();
        let position = ((self.first + number) * place) as u64;
        let read = self.file.read_exact_at(&mut self.block, position);
        self.reading += began.elapsed();
        read.context("cannot read the corpus")?;
        Ok(self.block.to_vec())
    }
}

struct Loaded {
    number: usize,
    pixels: Vec<u8>,
}

struct Segmented {
    loaded: Loaded,
    segments: Segments,
}

struct Described {
    number: usize,
    query: Vec<Segment>,
}

struct Looked {
    described: Described,
    candidates: Vec<u32>,
}

struct Answered {
    number: usize,
    hits: Vec<Hit>,
}

fn pipe(
    n: usize,
    images: &mut Images,
    database: &Database,
    search: Search,
) -> Result<(Vec<Vec<Hit>>, Report)> {
    let mut answers = Vec::with_capacity(images.count);
    let all = &mut answers;
    let report = thread::scope(|scope| {
        let mut pipeline = Pipeline::new(scope);
        let (to_segment, segmenting) = pipeline.queue("images", ROOM * n);
        let (to_extract, extracting) = pipeline.queue("segments", ROOM * n);
        let (to_index, indexing) = pipeline.queue("features", ROOM * n);
        let (to_rank, ranking) = pipeline.queue("candidates", ROOM * n);
        let (to_out, finishing) = pipeline.queue("ranked", ROOM * n);
        let (give_back, leave) = credits(UNDER_WAY * n);
        for _ in 0..UNDER_WAY * n {
            give_back.offer(());
        }
        pipeline.single("load", move |worker| {
            for number in 0..images.count {
                if worker.receive(&leave)?.is_none() {
                    break;
                }
                let pixels = images.image(number)?;
                worker.send(&to_segment, Loaded { number, pixels })?;
            }
            Ok(())
        });
        pipeline.several("segment", n, move |worker| {
            while let Some(loaded) = worker.receive(&segmenting)? {
                let segments = segment(&loaded.pixels);
                worker.send(&to_extract, Segmented { loaded, segments })?;
            }
            Ok(())
        });
        pipeline.several("extract", n, move |worker| {
            while let Some(Segmented { loaded, segments }) = worker.receive(&extracting)? {
                let (number, query) = (loaded.number, extract(&loaded.pixels, &segments));
                worker.send(&to_index, Described { number, query })?;
            }
            Ok(())
        });
        pipeline.several("index", n, move |worker| {
            while let Some(described) = worker.receive(&indexing)? {
                let candidates = database.candidates(&described.query, search.candidates);
                worker.send(
                    &to_rank,
                    Looked {
                        described,
                        candidates,
                    },
                )?;
            }
            Ok(())
        });
        pipeline.several("rank", n, move |worker| {
            while let Some(looked) = worker.receive(&ranking)? {
                let Described { number, query } = looked.described;
                let hits = answer(database, &query, &looked.candidates, search);
                worker.send(&to_out, Answered { number, hits })?;
            }
            Ok(())
        });
        pipeline.single("out", move |worker| {
            let mut early = BTreeMap::new();
            while let Some(Answered { number, hits }) = worker.receive(&finishing)? {
                early.insert(number, hits);
                while let Some(hits) = early.remove(&all.len()) {
                    all.push(hits);
                    give_back.offer(());
                }
            }
            ensure_none(&early)?;
            Ok(())
        });
        pipeline.finish()
    })?;
    Ok((answers, report))
}

fn ensure_none<T>(early: &BTreeMap<usize, T>) -> Result<()> {
    ensure!(early.is_empty(), "images are missing");
    Ok(())
}
