//! The hosts that nodes are made on: how full each is, and whether it has the image.

use std::collections::BTreeSet;

use super::spec::{HostPlacement, Hosts};

#[derive(Debug)]
pub(super) struct Room {
    nodes_each: u32,
    placement: HostPlacement,
    loads: Vec<u32>,
    has_image: Vec<bool>,
    by_load: BTreeSet<(u32, u32)>,
}

impl Room {
    pub(super) fn new(hosts: &Hosts) -> Self {
        let numbers = 0..hosts.count;
        Self {
            nodes_each: hosts.nodes_each,
            placement: hosts.placement,
            loads: numbers.clone().map(|_| 0).collect(),
            has_image: numbers.clone().map(|_| false).collect(),
            by_load: numbers.map(|host| (0, host)).collect(),
        }
    }

    /// A place for a node. None: all are full.
    pub(super) fn take(&mut self) -> Option<u32> {
        let mut with_room = self.by_load.range(..(self.nodes_each, 0));
        let (_, host) = *match self.placement {
            HostPlacement::Spread => with_room.next(),
            HostPlacement::Pack => with_room.next_back(),
        }?;
        self.change(host, |load| load + 1);
        Some(host)
    }

    pub(super) fn give_back(&mut self, host: u32) {
        self.change(host, |load| load - 1);
    }

    fn change(&mut self, host: u32, to: impl Fn(u32) -> u32) {
        let load = &mut self.loads[host as usize];
        self.by_load.remove(&(*load, host));
        *load = to(*load);
        self.by_load.insert((*load, host));
    }

    pub(super) fn has_image(&self, host: u32) -> bool {
        self.has_image[host as usize]
    }

    /// A node on it is ready: its image is there.
    pub(super) fn got_image(&mut self, host: u32) {
        self.has_image[host as usize] = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(placement: HostPlacement) -> Room {
        Room::new(&Hosts {
            count: 3,
            nodes_each: 2,
            placement,
            first_image: None,
        })
    }

    #[test]
    fn nodes_are_spread_or_packed_until_all_is_full() {
        let mut spread = room(HostPlacement::Spread);
        let taken: Vec<_> = (0..7).map(|_| spread.take()).collect();
        assert_eq!(
            taken,
            [Some(0), Some(1), Some(2), Some(0), Some(1), Some(2), None]
        );
        let mut pack = room(HostPlacement::Pack);
        let taken: Vec<_> = (0..4).map(|_| pack.take()).collect();
        assert_eq!(taken, [Some(2), Some(2), Some(1), Some(1)]);
        pack.give_back(2);
        assert_eq!(pack.take(), Some(2));
    }
}
