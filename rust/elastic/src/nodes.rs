//! The nodes, found by how full they are.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::chain::{Chain, Linked, Links};
use crate::config::Placement;
use crate::event::NodeId;
use crate::machine::NodeState;
use crate::marks::Marks;

#[derive(Clone, Copy, Debug)]
pub struct Node {
    pub id: NodeId,
    pub state: NodeState,
    pub viewers: u32,
    /// Those that it serves.
    pub seats: Chain,
    /// Since when it has been idle.
    since: u64,
    used: bool,
    links: Links,
}

impl Linked for Node {
    #[inline]
    fn links(&self) -> &Links {
        &self.links
    }

    #[inline]
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// Nodes without viewers.
#[derive(Clone, Copy, Debug)]
struct Idle {
    chain: Chain,
    count: u32,
}

impl Idle {
    const NONE: Self = Self {
        chain: Chain::EMPTY,
        count: 0,
    };
}

/// All nodes that there are. Those that are ready are listed by their number of viewers; of several
/// with as many, the last that came to it is taken.
#[derive(Clone, Debug)]
pub struct Nodes {
    room: u32,
    all: Vec<Node>,
    free: Vec<u32>,
    slots: HashMap<NodeId, u32, RandomState>,
    next: NodeId,
    /// By number of viewers: those that have some and room for more.
    by_viewers: Vec<Chain>,
    /// Which of these are not empty.
    marks: Marks,
    /// Nobody watches there any more; in the order in which they became so.
    spent: Idle,
    /// Nobody has watched there yet; in the order in which they became ready.
    fresh: Idle,
}

impl Nodes {
    pub fn new(room: u32) -> Self {
        Self {
            room,
            all: Vec::new(),
            free: Vec::new(),
            slots: HashMap::default(),
            next: 0,
            by_viewers: vec![Chain::EMPTY; room as usize],
            marks: Marks::new(room as usize),
            spent: Idle::NONE,
            fresh: Idle::NONE,
        }
    }

    #[inline]
    pub fn get(&self, slot: u32) -> &Node {
        &self.all[slot as usize]
    }

    #[inline]
    pub fn seats(&mut self, slot: u32) -> &mut Chain {
        &mut self.all[slot as usize].seats
    }

    pub fn find(&self, node: NodeId) -> Option<u32> {
        self.slots.get(&node).copied()
    }

    /// Another can be had, as far as numbers go.
    pub fn can_come(&self) -> bool {
        self.next < NodeId::MAX
    }

    /// A new one, that comes.
    pub fn come(&mut self) -> NodeId {
        let node = Node {
            id: self.next,
            state: NodeState::Coming,
            viewers: 0,
            seats: Chain::EMPTY,
            since: 0,
            used: false,
            links: Links::ALONE,
        };
        let slot = if let Some(slot) = self.free.pop() {
            self.all[slot as usize] = node;
            slot
        } else {
            self.all.push(node);
            // There are no more of them than ids.
            u32::try_from(self.all.len() - 1).unwrap_or(u32::MAX)
        };
        self.slots.insert(node.id, slot);
        self.next += 1;
        node.id
    }

    pub fn ready(&mut self, slot: u32, at: u64) {
        let node = &mut self.all[slot as usize];
        node.state = NodeState::Ready;
        node.since = at;
        self.list(slot);
    }

    /// An idle one begins to leave.
    pub fn leave(&mut self, slot: u32) -> NodeId {
        self.unlist(slot);
        let node = &mut self.all[slot as usize];
        node.state = NodeState::Leaving;
        node.id
    }

    /// It is no more.
    pub fn forget(&mut self, slot: u32) -> Node {
        let node = self.all[slot as usize];
        if node.state == NodeState::Ready {
            self.unlist(slot);
        }
        self.slots.remove(&node.id);
        self.free.push(slot);
        node
    }

    /// The one to send the next viewer to. None: there is no room.
    #[inline]
    pub fn with_room(&self, placement: Placement) -> Option<u32> {
        let idle = || self.spent.chain.last().or_else(|| self.fresh.chain.last());
        let listed = |viewers: Option<usize>| viewers.and_then(|n| self.by_viewers[n].last());
        match placement {
            Placement::Fullest => listed(self.marks.last()).or_else(idle),
            Placement::Emptiest => idle().or_else(|| listed(self.marks.first())),
        }
    }

    /// The one that has been spent longest.
    pub fn first_spent(&self) -> Option<u32> {
        self.spent.chain.first()
    }

    /// The one that has been fresh longest.
    pub fn first_fresh(&self) -> Option<u32> {
        self.fresh.chain.first()
    }

    /// A ready one has one viewer more.
    #[inline]
    pub fn add(&mut self, slot: u32) {
        self.unlist(slot);
        let node = &mut self.all[slot as usize];
        node.viewers += 1;
        node.used = true;
        self.list(slot);
    }

    /// A ready one has one viewer less.
    #[inline]
    pub fn subtract(&mut self, slot: u32, at: u64) {
        self.unlist(slot);
        let node = &mut self.all[slot as usize];
        node.viewers -= 1;
        node.since = at;
        self.list(slot);
    }

    #[inline]
    pub fn spent(&self) -> u32 {
        self.spent.count
    }

    #[inline]
    pub fn fresh(&self) -> u32 {
        self.fresh.count
    }

    /// Since when the first spent one has been spent.
    #[inline]
    pub fn spent_since(&self) -> Option<u64> {
        self.first_spent().map(|slot| self.get(slot).since)
    }

    /// The same of the fresh.
    #[inline]
    pub fn fresh_since(&self) -> Option<u64> {
        self.first_fresh().map(|slot| self.get(slot).since)
    }

    /// All, in the order in which they were asked for.
    pub fn in_order(&self) -> Vec<&Node> {
        let mut nodes: Vec<_> = self.slots.values().map(|slot| self.get(*slot)).collect();
        nodes.sort_unstable_by_key(|node| node.id);
        nodes
    }

    #[inline]
    fn list(&mut self, slot: u32) {
        let Node { viewers, used, .. } = self.all[slot as usize];
        if viewers == 0 {
            let idle = if used {
                &mut self.spent
            } else {
                &mut self.fresh
            };
            idle.count += 1;
            idle.chain.push(&mut self.all, slot);
        } else if viewers < self.room {
            let place = viewers as usize;
            if self.by_viewers[place].is_empty() {
                self.marks.set(place);
            }
            self.by_viewers[place].push(&mut self.all, slot);
        }
    }

    #[inline]
    fn unlist(&mut self, slot: u32) {
        let Node { viewers, used, .. } = self.all[slot as usize];
        if viewers == 0 {
            let idle = if used {
                &mut self.spent
            } else {
                &mut self.fresh
            };
            idle.count -= 1;
            idle.chain.remove(&mut self.all, slot);
        } else if viewers < self.room {
            let place = viewers as usize;
            self.by_viewers[place].remove(&mut self.all, slot);
            if self.by_viewers[place].is_empty() {
                self.marks.clear(place);
            }
        }
    }
}
