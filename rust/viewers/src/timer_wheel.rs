//! A hashed timing wheel of two levels: one timer for each index, set and cancelled at the same cost
//! however many there are. A timer never fires before its instant, and is looked at on the tick after.
//!
//! G. Varghese, T. Lauck: Hashed and hierarchical timing wheels (SOSP 1987), scheme 7.

const NONE: u32 = u32::MAX;
/// Slots of the first level, a tick each.
const NEAR: u64 = 4096;
/// Slots of the second, as long as all of the first.
const FAR: u64 = 1024;
#[expect(clippy::cast_possible_truncation, reason = "5,120")]
const SLOTS: usize = (NEAR + FAR) as usize;

#[derive(Clone, Copy)]
struct Entry {
    due_ns: u64,
    next: u32,
    previous: u32,
    /// NONE: no timer.
    slot: u32,
}

const IDLE: Entry = Entry {
    due_ns: 0,
    next: NONE,
    previous: NONE,
    slot: NONE,
};

pub struct Wheel {
    tick_ns: u64,
    /// The first tick that was not looked at yet.
    current: u64,
    entries: Vec<Entry>,
    heads: Vec<u32>,
    /// A bit for each slot that has timers.
    occupied: [u64; SLOTS / 64],
}

impl Wheel {
    /// A wheel with ticks of this length. No timer can be due before `now_ns`.
    pub fn new(tick_ns: u64, now_ns: u64) -> Self {
        Self {
            tick_ns,
            current: now_ns / tick_ns,
            entries: Vec::new(),
            heads: vec![NONE; SLOTS],
            occupied: [0; SLOTS / 64],
        }
    }

    /// Sets the index's timer, in place of the one it has.
    pub fn set(&mut self, index: u32, due_ns: u64) {
        self.cancel(index);
        if self.entries.len() <= index as usize {
            self.entries.resize(index as usize + 1, IDLE);
        }
        let slot = self.slot(due_ns);
        let next = std::mem::replace(&mut self.heads[slot as usize], index);
        self.entries[index as usize] = Entry {
            due_ns,
            next,
            previous: NONE,
            slot,
        };
        if next != NONE {
            self.entries[next as usize].previous = index;
        }
        self.occupied[slot as usize / 64] |= 1 << (slot % 64);
    }

    #[expect(clippy::cast_possible_truncation, reason = "below 5,120")]
    fn slot(&self, due_ns: u64) -> u32 {
        let tick = due_ns.div_ceil(self.tick_ns).max(self.current);
        let (block, now) = (tick / NEAR, self.current / NEAR);
        if block == now {
            (tick % NEAR) as u32
        } else {
            // Later than all of the wheel: looked at again when that has passed.
            (NEAR + block.min(now + FAR - 1) % FAR) as u32
        }
    }

    pub fn cancel(&mut self, index: u32) {
        let Some(&Entry {
            next,
            previous,
            slot,
            ..
        }) = self.entries.get(index as usize)
        else {
            return;
        };
        if slot == NONE {
            return;
        }
        if previous == NONE {
            self.heads[slot as usize] = next;
            if next == NONE {
                self.occupied[slot as usize / 64] &= !(1 << (slot % 64));
            }
        } else {
            self.entries[previous as usize].next = next;
        }
        if next != NONE {
            self.entries[next as usize].previous = previous;
        }
        self.entries[index as usize].slot = NONE;
    }

    /// When to call `expire` next: what is due first is due by then.
    pub fn next_ns(&self) -> Option<u64> {
        let within = self.current % NEAR;
        if let Some(slot) = self.first(within, NEAR) {
            return Some((self.current - within + slot) * self.tick_ns);
        }
        let block = self.current / NEAR;
        let turn = block % FAR;
        let slot = self
            .first(NEAR + turn, NEAR + FAR)
            .map(|slot| slot - NEAR - turn)
            .or_else(|| Some(self.first(NEAR, NEAR + turn)? - NEAR + FAR - turn))?;
        Some((block + slot) * NEAR * self.tick_ns)
    }

