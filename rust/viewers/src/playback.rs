//! A player: what it fetches when, and where its picture stood still. Pure arithmetic.
//!
//! The video is fetched in chunks. Playing begins when as many chunks as the buffer holds are there;
//! from then on a chunk is due when there is room for it, which is when playing has come to as many
//! chunks before it. A video that is sent faster than it plays is due at that pace, and what is ahead
//! grows. A chunk is needed when playing comes to it. One that is not there then is a
//! *violation* of real time, from that instant until it is there; playing, and all that is due or
//! needed later, is put off by as long.

use serde::{Deserialize, Serialize};

/// A video as a sequence of chunks.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    bytes: u64,
    chunk: u64,
    bitrate: u64,
    /// Bits a second at which it is fetched: as many as it plays, or more.
    sent: u64,
    /// Chunks in the buffer, one at least.
    ahead: u64,
}

impl Plan {
    /// All numbers are above zero; a buffer of less than a chunk is one chunk.
    pub fn new(bytes: u64, chunk: u64, bitrate: u64, buffer_ns: u64) -> Self {
        let mut plan = Self {
            bytes,
            chunk,
            bitrate,
            sent: bitrate,
            ahead: 1,
        };
        let buffered = u128::from(buffer_ns) * u128::from(bitrate);
        let of_chunk = u128::from(chunk) * 8_000_000_000;
        let ahead = u64::try_from(buffered.div_ceil(of_chunk)).unwrap_or(u64::MAX);
        plan.ahead = ahead.clamp(1, plan.chunks());
        plan
    }

    /// Sent at a rate of its own, that of playing at least.
    pub fn sent_at(self, rate: u64) -> Self {
        Self {
            sent: rate.max(self.bitrate),
            ..self
        }
    }

    pub fn chunks(&self) -> u64 {
        self.bytes.div_ceil(self.chunk)
    }

    /// First byte and the one after the last.
    pub fn range(&self, chunk: u64) -> (u64, u64) {
        let from = chunk * self.chunk;
        (from, (from + self.chunk).min(self.bytes))
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn chunk_bytes(&self) -> u64 {
        self.chunk
    }

    /// From the first picture to the last.
    pub fn duration_ns(&self) -> u64 {
        time_ns(self.bytes, self.bitrate)
    }

    /// From the first byte to the last, at the pace at which it is sent.
    pub fn sending_ns(&self) -> u64 {
        time_ns(self.bytes, self.sent)
    }

    /// Until playing comes to a chunk.
    fn reach_ns(&self, chunk: u64) -> u64 {
        time_ns(chunk * self.chunk, self.bitrate)
    }

    /// Until so many chunks are sent.
    fn sent_ns(&self, chunks: u64) -> u64 {
        time_ns(chunks * self.chunk, self.sent)
    }
}

/// How long so many bytes take at a rate in bits a second.
fn time_ns(bytes: u64, rate: u64) -> u64 {
    let ns = u128::from(bytes) * 8_000_000_000 / u128::from(rate);
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// The picture stood still.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Violation {
    pub at_ns: u64,
    pub length_ns: u64,
}

/// How far a viewer has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Player {
    /// Chunks that are there.
    fetched: u64,
    /// When playing would have begun without the violations since; 0: it has not begun.
    zero_ns: u64,
}

/// When the next chunk is to be fetched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Next {
    /// Playing has not begun: as soon as possible.
    Now,
    At(u64),
    /// All are there. Playing ends at this instant.
    End(u64),
}

impl Player {
    pub fn fetched(&self) -> u64 {
        self.fetched
    }

    pub fn plays(&self) -> bool {
        self.zero_ns > 0
    }

    pub fn next(&self, plan: &Plan) -> Next {
        if self.fetched == plan.chunks() {
            Next::End(self.zero_ns + plan.duration_ns())
        } else if self.plays() {
            // It plays, so the first chunks are there: `got` is not below `ahead`.
            Next::At(self.zero_ns + plan.sent_ns(self.fetched - plan.ahead))
        } else {
            Next::Now
        }
    }

    /// The next chunk is there.
    pub fn complete(&mut self, plan: &Plan, now_ns: u64) -> Option<Violation> {
        let violation = self.standing(plan, now_ns);
        self.fetched += 1;
        if let Some(Violation { length_ns, .. }) = violation {
            self.zero_ns += length_ns;
        } else if !self.plays() && self.fetched >= plan.ahead {
            self.zero_ns = now_ns.max(1);
        }
        violation
    }

    /// The violation that has not ended, if there is one now.
    pub fn standing(&self, plan: &Plan, now_ns: u64) -> Option<Violation> {
        let at_ns = self.zero_ns + plan.reach_ns(self.fetched);
        let stands = self.plays() && self.fetched < plan.chunks() && now_ns > at_ns;
        stands.then(|| Violation {
            at_ns,
            length_ns: now_ns - at_ns,
        })
    }

