//! RGAP's rules, one by one, on a quiet network.

use ullage_clock::rgap::double::{Net, Path};
use ullage_clock::rgap::{
    Action, Body, Client, Drift, Failure, Global, LENGTH, Message, Rules, Server, Standing, Stop,
    Token,
};

const SECOND: u64 = 1_000_000_000;
const TOKEN: Token = Token([1; 16]);

fn quiet(there_ns: u64, back_ns: u64) -> Net {
    let path = |least_ns| Path {
        least_ns,
        ..Path::default()
    };
    Net::new([path(there_ns), path(back_ns)], 300, 1)
}

#[test]
fn on_a_quiet_network_it_is_the_published_rule() {
    let mut net = quiet(5_000, 5_000);
    net.server().step(1 << 50);
    let outcome = net.synchronise(Rules::PUBLISHED).expect("synchronised");
    // D and N.
    assert_eq!((outcome.stop, outcome.counts.sent), (Stop::Alike, 25));
    assert_eq!(outcome.took_ns, 25 * 10_300);
    assert_eq!(
        (outcome.fix.offset_ns, outcome.fix.rtt_ns),
        (1 << 50, 10_000)
    );
    // 100 ppm of the 10.3 us that an exchange takes are 2 ns.
    assert_eq!(outcome.fix.half_ns, 5_000 + 2 + 2);
}

#[test]
fn all_delay_on_one_way_is_just_inside() {
    for (there_ns, back_ns, offset_ns) in [(10_000, 0, 5_000), (0, 10_000, -5_000)] {
        let outcome = quiet(there_ns, back_ns).synchronise(Rules::PUBLISHED);
        let fix = outcome.expect("synchronised").fix;
        assert_eq!((fix.offset_ns, fix.half_ns), (offset_ns, 5_004));
    }
}

#[test]
fn a_restless_network_ends_at_the_caps_with_a_bound() {
    let restless = Path {
        jitter_ns: 20_000,
        ..Path::default()
    };
    let mut net = Net::new([restless; 2], 0, 7);
    let outcome = net.synchronise(Rules::PUBLISHED).expect("synchronised");
    assert_eq!(outcome.stop, Stop::Time);
    assert_eq!(outcome.took_ns, 1_000_000);
    let patient = Rules {
        time_ns: SECOND,
        spread_ns: 1,
        ..Rules::PUBLISHED
    };
    let outcome = net.synchronise(patient).expect("synchronised");
    assert_eq!((outcome.stop, outcome.counts.sent), (Stop::Messages, 100));
    assert!(outcome.fix.offset_ns.unsigned_abs() <= outcome.fix.half_ns);
    assert!(outcome.fix.half_ns < 10_000);
}

/// Longer than the cap: the first exchange is waited for, and is all there is.
#[test]
fn a_slow_network_gives_one_exchange_within_a_cap_on_time() {
    let rules = Rules {
        time_ns: Rules::LEAST_NS,
        ..Rules::PUBLISHED
    };
    let outcome = quiet(30_000_000, 20_000_000).synchronise(rules);
    let outcome = outcome.expect("synchronised");
    assert_eq!((outcome.stop, outcome.counts.answers), (Stop::Time, 1));
    assert_eq!(outcome.counts.lost, outcome.counts.sent - 1);
    assert_eq!(outcome.fix.half_ns, 25_000_000 + 5_001 + 2);
}

/// The published network's round trip, and slower ones: 1 ms alone would end it after 12 exchanges
/// there, and leave none from 125 us on the 8 that the statistical bound needs.
#[test]
fn the_cap_on_time_follows_the_round_trip() {
    for rtt_ns in [89_000, 1_000_000, 10_000_000] {
        let mut net = quiet(rtt_ns / 2, rtt_ns / 2);
        let outcome = net.synchronise(Rules::PUBLISHED).expect("synchronised");
        assert_eq!((outcome.stop, outcome.counts.answers), (Stop::Alike, 25));
        assert!(outcome.fix.sure_ns < outcome.fix.half_ns / 8, "{outcome:?}");
        let within = Rules {
            time_ns: Rules::LEAST_NS,
            ..Rules::PUBLISHED
        };
        let few = net.synchronise(within).expect("synchronised");
        assert_eq!(few.stop, Stop::Time);
        assert!(few.counts.answers <= 12);
        let bounded = few.fix.sure_ns < few.fix.half_ns;
        assert_eq!(bounded, rtt_ns < 125_000);
    }
    let restless = Path {
        least_ns: 500_000,
        jitter_ns: 400_000,
        ..Path::default()
    };
    let outcome = Net::new([restless; 2], 0, 3).synchronise(Rules::PUBLISHED);
    let outcome = outcome.expect("synchronised");
    assert_eq!(outcome.stop, Stop::Time);
    assert_eq!(
        outcome.took_ns,
        Rules::PUBLISHED.longest_ns(outcome.fix.rtt_ns)
    );
}