    /// The first slot with timers in this range.
    fn first(&self, from: u64, to: u64) -> Option<u64> {
        let mut at = from;
        while at < to {
            let word = self.occupied[(at / 64) as usize] >> (at % 64);
            if word != 0 {
                let slot = at + u64::from(word.trailing_zeros());
                return (slot < to).then_some(slot);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// All timers that are due: their indices and instants are pushed.
    pub fn expire(&mut self, now_ns: u64, due: &mut Vec<(u32, u64)>) {
        let last = now_ns / self.tick_ns;
        while self.current <= last {
            let within = self.current % NEAR;
            let block_ends = self.current - within + NEAR;
            let until = block_ends.min(last + 1);
            match self.first(within, within + until - self.current) {
                Some(slot) => {
                    self.current += slot - within;
                    self.drain(slot, |entry, index| due.push((index, entry.due_ns)));
                }
                None if until == block_ends => self.enter(block_ends),
                None => self.current = until,
            }
        }
    }

    /// Enters a block of the first level: its timers come down from the second.
    fn enter(&mut self, tick: u64) {
        self.current = tick;
        let mut moved = Vec::new();
        self.drain(NEAR + tick / NEAR % FAR, |entry, index| {
            moved.push((index, entry.due_ns));
        });
        for (index, due_ns) in moved {
            self.set(index, due_ns);
        }
    }

    fn drain(&mut self, slot: u64, mut visit: impl FnMut(&Entry, u32)) {
        #[expect(clippy::cast_possible_truncation, reason = "below 5,120")]
        let slot = slot as usize;
        let mut index = std::mem::replace(&mut self.heads[slot], NONE);
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        while index != NONE {
            let entry = &mut self.entries[index as usize];
            entry.slot = NONE;
            visit(entry, index);
            index = entry.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Set(u32, u64),
        Cancel(u32),
        Pass(u64),
        Wait,
    }

    fn step() -> impl Strategy<Value = Step> {
        let far = prop_oneof![0..3000u64, 0..1_000_000u64, 0..300_000_000u64];
        prop_oneof![
            4 => (0..20u32, far.clone()).prop_map(|(index, ahead)| Step::Set(index, ahead)),
            1 => (0..20u32).prop_map(Step::Cancel),
            2 => far.prop_map(Step::Pass),
            2 => Just(Step::Wait),
        ]
    }

    proptest! {
        /// Against a sorted map: nothing early, nothing later than a tick, nothing lost.
        #[test]
        fn timers_fire_once_when_they_are_due(
            tick in 1..50u64, start in 0..10_000_000u64, steps in prop::collection::vec(step(), 1..200),
        ) {
            let (mut wheel, mut now) = (Wheel::new(tick, start), start);
            let mut model = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Set(index, ahead) => {
                        wheel.set(index, now + ahead);
                        model.insert(index, now + ahead);
                    }
                    Step::Cancel(index) => {
                        wheel.cancel(index);
                        model.remove(&index);
                    }
                    Step::Pass(ahead) => now += ahead,
                    Step::Wait => {
                        prop_assert_eq!(wheel.next_ns().is_some(), !model.is_empty());
                        now = now.max(wheel.next_ns().unwrap_or(0));
                    }
                }
                let mut due = Vec::new();
                wheel.expire(now, &mut due);
                for (index, due_ns) in due {
                    prop_assert!(due_ns <= now, "early");
                    prop_assert_eq!(model.remove(&index), Some(due_ns));
                }
                prop_assert!(model.values().all(|due_ns| due_ns + tick > now), "late");
                if let (Some(next), Some(first)) = (wheel.next_ns(), model.values().min()) {
                    // What is set for a tick that was looked at already comes with the next one.
                    prop_assert!(next <= first + tick, "it would be slept through");
                }
            }
        }
    }

    #[test]
    fn a_timer_far_beyond_the_wheel_comes_too() {
        let mut wheel = Wheel::new(10, 0);
        let due_ns = 3 * NEAR * FAR * 10 + 5;
        wheel.set(3, due_ns);
        let mut due = Vec::new();
        let mut turns = 0;
        while due.is_empty() {
            let now = wheel.next_ns().expect("it is there");
            wheel.expire(now, &mut due);
            turns += 1;
        }
        assert_eq!(due, [(3, due_ns)]);
        assert!(turns < 10);
        assert_eq!(wheel.next_ns(), None);
    }
}
