//! The viewers that are there, in slots that are used again when they have gone.

/// Bits of a slot's number in an event's, and one for [`Session::late`]; the rest is its generation.
const BITS: u32 = 33;
const GENERATIONS: u32 = 1 << (61 - BITS);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Session {
    /// Counted in the order of arrival.
    pub(super) number: u64,
    /// When it asked last.
    pub(super) requested: u64,
    /// While it watches, when it will have seen enough; else how long it has to watch.
    pub(super) watch: u64,
    /// It has watched before.
    pub(super) served: bool,
    /// It was not served as it came, or not until its end: it will go at another time than offered.
    pub(super) late: bool,
    /// It has lost its node before.
    pub(super) affected: bool,
}

/// All of them. What is not needed of a session is not kept: most are served as they come and go when
/// they have seen enough, and of these only the generation is, which lie close together.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    kept: Vec<Session>,
    /// Timers that were set for another session in that slot, or for what is past, are not of this.
    generations: Vec<u32>,
    free: Vec<u32>,
}

impl Sessions {
    #[inline]
    pub(super) fn open(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        self.generations.push(0);
        u32::try_from(self.generations.len() - 1).expect("memory ends before slots do")
    }

    /// For `get`.
    #[inline]
    pub(super) fn keep(&mut self, slot: u32, session: Session) {
        let place = slot as usize;
        if place >= self.kept.len() {
            self.kept.resize(place + 1, Session::default());
        }
        self.kept[place] = session;
    }

    /// What was kept last.
    #[inline]
    pub(super) fn get(&self, slot: u32) -> Session {
        self.kept[slot as usize]
    }

    /// Its timers are past.
    #[inline]
    pub(super) fn close(&mut self, slot: u32) {
        self.renew(slot);
        self.free.push(slot);
    }

    /// Timers that were set before are past.
    #[inline]
    pub(super) fn renew(&mut self, slot: u32) {
        let generation = &mut self.generations[slot as usize];
        *generation = (*generation + 1) % GENERATIONS;
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.generations.len() - self.free.len()
    }

    /// A number for a timer of this session as it is now.
    #[inline]
    pub(super) fn timer(&self, slot: u32, late: bool) -> u64 {
        let generation = u64::from(self.generations[slot as usize]);
        generation << BITS | u64::from(slot) << 1 | u64::from(late)
    }

    /// Is the timer of a session that was late then?
    #[inline]
    pub(super) fn late(timer: u64) -> bool {
        timer & 1 == 1
    }

    /// Whom a timer concerns. None: it is past.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the two parts of a timer's number"
    )]
    pub(super) fn of_timer(&self, timer: u64) -> Option<u32> {
        let slot = (timer >> 1) as u32;
        let generation = (timer >> BITS) as u32;
        (self.generations[slot as usize] == generation).then_some(slot)
    }
}
