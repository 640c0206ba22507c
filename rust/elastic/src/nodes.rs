//! The nodes, found by how full they are.

#![expect(
    clippy::inline_always,
    reason = "two nodes' lists change with each event of a simulation, millions a second"
)]

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde::Serialize;

use crate::bitset::BitSet;
use crate::config::Placement;
use crate::event::NodeId;
use crate::intrusive_list::IntrusiveList;
use crate::rings::Rings;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    Coming,
    Ready,
    Leaving,
}

#[derive(Clone, Copy, Debug)]
pub struct Node {
    pub id: NodeId,
    pub state: NodeState,
    pub viewers: u32,
    /// Those that it serves.
    pub seats: IntrusiveList,
    /// Since when it has been idle.
    since: u64,
    used: bool,
}

/// The list of those where nobody watches any more, in the order in which they became so. The lists
/// after it are of one viewer, of two and so on, up to those that are full.
const SPENT: u32 = 0;

impl Node {
    /// Where it is listed while it is ready.
    #[inline(always)]
    fn list(&self, room: u32) -> u32 {
        if self.used { self.viewers } else { fresh(room) }
    }
}

/// The list of those where nobody has watched yet, after those that are full.
const fn fresh(room: u32) -> u32 {
    room + 1
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
    /// Those that are ready: each list as its nodes came to it.
    lists: Rings,
    /// Which lists are not empty, of the spent and of those with viewers and room for more.
    marks: BitSet,
    /// How many there are in two of the lists.
    spent: u32,
    fresh: u32,
}

impl Nodes {
    pub fn new(room: u32) -> Self {
        Self {
            room,
            all: Vec::new(),
            free: Vec::new(),
            slots: HashMap::default(),
            next: 0,
            lists: Rings::new(room + 2),
            marks: BitSet::new(room as usize + 2),
            spent: 0,
            fresh: 0,
        }
    }

    #[inline]
    pub fn get(&self, slot: u32) -> &Node {
        &self.all[slot as usize]
    }

    #[inline]
    pub fn seats(&mut self, slot: u32) -> &mut IntrusiveList {
        &mut self.all[slot as usize].seats
    }

    pub fn find(&self, node: NodeId) -> Option<u32> {
        self.slots.get(&node).copied()
    }

    /// There are ids left for another node.
    pub fn can_come(&self) -> bool {
        self.next < NodeId::MAX
    }

    /// Adds a node that is coming.
    #[inline(never)]
    pub fn come(&mut self) -> NodeId {
        let node = Node {
            id: self.next,
            state: NodeState::Coming,
            viewers: 0,
            seats: IntrusiveList::EMPTY,
            since: 0,
            used: false,
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

    #[inline(never)]
    pub fn ready(&mut self, slot: u32, at: u64) {
        let node = &mut self.all[slot as usize];
        node.state = NodeState::Ready;
        node.since = at;
        self.list(slot, fresh(self.room));
    }

    /// An idle one begins to leave.
    #[inline(never)]
    pub fn leave(&mut self, slot: u32) -> NodeId {
        let node = &mut self.all[slot as usize];
        node.state = NodeState::Leaving;
        let (id, list) = (node.id, node.list(self.room));
        self.unlist(slot, list);
        id
    }

    #[inline(never)]
    pub fn forget(&mut self, slot: u32) -> Node {
        let node = self.all[slot as usize];
        if node.state == NodeState::Ready {
            self.unlist(slot, node.list(self.room));
        }
        self.slots.remove(&node.id);
        self.free.push(slot);
        node
    }

    /// The one to send the next viewer to. None: there is no room.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a list's number was put there"
    )]
    pub fn with_room(&self, placement: Placement) -> Option<u32> {
        let listed = |list: Option<usize>| list.and_then(|list| self.lists.last(list as u32));
        let fresh = || self.lists.last(fresh(self.room));
        match placement {
            Placement::Fullest => listed(self.marks.last()).or_else(fresh),
            Placement::Emptiest => {
                let idle = self.lists.last(SPENT).or_else(fresh);
                idle.or_else(|| listed(self.marks.first()))
            }
        }
    }

    /// The one that has been spent longest.
    pub fn first_spent(&self) -> Option<u32> {
        self.lists.first(SPENT)
    }

    /// The one that has been fresh longest.
    pub fn first_fresh(&self) -> Option<u32> {
        self.lists.first(fresh(self.room))
    }

    /// A ready one has one viewer more.
    #[inline(always)]
    pub fn add(&mut self, slot: u32) {
        let node = &mut self.all[slot as usize];
        let (from, to) = (node.list(self.room), node.viewers + 1);
        node.viewers = to;
        node.used = true;
        self.shift(slot, from, to);
    }

    /// A ready one has one viewer less.
    #[inline(always)]
    pub fn subtract(&mut self, slot: u32, at: u64) {
        let node = &mut self.all[slot as usize];
        let (from, to) = (node.viewers, node.viewers - 1);
        node.viewers = to;
        node.since = at;
        self.shift(slot, from, to);
    }

    #[inline]
    pub fn spent(&self) -> u32 {
        self.spent
    }

    #[inline]
    pub fn fresh(&self) -> u32 {
        self.fresh
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

    /// Moves a node from list to list.
    #[inline(always)]
    fn shift(&mut self, slot: u32, from: u32, to: u32) {
        self.unlist(slot, from);
        self.list(slot, to);
    }

    #[inline(always)]
    fn list(&mut self, slot: u32, list: u32) {
        self.lists.push(list, slot);
        self.moved(list, 1);
    }

    #[inline(always)]
    fn unlist(&mut self, slot: u32, list: u32) {
        self.lists.remove(slot);
        self.moved(list, -1);
    }

    /// So many more are in a list.
    #[inline(always)]
    fn moved(&mut self, list: u32, more: i32) {
        if list == SPENT || list == fresh(self.room) {
            self.count_idle(list, more);
        }
        // Both are looked at, so that nothing has to be guessed.
        let marked = (list < self.room) & !self.lists.is_empty(list);
        self.marks.put(list as usize, marked);
    }

    /// Seldom, so out of the way.
    #[cold]
    fn count_idle(&mut self, list: u32, more: i32) {
        let count = if list == SPENT {
            &mut self.spent
        } else {
            &mut self.fresh
        };
        *count = count.wrapping_add_signed(more);
    }
}
