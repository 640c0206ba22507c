//! How long whoever waits for a message looks for it before it lets the scheduler wake it up.

/// The next message of a synchronisation mostly comes sooner, and being woken up takes longer than a
/// message, and not always as long. In nanoseconds.
pub(super) const MOST_NS: u64 = 200_000;
/// After so long it is another synchronisation, with its own luck.
const LATER_NS: u64 = 10_000_000;

/// Where both sides are on one core, each waits for the other to stop looking: whoever looked in vain
/// once does not look again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience {
    since_ns: u64,
    vain: bool,
}

impl Patience {
    pub fn begin(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
    }

    /// Looking on is not worth it. (A clock that is slewed may seem to stand, but not to run
    /// backwards.)
    pub fn over(&self, now_ns: u64) -> bool {
        self.vain || now_ns.saturating_sub(self.since_ns) >= MOST_NS
    }

    pub fn met(&mut self, now_ns: u64) {
        let took_ns = now_ns.saturating_sub(self.since_ns);
        self.vain = took_ns < LATER_NS && (self.vain || took_ns >= MOST_NS);
        self.since_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_cores_it_looks_all_the_time() {
        let mut patience = Patience::default();
        patience.begin(1_000_000);
        for now_ns in (1_100_000..3_000_000).step_by(100_000) {
            assert!(!patience.over(now_ns));
            patience.met(now_ns);
        }
        assert!(patience.over(3_200_000));
    }

    /// The other side runs only when we sleep.
    #[test]
    fn on_one_core_it_gives_up() {
        let mut patience = Patience::default();
        patience.begin(0);
        patience.met(210_000);
        for now_ns in [260_000, 320_000] {
            assert!(patience.over(patience.since_ns));
            patience.met(now_ns);
        }
        patience.met(1_000_000_000);
        assert!(!patience.over(1_000_150_000));
    }
}
