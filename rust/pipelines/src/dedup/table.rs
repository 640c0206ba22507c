//! Which chunks were seen: hash → identity, in shards, so that threads rarely wait for one another.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::container::Hash;

const SHARDS: usize = 256;

/// The key is random already: some of its bytes are hash enough.
#[derive(Default)]
struct Itself(u64);

impl Hasher for Itself {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(Ok(word)) = bytes.get(8..16).map(<[u8; 8]>::try_from) {
            self.0 = u64::from_le_bytes(word);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Shard = HashMap<Key, u32, BuildHasherDefault<Itself>>;

#[derive(PartialEq, Eq)]
struct Key(Hash);

impl std::hash::Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
    }
}

/// All chunks of a run: some 60 bytes for each unique one.
pub struct Table {
    shards: Vec<Mutex<Shard>>,
    next: AtomicU32,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            next: AtomicU32::new(0),
        }
    }
}

impl Table {
    /// The identity of a chunk, and whether it was not known before. Identities are given in the order
    /// of asking, which differs from run to run. The table has room for 2³² - 1.
    pub fn identify(&self, hash: &Hash) -> (u32, bool) {
        let mut shard = self.shards[usize::from(hash[0])]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut new = false;
        let identity = *shard.entry(Key(*hash)).or_insert_with(|| {
            new = true;
            self.next.fetch_add(1, Ordering::Relaxed)
        });
        (identity, new)
    }
}
