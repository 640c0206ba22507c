//! What goes wrong: servers that are gone, slow or lie, clients off their core, clocks that jump, and
//! counters that promise less. All on doubles; over real sockets in the other files.

use proptest::prelude::*;
use ullage_clock::double::World;
use ullage_clock::rgap::double::{Net, Path, Tree};
use ullage_clock::rgap::{
    Action, Body, Client, Drift, Failure, Global, Message, Outcome, Rules, Standing, Stop, Token,
};
use ullage_clock::{Facts, Offset, Promise, Reasons, Scale, Shared, Synchrony};

const SECOND: u64 = 1_000_000_000;

fn even(least_ns: u64, jitter_ns: u64) -> [Path; 2] {
    [Path {
        least_ns,
        jitter_ns,
        ..Path::default()
    }; 2]
}

fn off(net: &Net, global: &Global) -> (u64, u64) {
    let (local, truth) = net.clocks();
    let reading = global.at(local);
    (reading.ns.abs_diff(truth), reading.hard_ns)
}

/// It answers twice, and then never again.
#[test]
fn a_server_that_goes_away_leaves_what_is_known() {
    let mut net = Net::new(even(2_000, 100), 300, 1);
    let first = net.synchronise(Rules::PUBLISHED).expect("synchronised");
    net.pass(SECOND);
    let global = Global::once(&first.fix, &Drift::USUAL);
    let deaf = Path {
        lost: 1_000,
        ..even(0, 0)[0]
    };
    net.reroute([deaf; 2]);
    assert_eq!(net.synchronise(Rules::PUBLISHED), Err(Failure::NoAnswer));
    let (off, hard) = off(&net, &global);
    // 2 s at 100 ppm.
    assert!(off <= hard && (200_000..203_000).contains(&hard), "{hard}");
}

