//! How long whoever waits for a message looks for it before it lets the scheduler wake it up.

/// At first, in nanoseconds: as long as a message takes between two cores.
const LEAST_NS: u64 = 30_000;
/// Never longer.
pub(super) const MOST_NS: u64 = 200_000;
/// After so long it is another synchronisation, with its own luck.
const LATER_NS: u64 = 10_000_000;

/// Being woken up takes longer than a message, and not always as long, so it is worth looking: twice
/// as long as the last message took. But where both sides are on one core, each waits for the other to
/// stop looking; whoever looked in vain does not do it again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    since_ns: u64,
    most_ns: u64,
    futile: bool,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            since_ns: 0,
            most_ns: LEAST_NS,
            futile: false,
        }
    }
}

impl Patience {
    /// The waiting begins.
    pub fn begin(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
    }

    /// It has lasted for so long that looking on is not worth it. (A clock that is slewed may seem to
    /// stand, but not to run backwards.)
    pub fn over(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.since_ns) >= self.most_ns
    }

    /// A message came; whether whoever waited was awake.
    pub fn met(&mut self, now_ns: u64, awake: bool) {
        let took_ns = now_ns.saturating_sub(self.since_ns);
        self.futile = match took_ns {
            LATER_NS.. => false,
            _ => self.futile || !awake && self.most_ns > LEAST_NS,
        };
        self.most_ns = match took_ns {
            _ if self.futile => 0,
            0..=MOST_NS => (2 * took_ns).clamp(LEAST_NS, MOST_NS),
            _ => LEAST_NS,
        };
        self.since_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 µs there and back: the first wakes us up, all others find us awake.
    #[test]
    fn over_a_network_it_learns_how_long_to_look() {
        let mut patience = Patience::default();
        patience.begin(1_000_000);
        assert!(!patience.over(1_029_999) && patience.over(1_030_000));
        patience.met(1_100_000, false);
        assert!(!patience.over(1_299_999) && patience.over(1_300_000));
        patience.met(1_200_000, true);
        assert!(!patience.over(1_399_999));
    }

    /// The other side runs only when we sleep.
    #[test]
    fn on_one_core_it_gives_up() {
        let mut patience = Patience::default();
        patience.begin(0);
        patience.met(60_000, false);
        assert!(!patience.over(100_000));
        patience.met(200_000, false);
        for now_ns in [260_000, 320_000] {
            assert!(patience.over(patience.since_ns));
            patience.met(now_ns, false);
        }
        patience.met(1_000_000_000, false);
        patience.met(1_000_060_000, false);
        assert!(!patience.over(1_000_150_000));
    }
}
