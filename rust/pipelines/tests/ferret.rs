//! ferret: the same answers with every number of threads, and all of them when nothing is left out.

use std::path::{Path, PathBuf};

use ullage_pipelines::ferret::format::Format;
use ullage_pipelines::ferret::images::{Corpus, Plan};
use ullage_pipelines::ferret::lsh::Settings;
use ullage_pipelines::ferret::reference::Reference;
use ullage_pipelines::ferret::{Options, Search, run};
use ullage_pipelines::manifest;
use ullage_pipelines::source::Source;

const PLAN: Plan = Plan {
    images: 18,
    queries: 4,
    classes: 6,
    seed: 3,
    format: Format::Pixels,
};
const SEARCH: Search = Search {
    k: 4,
    candidates: 12,
    index: Settings {
        tables: 4,
        projections: 8,
        width: 600,
    },
};

fn corpus(name: &str, search: Search) -> (PathBuf, PathBuf, Reference) {
    corpus_of(PLAN, name, search)
}

fn corpus_of(plan: Plan, name: &str, search: Search) -> (PathBuf, PathBuf, Reference) {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&directory); // Of an earlier run.
    std::fs::create_dir_all(&directory).unwrap();
    let (path, kept) = (directory.join("corpus"), directory.join("reference"));
    Corpus::make(plan, &path).unwrap();
    let reference = Reference::make(&path, search).unwrap();
    manifest::write(&kept, &reference).unwrap();
    (path, kept, reference)
}

#[test]
fn answers_do_not_depend_on_threads_or_source() {
    for (format, name) in [(Format::Pixels, "answers"), (Format::Jpeg, "answers-jpeg")] {
        same_answers(format, name);
    }
}

fn same_answers(format: Format, name: &str) {
    let (corpus, kept, reference) = corpus_of(Plan { format, ..PLAN }, name, SEARCH);
    for (threads, source) in [(1, Source::Memory), (2, Source::File), (5, Source::Direct)] {
        let done = run(&Options {
            corpus: corpus.clone(),
            reference: kept.clone(),
            source,
            threads,
        })
        .unwrap();
        assert_eq!(done.output_sha256, reference.facts.output_sha256);
        assert_eq!(done.corpus_sha256, reference.facts.corpus.sha256);
        assert!((done.recall - reference.facts.recall).abs() < 1e-12);
        assert_eq!(done.queries, PLAN.queries);
        assert_eq!(done.input_bytes, PLAN.queries * format.bytes());
        let all: usize = done.report.stages.iter().map(|stage| stage.threads).sum();
        assert_eq!(all, 4 * threads + 2);
    }
}

#[test]
fn files_of_jpeg_are_the_same_on_every_machine() {
    let plan = Plan {
        format: Format::Jpeg,
        ..PLAN
    };
    let (_, _, reference) = corpus_of(plan, "jpeg", SEARCH);
    let corpus = "bda769abc0f5182b8ac5c30466757db7b6d5545d0a3451312146d0bf200b74ee";
    assert_eq!(reference.facts.corpus.sha256, corpus);
    assert_eq!(
        reference.facts.output_sha256,
        "0b6d1e435f9c4e0fdb929f98e2918107d3854e1e7cd8b94cca73fe4c20fa2285"
    );
    assert!(reference.facts.recall > 0.8);
}

#[test]
fn one_bucket_for_all_finds_all_and_fine_ones_less() {
    let index = Settings {
        width: 100_000,
        ..SEARCH.index
    };
    let candidates = PLAN.images;
    let (_, _, whole) = corpus(
        "whole",
        Search {
            candidates,
            index,
            ..SEARCH
        },
    );
    assert!((whole.facts.recall - 1.0).abs() < 1e-12);
    let index = Settings {
        width: 1,
        ..SEARCH.index
    };
    let (_, _, fine) = corpus("fine", Search { index, ..SEARCH });
    assert!(fine.facts.recall < 0.5);
}

#[test]
fn the_nearest_are_of_the_same_class() {
    let (_, _, reference) = corpus("classes", SEARCH);
    for (query, exact) in reference.exact.iter().enumerate() {
        let class = (PLAN.images + query) % PLAN.classes;
        assert_eq!(exact.len(), SEARCH.k);
        assert_eq!(exact[0] as usize % PLAN.classes, class);
    }
}

#[test]
fn what_is_missing_or_changed_is_said() {
    let (corpus, kept, _) = corpus("missing-images", SEARCH);
    let says = |corpus: &Path, reference: &Path| {
        let options = Options {
            corpus: corpus.to_owned(),
            reference: reference.to_owned(),
            source: Source::Memory,
            threads: 1,
        };
        format!("{:#}", run(&options).err().unwrap())
    };
    let gone = corpus.with_file_name("gone");
    assert!(says(&gone, &kept).contains("there is no corpus"));
    assert!(says(&corpus, &gone).contains("there is no reference of ferret's"));
    assert!(says(&corpus, &corpus).contains("there is no reference of ferret's"));
    let bytes = std::fs::read(&corpus).unwrap();
    std::fs::write(&corpus, &bytes[1..]).unwrap();
    assert!(says(&corpus, &kept).contains("not what it was made with"));
    let mut changed = bytes;
    changed[70_000] ^= 1;
    std::fs::write(&corpus, changed).unwrap();
    let refusal = Reference::make(&corpus, SEARCH).err().unwrap();
    assert!(refusal.to_string().contains("not what it was made as"));
}
