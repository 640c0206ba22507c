//! The viewers that wait or are served, by slot; how a viewer's id leads to its slot.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::event::ClientId;
use crate::intrusive_list::{IntrusiveList, Linked, Links, NONE};

/// Finds a viewer's slot.
pub trait Index: Default {
    /// Where a viewer would be if it is present.
    fn find(&self, client: ClientId) -> Option<u32>;

    /// A slot for a viewer that is not present. None: there are no more.
    fn claim(&mut self, client: ClientId) -> Option<u32>;

    /// A viewer has left its slot.
    fn free(&mut self, client: ClientId, slot: u32);
}

/// Any ids.
#[derive(Clone, Debug, Default)]
pub struct Hashed {
    slots: HashMap<ClientId, u32, RandomState>,
    free: Vec<u32>,
    claimed: u32,
}

impl Index for Hashed {
    fn find(&self, client: ClientId) -> Option<u32> {
        self.slots.get(&client).copied()
    }

    fn claim(&mut self, client: ClientId) -> Option<u32> {
        let slot = self.free.pop().or_else(|| {
            let slot = self.claimed;
            self.claimed += u32::from(slot < NONE);
            (slot < NONE).then_some(slot)
        })?;
        self.slots.insert(client, slot);
        Some(slot)
    }

    fn free(&mut self, client: ClientId, slot: u32) {
        self.slots.remove(&client);
        self.free.push(slot);
    }
}

/// Ids that are small, because their giver gives them again when a viewer has gone: a viewer is in the
/// slot of its own number. Memory is taken for the largest.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dense;

impl Index for Dense {
    #[inline]
    fn find(&self, client: ClientId) -> Option<u32> {
        u32::try_from(client).ok()
    }

    #[inline]
    fn claim(&mut self, client: ClientId) -> Option<u32> {
        u32::try_from(client).ok().filter(|slot| *slot != NONE)
    }

    #[inline]
    fn free(&mut self, _client: ClientId, _slot: u32) {}
}

/// Where a viewer is: at a node, by its slot, or one of these.
const WAITS: u32 = NONE - 1;
const ABSENT: u32 = NONE;

#[derive(Clone, Copy, Debug)]
struct Viewer {
    client: ClientId,
    node: u32,
    links: Links,
}

impl Linked for Viewer {
    #[inline]
    fn links(&self) -> &Links {
        &self.links
    }

    #[inline]
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// What a present viewer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Waits,
    /// At the node in this slot.
    At(u32),
}

/// All viewers that are present.
#[derive(Clone, Debug)]
pub struct Present<I> {
    index: I,
    all: Vec<Viewer>,
    waiting: IntrusiveList,
}

impl<I: Index> Present<I> {
    pub fn new() -> Self {
        Self {
            index: I::default(),
            all: Vec::new(),
            waiting: IntrusiveList::EMPTY,
        }
    }

    #[inline]
    pub fn find(&self, client: ClientId) -> Option<(u32, Place)> {
        let slot = self.index.find(client)?;
        match self.all.get(slot as usize)?.node {
            ABSENT => None,
            WAITS => Some((slot, Place::Waits)),
            node => Some((slot, Place::At(node))),
        }
    }

    /// A slot for one that is not present yet: in no list. None: there are too many.
    #[inline]
    pub fn enter(&mut self, client: ClientId) -> Option<u32> {
        let slot = self.index.claim(client)?;
        let at = slot as usize;
        if at >= self.all.len() {
            let absent = Viewer {
                client,
                node: ABSENT,
                links: Links::ALONE,
            };
            self.all.resize(at + 1, absent);
        }
        self.all[at].client = client;
        Some(slot)
    }

    /// One that is in no list goes.
    #[inline]
    pub fn leave(&mut self, slot: u32) -> ClientId {
        let viewer = &mut self.all[slot as usize];
        viewer.node = ABSENT;
        let client = viewer.client;
        self.index.free(client, slot);
        client
    }

    /// One that is in no list begins to wait, behind the others.
    pub fn wait(&mut self, slot: u32) {
        self.all[slot as usize].node = WAITS;
        self.waiting.push(&mut self.all, slot);
    }

    pub fn first_waiting(&self) -> Option<u32> {
        self.waiting.first()
    }

    /// One that waits does so no longer, and is in no list.
    pub fn stop_waiting(&mut self, slot: u32) -> ClientId {
        self.waiting.remove(&mut self.all, slot);
        self.all[slot as usize].client
    }

    /// One that is in no list is served by a node, and in its list.
    #[inline]
    pub fn seat(&mut self, slot: u32, node: u32, seats: &mut IntrusiveList) {
        self.all[slot as usize].node = node;
        seats.push(&mut self.all, slot);
    }

    /// One that is served is so no longer, and is in no list.
    #[inline]
    pub fn unseat(&mut self, slot: u32, seats: &mut IntrusiveList) {
        seats.remove(&mut self.all, slot);
    }

    pub fn waiting(&self) -> impl Iterator<Item = ClientId> {
        self.in_chain(self.waiting)
    }

    pub fn in_chain(&self, chain: IntrusiveList) -> impl Iterator<Item = ClientId> {
        let all = &self.all;
        chain.iter(all).map(|slot| all[slot as usize].client)
    }
}
