//! ferret: the same answers with every number of threads, and all of them when nothing is left out.

use std::path::{Path, PathBuf};

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
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&directory); // Of an earlier run.
    std::fs::create_dir_all(&directory).unwrap();
    let (path, kept) = (directory.join("corpus"), directory.join("reference"));
    Corpus::make(PLAN, &path).unwrap();
    let reference = Reference::make(&path, search).unwrap();
    manifest::write(&kept, &reference).unwrap();
    (path, kept, reference)
}

#[test]
fn answers_do_not_depend_on_threads_or_source() {
    let (corpus, kept, reference) = corpus("answers", SEARCH);
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
        let all: usize = done.report.stages.iter().map(|stage| stage.threads).sum();
        assert_eq!(all, 4 * threads + 2);
    }
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
