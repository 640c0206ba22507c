//! What the tests over streams have in common: this machine's clock on both sides.

use ullage_clock::Clock;
use ullage_clock::rgap::{
    Body, Channel, LENGTH, Message, Outcome, Rules, Standing, Token, synchronise,
};

pub const TOKEN: Token = Token(*b"through a stream");

/// The root's clock, which is everybody's.
pub fn now() -> (u64, Standing) {
    (Clock::get().ordered(), Standing::ROOT)
}

pub fn local() -> u64 {
    now().0
}

pub fn request(token: Token, sequence: u64) -> [u8; LENGTH] {
    Message {
        token,
        sequence,
        t1: 1,
        body: Body::Request,
    }
    .encode()
}

/// What is known of the offset.
pub fn is_zero(outcome: &Outcome) {
    // Cores may be apart by what the clock promises.
    let apart = Clock::get().promise().ordered_ns.unwrap_or(0);
    assert!(
        outcome.fix.offset_ns.unsigned_abs() <= outcome.fix.half_ns + apart,
        "{outcome:?}"
    );
    let counts = outcome.counts;
    assert!(counts.sent + counts.answers <= Rules::PUBLISHED.messages);
    assert_eq!((counts.malformed, counts.foreign), (0, 0));
}

/// On a busy machine it may take long until anybody answers.
pub fn patient() -> Rules {
    Rules {
        patience_ns: 10_000_000_000,
        ..Rules::PUBLISHED
    }
}

pub fn once(channel: &mut impl Channel) -> Outcome {
    let outcome = synchronise(channel, TOKEN, patient(), local);
    outcome.expect("open").expect("answered")
}