/// What it takes to answer is not on the way, as long as it says so.
#[test]
fn a_slow_server_costs_time_but_no_precision() {
    let mut net = Net::new(even(2_000, 0), 400_000, 1);
    let outcome = net.synchronise(Rules::PUBLISHED).expect("synchronised");
    assert_eq!((outcome.stop, outcome.counts.answers), (Stop::Time, 2));
    assert_eq!(outcome.fix.rtt_ns, 4_000);
    // ρ of 404 us.
    assert_eq!(outcome.fix.half_ns, 2_000 + 41 + 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// However often and long the client is taken off its core, from its side, at most one exchange
    /// is beyond the caps: none begins after them.
    #[test]
    fn an_overrun_is_one_exchange_at_most(
        seed: u64,
        often in 0..=1_000_u64,
        most_ns in 0..20_000_000_u64,
        (least_ns, jitter_ns) in (0..100_000_u64, 0..100_000_u64),
        messages in 2..200_u32,
        time_ns in 1..2_000_000_u64,
    ) {
        let rules = Rules { messages, time_ns, ..Rules::PUBLISHED };
        let mut net = Net::new(even(least_ns, jitter_ns), 300, seed);
        net.disturb(often, most_ns);
        let before = net.clocks().0;
        match net.synchronise(rules) {
            Ok(Outcome { fix, counts, took_ns, .. }) => {
                prop_assert!(counts.sent + counts.answers <= messages);
                prop_assert_eq!(took_ns, net.clocks().0 - before);
                // Three naps fit in between: before it sends, before it looks, before it stops.
                let first = fix.local_ns - before;
                let exchange = 2 * (least_ns + jitter_ns) + 300;
                prop_assert!(took_ns <= time_ns.max(first) + exchange + 3 * most_ns + 3, "{took_ns}");
                let off = fix.offset_ns.unsigned_abs();
                prop_assert!(off <= fix.half_ns, "{fix:?}");
                prop_assert!(fix.sure_ns <= fix.half_ns);
            }
            Err(failure) => prop_assert_eq!(failure, Failure::NoAnswer),
        }
    }

    /// A clock of its own that jumps between any two looks: no request after the caps, and it ends.
    #[test]
    fn time_may_jump_between_looks(
        jumps in proptest::collection::vec(prop_oneof![0..100_u64, 0..SECOND], 1..600),
        answer in any::<bool>(),
    ) {
        let token = Token([5; 16]);
        let rules = Rules { time_ns: Rules::LEAST_NS, ..Rules::PUBLISHED };
        let mut now = 1_000;
        let mut client = Client::new(rules, token, now);
        let mut first = None;
        for jump in jumps.iter().cycle().take(5_000) {
            now += jump + 1;
            match client.poll(now) {
                Action::Send(bytes) => {
                    let began = first.map_or(rules.patience_ns, |_| rules.time_ns);
                    prop_assert!(now - 1_000 < began, "a request after {} ns", now - 1_000);
                    if answer {
                        let request = Message::parse(&bytes).expect("request");
                        now += jump;
                        let middle = request.t1 / 2 + now / 2;
                        let body = Body::Response { t2: middle, t3: middle, standing: Standing::ROOT };
                        client.receive(&Message { body, ..request }.encode(), now, true);
                        first = first.or(Some(now).filter(|_| client.counts().answers > 0));
                    }
                }
                Action::Wait { until_ns } => prop_assert!(until_ns > now),
                Action::Done(_) => break,
            }
        }
        let late = client.poll(now + rules.patience_ns);
        prop_assert!(matches!(late, Action::Done(_)), "{late:?}");
    }

    /// A server that says anything at all: either that is possible, within what is known of clocks and
    /// of causality, or it is a contradiction.
    #[test]
    fn a_liar_is_caught_or_within_its_own_bound(
        seed: u64,
        lies in proptest::collection::vec(-2_000_000..2_000_000_i64, 1..30),
    ) {
        let mut net = Net::new(even(5_000, 1_000), 300, seed);
        let mut next = lies.iter().cycle();
        let result = net.synchronise_with(Rules::PUBLISHED, |ns| {
            let lie = next.next().copied().unwrap_or(0);
            (ns.wrapping_add_signed(lie), Standing::ROOT)
        });
        match result {
            Err(failure) => prop_assert_eq!(failure, Failure::Contradiction),
            // Of one exchange, or of all: nobody can know how wrong the server is.
            Ok(outcome) => {
                let off = outcome.fix.offset_ns.unsigned_abs();
                let worst = lies.iter().map(|it| it.unsigned_abs()).max().unwrap_or(0);
                prop_assert!(off <= outcome.fix.half_ns + worst);
            }
        }
    }

    /// A server whose clock runs at a rate that no two oscillators are apart by: each synchronisation
    /// is consistent, but not two of them.
    #[test]
    fn an_impossible_rate_is_a_contradiction(seed: u64, ppb in prop_oneof![
        -900_000_000..-250_000_i64, 250_000..1_000_000_000_i64,
    ]) {
        let mut net = Net::new(even(5_000, 1_000), 300, seed);
        net.server().skew(ppb);
        let Ok(first) = net.synchronise(Rules::PUBLISHED) else { return Ok(()) };
        net.pass(SECOND);
        let Ok(last) = net.synchronise(Rules::PUBLISHED) else { return Ok(()) };
        prop_assert!(Global::fit(&[first.fix, last.fix], &Drift::USUAL).is_err());
    }

    /// Suspended in between: the client's counter stood still, or began anew.
    #[test]
    fn a_suspended_client_is_caught_by_the_next_one(seed: u64, asleep in SECOND..1_000 * SECOND, anew: bool) {
        let mut net = Net::new(even(5_000, 1_000), 300, seed);
        let first = net.synchronise(Rules::PUBLISHED).expect("synchronised").fix;
        net.pass(SECOND);
        net.server().pass(asleep);
        if anew {
            net.client().step(-(1 << 39));
        }
        let last = net.synchronise(Rules::PUBLISHED).expect("synchronised").fix;
        prop_assert!(Global::fit(&[first, last], &Drift::USUAL).is_err());
    }
}

/// Lies that contradict each other within one synchronisation.
#[test]
fn an_inconsistent_server() {
    let mut net = Net::new(even(5_000, 0), 300, 1);
    let mut calls = 0;
    let result = net.synchronise_with(Rules::PUBLISHED, |ns| {
        calls += 1;
        (ns + if calls > 20 { SECOND } else { 0 }, Standing::ROOT)
    });
    assert_eq!(result, Err(Failure::Contradiction));
}

/// A client that is off its core whenever an answer comes is not awake: no bound but the hard one.
#[test]
fn who_was_woken_has_only_the_hard_bound() {
    let mut net = Net::new(even(5_000, 0), 300, 1);
    net.disturb(1_000, 100_000);
    for _ in 0..50 {
        let outcome = net.synchronise(Rules::PUBLISHED).expect("synchronised");
        if !outcome.best.standing().awake {
            assert_eq!(outcome.fix.sure_ns, outcome.fix.half_ns);
        }
    }
    let mut net = Net::new(even(5_000, 0), 300, 1);
    let asleep = Standing {
        awake: false,
        ..Standing::ROOT
    };
    let outcome = net.synchronise_with(Rules::PUBLISHED, |ns| (ns, asleep));
    let fix = outcome.expect("synchronised").fix;
    assert_eq!((fix.sure_ns, fix.noise_ns), (fix.half_ns, fix.half_ns));
}

/// A machine whose counter is not invariant, or whose cores are apart: what the promise says of it is
/// in every time-stamp, and reaches whoever asks it, at any depth.
#[test]
fn what_a_counter_does_not_promise_is_told_down_the_tree() {
    let world = World::new(1_000_000_000, 2);
    let mut cores = Synchrony::alone(0);
    let (lowest, highest) = (9_000, 9_300);
    cores.add(1, Offset { lowest, highest }, 1_000);
    let apart = Facts {
        readable: true,
        invariant: true,
        paired: true,
        rate: Some(world.rate()),
        synchrony: Some(cores),
        ..Facts::default()
    };
    let variant = Facts {
        invariant: false,
        ..apart
    };
    for (facts, reason) in [
        (apart, Reasons::UNSYNCHRONISED),
        (variant, Reasons::NOT_INVARIANT),
    ] {
        let promise = Promise::decide(&facts);
        let scale = Scale::of(&promise.rate).expect("scale");
        let thread = world.thread(0);
        let shared = Shared::new(&thread, scale, promise.bridging, promise.drift_ppb, None);
        shared.blame(promise.reasons);
        assert!(shared.reasons().any(reason), "{}", shared.reasons());
        let path = even(5_000, 0);
        let mut tree = Tree::new(&[(0, path), (1, path)], 1);
        tree.happen(1, shared.reasons());
        for number in [1, 2] {
            let outcome = tree.synchronise(number, Rules::PUBLISHED, &Drift::USUAL);
            assert_eq!(
                outcome
                    .expect("synchronised")
                    .best
                    .standing()
                    .reasons
                    .any(reason),
                number == 2
            );
            assert!(tree.reading(number).1.reasons.any(reason));
        }
    }
}
