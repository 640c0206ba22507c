//! Lists whose links are in what they list: anything is taken out of the middle at once, and nothing
//! is allocated for them.

pub const NONE: u32 = u32::MAX;

/// Where a thing is in its list.
#[derive(Clone, Copy, Debug)]
pub struct Links {
    before: u32,
    after: u32,
}

impl Links {
    pub const ALONE: Self = Self {
        before: NONE,
        after: NONE,
    };
}

/// What can be in a list, in one at a time.
pub trait Linked {
    fn links(&self) -> &Links;
    fn links_mut(&mut self) -> &mut Links;
}

/// A list of slots of a slice; the caller gives the same slice each time.
#[derive(Clone, Copy, Debug)]
pub struct IntrusiveList {
    first: u32,
    last: u32,
}

impl IntrusiveList {
    pub const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
    };

    pub fn first(self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    pub fn last(self) -> Option<u32> {
        (self.last != NONE).then_some(self.last)
    }

    /// At the end, something that is in no list.
    pub fn push<T: Linked>(&mut self, all: &mut [T], slot: u32) {
        *all[slot as usize].links_mut() = Links {
            before: self.last,
            after: NONE,
        };
        match self.last() {
            Some(last) => all[last as usize].links_mut().after = slot,
            None => self.first = slot,
        }
        self.last = slot;
    }

    /// Something that is in this list.
    pub fn remove<T: Linked>(&mut self, all: &mut [T], slot: u32) {
        let Links { before, after } = *all[slot as usize].links();
        if before == NONE {
            self.first = after;
        } else {
            all[before as usize].links_mut().after = after;
        }
        if after == NONE {
            self.last = before;
        } else {
            all[after as usize].links_mut().before = before;
        }
    }

    /// From the first to the last.
    pub fn iter<T: Linked>(self, all: &[T]) -> impl Iterator<Item = u32> {
        std::iter::successors(self.first(), |slot| {
            let after = all[*slot as usize].links().after;
            (after != NONE).then_some(after)
        })
    }
}