    /// How long the chunks of this range take at the pace at which they are sent.
    pub fn between_ns(plan: &Plan, from: u64, to: u64) -> u64 {
        plan.sent_ns(to) - plan.sent_ns(from)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: u64 = 1_000_000_000;

    /// Ten chunks of a second, two in the buffer.
    fn plan() -> Plan {
        Plan::new(1000, 100, 800, 2 * S)
    }

    #[test]
    fn chunks_are_due_when_there_is_room_for_them() {
        let (plan, mut player) = (plan(), Player::default());
        assert_eq!(player.next(&plan), Next::Now);
        assert_eq!(player.complete(&plan, 5 * S), None);
        assert_eq!(player.next(&plan), Next::Now);
        assert_eq!(player.complete(&plan, 6 * S), None);
        // It plays now, and the third has room at once.
        assert_eq!(player.next(&plan), Next::At(6 * S));
        assert_eq!(player.complete(&plan, 6 * S + 7), None);
        assert_eq!(player.next(&plan), Next::At(7 * S));
        for _ in 3..10 {
            assert_eq!(player.complete(&plan, 7 * S), None);
        }
        assert_eq!(player.next(&plan), Next::End(16 * S));
    }

    #[test]
    fn what_is_late_puts_off_all_that_follows() {
        let (plan, mut player) = (plan(), Player::default());
        player.complete(&plan, S);
        player.complete(&plan, S);
        assert_eq!(player.standing(&plan, 3 * S), None);
        let late = Violation {
            at_ns: 3 * S,
            length_ns: S / 2,
        };
        assert_eq!(player.standing(&plan, 3 * S + S / 2), Some(late));
        assert_eq!(player.complete(&plan, 3 * S + S / 2), Some(late));
        // The buffer is empty: the next two have room.
        assert_eq!(player.next(&plan), Next::At(2 * S + S / 2));
        assert_eq!(player.complete(&plan, 4 * S + S / 2), None);
        assert_eq!(player.next(&plan), Next::At(3 * S + S / 2));
    }

    #[test]
    fn what_is_sent_faster_than_it_plays_is_there_earlier_and_ends_no_earlier() {
        let (plan, mut player) = (plan().sent_at(1000), Player::default());
        for now in [5 * S, 6 * S] {
            assert_eq!(player.next(&plan), Next::Now);
            player.complete(&plan, now);
        }
        // It plays from 6 s on: a chunk for each 0.8 s, where a second of it is played in one.
        for tenths in [60, 68, 76, 84, 92, 100, 108, 116] {
            assert_eq!(player.next(&plan), Next::At(tenths * S / 10));
            assert_eq!(player.complete(&plan, tenths * S / 10), None);
        }
        assert_eq!(player.next(&plan), Next::End(16 * S));
        assert_eq!(plan.sending_ns(), 8 * S);
    }

    #[test]
    fn what_is_ahead_of_the_picture_outlasts_a_pause_of_the_sender() {
        let late = 10 * S + S / 2;
        for (plan, stood) in [(plan(), true), (plan().sent_at(1600), false)] {
            let mut player = Player::default();
            player.complete(&plan, S);
            player.complete(&plan, S);
            while let Next::At(due) = player.next(&plan) {
                if due >= 5 * S {
                    break;
                }
                assert_eq!(player.complete(&plan, due), None);
            }
            // At 5 s six chunks are there, or all ten of them.
            assert_eq!(player.standing(&plan, late).is_some(), stood);
        }
    }

    #[test]
    fn a_video_of_one_chunk_or_a_buffer_over_all_of_it() {
        for plan in [Plan::new(10, 100, 80, 0), Plan::new(10, 3, 80, 100 * S)] {
            let mut player = Player::default();
            for _ in 0..plan.chunks() {
                assert_eq!(player.next(&plan), Next::Now);
                assert_eq!(player.complete(&plan, 5), None);
            }
            assert_eq!(player.next(&plan), Next::End(S + 5));
        }
    }

    proptest! {
        /// Whatever takes how long: the pieces are the whole, nothing is due before the buffer has
        /// room, and the picture moved for exactly the video's length.
        #[test]
        fn played_and_stood_still_add_up(
            bytes in 1u64..5000, chunk in 1u64..700, bitrate in 8u64..100_000, buffer_ns in 0..5 * S,
            waits in prop::collection::vec(0..2 * S, 1..50), faster in 0u64..100_000,
        ) {
            let plan = Plan::new(bytes, chunk, bitrate, buffer_ns).sent_at(bitrate + faster);
            let (mut player, mut now, mut end, mut began) = (Player::default(), 17u64, 0, 0);
            let (mut stood, mut last) = (0, 0);
            for (index, wait) in (0..plan.chunks()).zip(waits.iter().cycle()) {
                let (from, to) = plan.range(index);
                prop_assert_eq!(from, end);
                end = to;
                if let Next::At(due) = player.next(&plan) {
                    prop_assert!(player.fetched() >= plan.ahead);
                    now = now.max(due);
                }
                now += wait;
                if let Some(violation) = player.complete(&plan, now) {
                    prop_assert!(violation.at_ns >= last, "one after the other");
                    last = violation.at_ns + violation.length_ns;
                    prop_assert_eq!(last, now);
                    stood += violation.length_ns;
                }
                if began == 0 && player.plays() {
                    began = now;
                }
            }
            prop_assert_eq!(end, bytes);
            prop_assert_eq!(player.next(&plan), Next::End(began + plan.duration_ns() + stood));
        }
    }
}
