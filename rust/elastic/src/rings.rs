//! Lists of slots whose ends are no special case. Each list is a ring that begins and ends at a head of
//! its own; heads and slots lie in one row, so that to put a slot in, or take it out of the middle, is
//! the same few writes whatever else is in the list.

/// Where a head or a slot is in its ring, as places in the row.
#[derive(Clone, Copy, Debug)]
struct Links {
    before: u32,
    after: u32,
}

/// All lists; a slot is in one at most.
#[derive(Clone, Debug)]
pub struct Rings {
    heads: u32,
    links: Vec<Links>,
}

impl Rings {
    /// Empty lists, so many.
    pub fn new(lists: u32) -> Self {
        let alone = |place| Links {
            before: place,
            after: place,
        };
        Self {
            heads: lists,
            links: (0..lists).map(alone).collect(),
        }
    }

    #[inline]
    pub fn first(&self, list: u32) -> Option<u32> {
        self.links[list as usize].after.checked_sub(self.heads)
    }

    #[inline]
    pub fn last(&self, list: u32) -> Option<u32> {
        self.links[list as usize].before.checked_sub(self.heads)
    }

    #[inline]
    pub fn is_empty(&self, list: u32) -> bool {
        self.links[list as usize].after == list
    }

    /// Appends a slot that is in no list.
    #[inline]
    pub fn push(&mut self, list: u32, slot: u32) {
        let place = self.heads + slot;
        let links = Links {
            before: self.links[list as usize].before,
            after: list,
        };
        if let Some(own) = self.links.get_mut(place as usize) {
            *own = links;
        } else {
            self.links.resize(place as usize + 1, links);
        }
        self.links[links.before as usize].after = place;
        self.links[list as usize].before = place;
    }

    /// Takes a slot out of its list.
    #[inline]
    pub fn remove(&mut self, slot: u32) {
        let Links { before, after } = self.links[(self.heads + slot) as usize];
        self.links[before as usize].after = after;
        self.links[after as usize].before = before;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ends_are_those_of_rows(moves in prop::collection::vec((0_u32..9, 0_u32..4), 1..80)) {
            let mut rings = Rings::new(3);
            let mut rows = [const { Vec::new() }; 3];
            for (slot, list) in moves {
                if let Some(row) = rows.iter_mut().find(|row| row.contains(&slot)) {
                    row.retain(|other| *other != slot);
                    rings.remove(slot);
                }
                // The fourth: it is in none.
                if let Some(row) = rows.get_mut(list as usize) {
                    row.push(slot);
                    rings.push(list, slot);
                }
                for (list, row) in (0..).zip(&rows) {
                    prop_assert_eq!(rings.first(list), row.first().copied());
                    prop_assert_eq!(rings.last(list), row.last().copied());
                    prop_assert_eq!(rings.is_empty(list), row.is_empty());
                }
            }
        }
    }
}
