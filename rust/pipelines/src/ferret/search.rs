//! Searching a database of segmented images: candidates by the index, ranks by the earth mover's distance.

use std::collections::HashMap;

use super::emd::emd;
use super::features::Segment;
use super::lsh::{Index, Settings};

/// An image of the database and its distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hit {
    pub distance: u64,
    pub image: u32,
}

/// The images that are searched.
pub struct Database {
    images: Vec<Vec<Segment>>,
    index: Index,
}

impl Database {
    #[must_use]
    pub fn new(images: Vec<Vec<Segment>>, settings: Settings) -> Self {
        let index = Index::new(settings, images.iter().map(Vec::as_slice));
        Self { images, index }
    }

    /// The images that share most with the query, by the weight of its segments that fall into a bucket
    /// with one of theirs; at most so many, ties by number.
    #[must_use]
    pub fn candidates(&self, query: &[Segment], most: usize) -> Vec<u32> {
        let mut shared: HashMap<u32, u32> = HashMap::new();
        for segment in query {
            for image in self.index.near(segment) {
                *shared.entry(image).or_default() += segment.weight;
            }
        }
        let mut candidates: Vec<(u32, u32)> = shared.into_iter().collect();
        candidates.sort_unstable_by_key(|&(image, weight)| (std::cmp::Reverse(weight), image));
        candidates.truncate(most);
        candidates.into_iter().map(|(image, _)| image).collect()
    }

    /// The k nearest of some images, the nearest first, ties by number.
    pub fn rank(&self, query: &[Segment], among: impl Iterator<Item = u32>, k: usize) -> Vec<Hit> {
        let hit = |image| Hit {
            distance: emd(query, &self.images[image as usize]),
            image,
        };
        let mut hits: Vec<Hit> = among.map(hit).collect();
        hits.sort_unstable();
        hits.truncate(k);
        hits
    }

    /// The k nearest of all: what the index may miss.
    #[must_use]
    pub fn exact(&self, query: &[Segment], k: usize) -> Vec<Hit> {
        self.rank(query, (0..).take(self.images.len()), k)
    }
}

/// Share of the exact hits that were found, over all queries.
#[must_use]
#[allow(clippy::cast_precision_loss)] // Counts of hits.
pub fn recall(answers: &[Vec<u32>], exact: &[Vec<u32>]) -> f64 {
    let pairs = answers.iter().zip(exact);
    let right: usize = pairs
        .map(|(answers, exact)| exact.iter().filter(|image| answers.contains(image)).count())
        .sum();
    let all: usize = exact.iter().map(Vec::len).sum();
    right as f64 / all as f64
}