/// Issue 3: 11.25 ppm, error at 10 s at most 100 ns after a rate estimate.
#[test]
fn ten_seconds_at_a_known_rate() {
    let mut net = quiet(2_000, 2_000);
    net.server().skew(11_250);
    let first = net.synchronise(Rules::PUBLISHED).expect("synchronised").fix;
    net.pass(10 * SECOND);
    let last = net.synchronise(Rules::PUBLISHED).expect("synchronised").fix;
    let global = Global::fit(&[first, last], &Drift::USUAL).expect("agree");
    net.pass(10 * SECOND);
    let (local, truth) = net.clocks();
    assert!(global.at(local).ns.abs_diff(truth) <= 100);
    let once = Global::once(&last, &Drift::USUAL).at(local);
    assert!(once.ns.abs_diff(truth) >= 112_000 && once.bound_ns >= 1_000_000);
}

/// A server whose clock is stepped in the middle, or which lies: no average of that is returned.
#[test]
fn answers_that_cannot_all_be_true_end_it() {
    let mut client = Client::new(Rules::PUBLISHED, TOKEN, 1_000);
    let mut server = Server::new(TOKEN);
    for (now, instants) in [(1_000, [5_000, 5_100]), (2_000, [50_000, 50_100])] {
        let bytes = sent(&mut client, now);
        let pending = server.receive(&bytes, instants[0]).expect("request");
        let answer = pending.answer(instants[1], Standing::ROOT);
        client.receive(&answer, now + 1_000, true);
    }
    let contradiction = Action::Done(Err(Failure::Contradiction));
    assert_eq!(client.poll(3_000), contradiction);
    assert_eq!(client.poll(9_000), contradiction);
    let mut backwards = Client::new(Rules::PUBLISHED, TOKEN, 1_000);
    assert_eq!(backwards.poll(999), contradiction);
}

fn sent(client: &mut Client, now_ns: u64) -> [u8; LENGTH] {
    match client.poll(now_ns) {
        Action::Send(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

/// Everything but the answer to the last request is ignored, and counted.
#[test]
fn only_what_was_asked_for_is_taken() {
    let mut client = Client::new(Rules::PUBLISHED, TOKEN, 1_000);
    let request = Message::parse(&sent(&mut client, 1_000)).expect("request");
    let body = Body::Response {
        t2: 5,
        t3: 5,
        standing: Standing::ROOT,
    };
    let answer = Message { body, ..request };
    let late = Message {
        sequence: request.sequence.wrapping_sub(1),
        ..answer
    };
    let early = Message { t1: 999, ..answer };
    let foreign = Message {
        token: Token([2; 16]),
        ..answer
    };
    for message in [late, early, foreign, request] {
        client.receive(&message.encode(), 2_000, true);
    }
    client.receive(&answer.encode()[1..], 2_000, true);
    let counts = client.counts();
    assert_eq!(
        (counts.answers, counts.old, counts.foreign, counts.malformed),
        (0, 2, 1, 2)
    );
    client.receive(&answer.encode(), 2_000, true);
    client.receive(&answer.encode(), 2_100, true);
    assert_eq!((client.counts().answers, client.counts().old), (1, 3));
    sent(&mut client, 2_200);
    client.receive(&answer.encode(), 2_300, true);
    assert_eq!((client.counts().answers, client.counts().old), (1, 4));
}

/// The waits double, and the patience ends it.
#[test]
fn nobody_there() {
    let deaf = Path {
        lost: 1_000,
        ..Path::default()
    };
    let mut net = Net::new([deaf; 2], 0, 1);
    let before = net.clocks().0;
    assert_eq!(net.synchronise(Rules::PUBLISHED), Err(Failure::NoAnswer));
    assert_eq!(net.clocks().0 - before, SECOND);
    let silent = Rules {
        messages: 1,
        ..Rules::PUBLISHED
    };
    assert_eq!(quiet(1, 1).synchronise(silent), Err(Failure::NoAnswer));
}
