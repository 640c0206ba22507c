//! One request with its answer, and what it says of the other clock.

use core::fmt;

use super::{Standing, drift_ns, ppt};

/// What was measured cannot be, if the clocks keep within the stated rate: one of them was stepped
/// or suspended, is far faster than stated, or somebody lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction;

impl fmt::Display for Contradiction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the two clocks contradict their stated rate: stepped, suspended, or a lie")
    }
}

impl core::error::Error for Contradiction {}

/// Four instants, in nanoseconds, and possible ones, with what the server says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    standing: Standing,
    t1: u64,
    t2: u64,
    t3: u64,
    t4: u64,
}

impl Exchange {
    /// Sent at `t1` and received back at `t4` by the client's clock; received at `t2` and answered at
    /// `t3` by the server's, which runs at the client's rate within `worst_ppb`. The standing's
    /// `awake` is that of both.
    ///
    /// # Errors
    /// If that cannot be: time ran backwards, the server took longer than the whole, or an instant
    /// is later than 2^63 ns.
    pub fn new(
        instants: [u64; 4],
        standing: Standing,
        worst_ppb: u32,
    ) -> Result<Self, Contradiction> {
        let [t1, t2, t3, t4] = instants;
        let fits = instants
            .iter()
            .all(|instant| i64::try_from(*instant).is_ok());
        let exchange = Self {
            standing,
            t1,
            t2,
            t3,
            t4,
        };
        if !fits || t4 < t1 || t3 < t2 {
            return Err(Contradiction);
        }
        let slack = 2 + i128::from(exchange.moved_ns(worst_ppb));
        if exchange.delay() < -slack {
            return Err(Contradiction);
        }
        Ok(exchange)
    }

    /// t1 to t4.
    #[must_use]
    pub fn instants(&self) -> [u64; 4] {
        [self.t1, self.t2, self.t3, self.t4]
    }

    /// What the server says of itself, and whether both sides were awake.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// δ: the round trip without the server's part of it; 0 if the clocks' rates make it negative.
    #[must_use]
    pub fn rtt_ns(&self) -> u64 {
        u64::try_from(self.delay()).unwrap_or(0)
    }

    fn delay(&self) -> i128 {
        (i128::from(self.t4) - i128::from(self.t1)) - (i128::from(self.t3) - i128::from(self.t2))
    }

    /// How far the offset moves while the exchange lasts.
    fn moved_ns(&self, worst_ppb: u32) -> u64 {
        drift_ns(ppt(worst_ppb), (self.t4 - self.t1).saturating_add(1))
    }

    /// θ, at t4; the floor of (θ₁ + θ₂)/2.
    pub(super) fn theta(&self) -> i64 {
        let there = i128::from(self.t2) - i128::from(self.t1);
        let back = i128::from(self.t3) - i128::from(self.t4);
        // The mean of two differences of instants below 2^63 fits.
        i64::try_from((there + back).div_euclid(2)).unwrap_or(0)
    }

    /// θ with its bound, at t4. A single exchange knows nothing of chance: all three bounds are hard.
    #[must_use]
    pub fn fix(&self, worst_ppb: u32) -> Fix {
        let half = self.rtt_ns().div_ceil(2);
        let half = half
            .saturating_add(self.moved_ns(worst_ppb))
            .saturating_add(2);
        Fix {
            local_ns: self.t4,
            offset_ns: self.theta(),
            half_ns: half.saturating_add(self.standing.hard_ns),
            sure_ns: half.saturating_add(self.standing.bound_ns),
            noise_ns: half.saturating_add(self.standing.bound_ns),
            rtt_ns: self.rtt_ns(),
        }
    }

    /// The same as the best of many, the best half of which have a θ of this standard deviation: see
    /// the formulas above. Where somebody was woken up, ways are not alike, and the hard bound is all
    /// there is.
    pub(super) fn best_of(&self, sd_ns: u64, worst_ppb: u32) -> Fix {
        let alone = self.fix(worst_ppb);
        if !self.standing.awake {
            return alone;
        }
        let noise = sd_ns.saturating_mul(QUANTILE).saturating_add(RESOLUTION_NS);
        let moved = self.moved_ns(worst_ppb);
        let unlike = self.rtt_ns().div_ceil(UNLIKE).max(CODE_NS);
        let noise_ns = noise.saturating_add(moved);
        let sure_ns = noise_ns.saturating_add(unlike);
        let behind = self.standing.bound_ns;
        Fix {
            sure_ns: sure_ns.saturating_add(behind).min(alone.sure_ns),
            noise_ns: noise_ns.saturating_add(behind).min(alone.noise_ns),
            ..alone
        }
    }
}

