//! What ferret needs and has to find: the segments of the database, the exact answers, and the output of
//! one thread.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::features::{Segment, extract};
use super::images::Corpus;
use super::search::{Database, recall};
use super::segment::segment;
use super::{Search, answer, line};
use crate::{digest, manifest};

/// What is kept beside a corpus.
#[derive(Serialize, Deserialize)]
pub struct Reference {
    /// Under the name that references on disks have it by.
    #[serde(rename = "known")]
    pub facts: ReferenceFacts,
    /// The segments of each image of the database.
    pub database: Vec<Vec<Segment>>,
    /// For each query the numbers of the k nearest images, by comparing with all.
    pub exact: Vec<Vec<u32>>,
}

/// What the results are compared with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReferenceFacts {
    pub corpus: Corpus,
    pub search: Search,
    pub output_sha256: String,
    pub recall: f64,
}

impl Reference {
    /// Makes it, by one thread, stage after stage.
    ///
    /// # Errors
    /// When the corpus is missing or is not what its manifest says.
    pub fn make(path: &Path, search: Search) -> Result<Self> {
        let corpus: Corpus = manifest::load(path)?;
        let bytes = std::fs::read(path)
            .with_context(|| format!("there is no corpus {}", path.display()))?;
        let (images, format) = (corpus.plan.images, corpus.plan.format);
        ensure!(
            bytes.len() == (images + corpus.plan.queries) * format.bytes()
                && digest::of_bytes(&bytes) == corpus.sha256,
            "the corpus {} is not what it was made as",
            path.display()
        );
        let described = |image: &[u8]| {
            let pixels = format.pixels(image.to_vec())?;
            Ok(extract(&pixels, &segment(&pixels)))
        };
        let places = bytes.chunks_exact(format.bytes());
        let mut database = places
            .map(described)
            .collect::<Result<Vec<Vec<Segment>>>>()?;
        let queries = database.split_off(images);
        let searched = Database::new(database.clone(), search.index);
        let (mut exact, mut answers, mut output) = (Vec::new(), Vec::new(), String::new());
        for (number, query) in queries.iter().enumerate() {
            let nearest = searched.exact(query, search.k);
            exact.push(nearest.iter().map(|hit| hit.image).collect());
            let candidates = searched.candidates(query, search.candidates);
            let hits = answer(&searched, query, &candidates, search);
            output.push_str(&line(number, &hits));
            answers.push(hits.iter().map(|hit| hit.image).collect());
        }
        let facts = ReferenceFacts {
            corpus,
            search,
            output_sha256: digest::of_bytes(output.as_bytes()),
            recall: recall(&answers, &exact),
        };
        Ok(Self {
            facts,
            database,
            exact,
        })
    }
}