/// Student's t at 99.9 %, two-sided, for 9 degrees of freedom is 4.78, but the best exchange is better
/// than those that the standard deviation is of.
const QUANTILE: u64 = 4;
/// A clock is read some time between the beginning and the end of the instructions that do it.
const RESOLUTION_NS: u64 = 25;
/// Each way is assumed to take half of the round trip, give or take a twentieth of it. Between two
/// threads on the loopback, δ being 6.8 µs, 99.9 % of 3,000 synchronisations were off by less than
/// 5.7 % of it, what chance does included.
const UNLIKE: u64 = 20;
/// Nor is what either side does between its clock and the wire alike: two threads that exchange
/// messages in memory were off by up to 136 ns, always the same way, δ being 0.7 µs.
const CODE_NS: u64 = 150;

/// What an exchange says: at this local instant, the other clock was ahead by the offset, give or
/// take the half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fix {
    /// When, by the client's clock: t4.
    pub local_ns: u64,
    /// θ, the server's clock less the client's.
    pub offset_ns: i64,
    /// h: the offset is not further from θ than this, paths of any asymmetry included.
    pub half_ns: u64,
    /// The same in 99.9 % of all cases, if the paths are alike.
    pub sure_ns: u64,
    /// The part of it that another synchronisation on the same path would not share.
    pub noise_ns: u64,
    /// δ.
    pub rtt_ns: u64,
}

impl Fix {
    /// The time between two.
    #[must_use]
    pub fn apart_ns(&self, other: &Self) -> u64 {
        self.local_ns.abs_diff(other.local_ns)
    }

    /// Whether both can be true of clocks that keep within this rate.
    #[must_use]
    pub fn agrees(&self, other: &Self, worst_ppb: u32) -> bool {
        let drift = drift_ns(ppt(worst_ppb), self.apart_ns(other).saturating_add(1));
        let most = self
            .half_ns
            .saturating_add(other.half_ns)
            .saturating_add(drift);
        self.offset_ns.abs_diff(other.offset_ns) <= most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_in_rfc_5905_and_as_published() {
        let exchange =
            Exchange::new([1_000, 51_400, 51_400, 2_000], Standing::ROOT, 0).expect("possible");
        let fix = exchange.fix(0);
        // init_remote + RTT/2 − init_local.
        assert_eq!(fix.offset_ns, 51_400 + 500 - 2_000);
        assert_eq!((fix.local_ns, fix.rtt_ns, fix.half_ns), (2_000, 1_000, 502));
        let slow = Exchange::new([1_000, 51_400, 61_400, 12_000], Standing::ROOT, 100_000)
            .expect("possible");
        assert_eq!(
            (slow.fix(100_000).offset_ns, slow.rtt_ns()),
            (49_900, 1_000)
        );
        assert_eq!(slow.fix(100_000).half_ns, 502 + 2);
    }

    #[test]
    fn the_impossible_is_no_exchange() {
        let impossible = [
            [2_000, 5, 5, 1_000],
            [1_000, 6, 5, 2_000],
            [1_000, 5, 1_100, 2_000],
            [1_000, 1 << 63, 1 << 63, 2_000],
            [u64::MAX; 4],
        ];
        for instants in impossible {
            assert_eq!(
                Exchange::new(instants, Standing::ROOT, 100_000),
                Err(Contradiction),
                "{instants:?}"
            );
        }
        // The server may have counted a little more than the client, at this rate.
        assert!(Exchange::new([0, 5, 1_000_105, 1_000_000], Standing::ROOT, 100_000).is_ok());
    }

    #[test]
    fn extremes_do_not_overflow() {
        let last = (1 << 63) - 1;
        let exchange =
            Exchange::new([0, last, last, 0], Standing::ROOT, u32::MAX).expect("possible");
        assert_eq!(exchange.fix(u32::MAX).offset_ns, i64::MAX);
        let exchange = Exchange::new([0, 0, 0, last], Standing::ROOT, u32::MAX).expect("possible");
        assert!(exchange.fix(u32::MAX).half_ns > last);
    }
}
