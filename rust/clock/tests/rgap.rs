//! RGAP on a network that does everything to it, between clocks that keep within what is stated.

use proptest::prelude::*;
use ullage_clock::Reasons;
use ullage_clock::rgap::double::{Net, Path};
use ullage_clock::rgap::{
    Body, Client, Correction, Drift, Failure, Fix, Global, LENGTH, Message, Outcome, Reading,
    Rules, Server, Standing, Stop, Token,
};

const SECOND: u64 = 1_000_000_000;

/// How the two clocks run.
#[derive(Clone, Debug)]
struct Clocks {
    step: i64,
    /// Client, server: skew, wander, its period.
    sides: [(i64, i64, u64); 2],
}

impl Clocks {
    fn start(&self, net: &Net) {
        net.server().step(self.step);
        for (world, (skew, wander, period)) in [net.client(), net.server()].iter().zip(self.sides) {
            world.skew(skew);
            world.wander(wander, period);
        }
    }

    /// What is true of them, a little rounded up: rates are relative to the client's.
    fn drift(&self) -> Drift {
        let [(skew, wander, _), (other_skew, other_wander, _)] = self.sides;
        let wanders = wander.unsigned_abs() + other_wander.unsigned_abs();
        let part = |ppb: u64| u32::try_from(ppb + ppb / 1_000 + 1).expect("small");
        Drift {
            worst_ppb: part(skew.abs_diff(other_skew) + wanders),
            // The mean over the baseline may itself be at one end.
            wander_ppb: part(2 * wanders),
            baseline_ns: SECOND,
        }
    }
}

fn clocks() -> impl Strategy<Value = Clocks> {
    let sides = || (-100_000..=100_000_i64, 0..=2_000_i64, SECOND..300 * SECOND);
    let step = prop_oneof![-1_000..1_000_i64, -(1_i64 << 39)..1_i64 << 60];
    (step, sides(), sides()).prop_map(|(step, client, server)| Clocks {
        step,
        sides: [client, server],
    })
}

fn path(most_lost: u64) -> impl Strategy<Value = Path> {
    let delay = || prop_oneof![Just(0), 0..2_000_u64, 0..200_000_u64, 0..5_000_000_u64];
    (delay(), delay(), 0..=most_lost, 0..300_u64, 0..300_u64).prop_map(
        |(least_ns, jitter_ns, lost, twice, forged)| Path {
            least_ns,
            jitter_ns,
            lost,
            twice,
            forged,
            ..Path::default()
        },
    )
}

fn net(most_lost: u64) -> impl Strategy<Value = (Net, Clocks)> {
    let paths = [path(most_lost), path(most_lost)];
    (paths, 0..20_000_u64, any::<u64>(), clocks()).prop_map(|(paths, think, seed, clocks)| {
        let net = Net::new(paths, think, seed);
        clocks.start(&net);
        (net, clocks)
    })
}

fn rules(drift: &Drift) -> Rules {
    Rules {
        worst_ppb: drift.worst_ppb,
        patience_ns: 100 * SECOND,
        ..Rules::PUBLISHED
    }
}

fn within(reading: &Reading, truth: u64) -> Result<(), TestCaseError> {
    let off = reading.ns.abs_diff(truth);
    // The statistical bound is about paths that are alike: see below.
    prop_assert!(off <= reading.hard_ns, "{off} off, {reading:?}");
    prop_assert!(reading.bound_ns <= reading.hard_ns);
    Ok(())
}

/// Waits, and holds a global clock against the truth.
fn look(net: &Net, global: &Global, wait: u64) -> Result<(), TestCaseError> {
    net.pass(wait);
    let (local, truth) = net.clocks();
    within(&global.at(local), truth)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// One synchronisation, then none: always inside of the bound, however the paths are.
    #[test]
    fn once_the_truth_is_inside(
        (mut net, clocks) in net(300),
        waits in proptest::collection::vec(0..100 * SECOND, 1..8),
    ) {
        let drift = clocks.drift();
        let outcome = net.synchronise(rules(&drift)).expect("synchronised");
        let global = Global::once(&outcome.fix, &drift);
        prop_assert_eq!(global.rate(), None);
        look(&net, &global, 0)?;
        for wait in waits {
            look(&net, &global, wait)?;
        }
    }

    /// Two, and whatever rate comes of them; between them as well as afterwards.
    #[test]
    fn twice_the_truth_is_inside(
        (mut net, clocks) in net(300),
        baseline in 0..60 * SECOND,
        waits in proptest::collection::vec(0..100 * SECOND, 1..8),
    ) {
        let drift = clocks.drift();
        let first = net.synchronise(rules(&drift)).expect("synchronised");
        net.pass(baseline / 2);
        let between = net.clocks();
        net.pass(baseline / 2);
        let last = net.synchronise(rules(&drift)).expect("synchronised");
        let global = Global::fit(&[first.fix, last.fix], &drift).expect("agree");
        within(&global.at(between.0), between.1)?;
        for wait in waits {
            look(&net, &global, wait)?;
        }
    }

    /// After the fact: inside of the bound everywhere, and where there was a synchronisation in
    /// between, inside of the residual and its own bound.
    #[test]
    fn the_correction_is_inside(
        (mut net, clocks) in net(300),
        waits in proptest::collection::vec(0..100 * SECOND, 1..8),
    ) {
        let drift = clocks.drift();
        let first = net.synchronise(rules(&drift)).expect("synchronised");
        let (mut stamps, mut fixes) = (vec![net.clocks()], Vec::<Fix>::new());
        for wait in waits {
            net.pass(wait);
            stamps.push(net.clocks());
            fixes.push(net.synchronise(rules(&drift)).expect("synchronised").fix);
            stamps.push(net.clocks());
        }
        let last = fixes.pop().expect("one");
        let mut correction = Correction::new(&first.fix, &last, &drift).expect("agree");
        for fix in &fixes {
            correction.check(fix).expect("agree");
        }
        prop_assert_eq!(correction.residual_ns().is_some(), !fixes.is_empty());
        prop_assert_eq!(correction.wander_ppb(), u64::from(drift.wander_ppb));
        let once = Global::once(&first.fix, &drift);
        for (local, truth) in stamps {
            within(&correction.at(local), truth)?;
            within(&once.at(local), truth)?;
        }
        for fix in &fixes {
            let off = correction.at(fix.local_ns).ns.abs_diff(fix.local_ns.wrapping_add_signed(fix.offset_ns));
            prop_assert!(off <= correction.residual_ns().expect("residual"));
        }
    }

    /// Whatever the network does, the caps hold, and so do the counts.
    #[test]
    fn the_caps_always_end_it(
        (mut net, _) in net(1_000),
        dropped in 0..30_u32,
        spread_ns in prop_oneof![Just(0), 0..2_000_u64],
        smallest in 0..100_usize,
        messages in 0..400_u32,
        time_ns in 1..10_000_000_u64,
        reply_ns in 0..2_000_000_u64,
    ) {
        let rules = Rules {
            dropped, spread_ns, smallest, messages, time_ns, reply_ns,
            patience_ns: SECOND,
            worst_ppb: 300_000,
        };
        let before = net.clocks().0;
        let ended = net.synchronise(rules);
        let took = net.clocks().0 - before;
        prop_assert!(net.served().answered <= 3 * u64::from(messages));
        match ended {
            Ok(Outcome { counts, stop, took_ns, fix, .. }) => {
                prop_assert_eq!(took, took_ns);
                prop_assert!(counts.sent + counts.answers <= messages);
                prop_assert!(counts.answers + counts.lost <= counts.sent);
                prop_assert!(stop != Stop::Alike || spread_ns > 0);
                // The last exchange began or was cut within the time, or was the first.
                let first = fix.local_ns - before;
                // The double waits by true time.
                prop_assert!(took <= time_ns.max(first) + time_ns / 1_000 + 1, "{took}");
            }
            Err(failure) => {
                prop_assert_eq!(failure, Failure::NoAnswer);
                prop_assert!(took <= SECOND + SECOND / 1_000, "{took}");
            }
        }
    }

    /// A step of either clock beyond what bounds and ρ allow is seen by the second synchronisation.
    #[test]
    fn a_step_in_between_is_a_contradiction((mut net, clocks) in net(300), forward in any::<bool>()) {
        let drift = clocks.drift();
        let first = net.synchronise(rules(&drift)).expect("synchronised").fix;
        net.pass(SECOND);
        net.server().step(if forward { 1 << 30 } else { -(1 << 30) });
        let last = net.synchronise(rules(&drift)).expect("synchronised").fix;
        prop_assert!(Global::fit(&[first, last], &drift).is_err());
        prop_assert!(Correction::new(&first, &last, &drift).is_err());
    }

    #[test]
    fn every_message_has_one_spelling(
        token: [u8; 16],
        sequence: u64,
        t1: u64,
        answer: Option<(u64, u64, (u64, u64, u8, bool, u32))>,
        place in 0..LENGTH,
        flip in 1..=255_u8,
    ) {
        let body = answer.map_or(Body::Request, |(t2, t3, standing)| {
            let (hard_ns, bound_ns, stratum, awake, reasons) = standing;
            let reasons = Reasons::from_bits(reasons);
            let standing = Standing { hard_ns, bound_ns, stratum, awake, reasons };
            Body::Response { t2, t3, standing }
        });
        let message = Message { token: Token(token), sequence, t1, body };
        let mut bytes = message.encode();
        prop_assert_eq!(Message::parse(&bytes), Ok(message));
        prop_assert!(Message::parse(&bytes[..place]).is_err());
        prop_assert!(Message::parse(&[&bytes[..], &[flip]].concat()).is_err());
        bytes[place] ^= flip;
        if let Ok(other) = Message::parse(&bytes) {
            prop_assert!(other != message && other.encode() == bytes);
        }
    }

    /// Anything at all, to either side: no panic, no answer longer than what it answers, and nothing
    /// is taken that was not asked for.
    #[test]
    fn anything_may_come(
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            (1..3_u8, any::<[u8; 72]>()).prop_map(|(kind, body)| {
                [&b"RGAP\x02"[..], &[kind, 0, 0], &body].concat()
            }),
        ],
        mine: bool,
    ) {
        let token: [u8; 16] = bytes.get(16..32).filter(|_| mine)
            .and_then(|it| it.try_into().ok()).unwrap_or([7; 16]);
        let mut server = Server::new(Token(token));
        if let Some(pending) = server.receive(&bytes, 5) {
            prop_assert!(mine && pending.answer(6, Standing::ROOT).len() <= bytes.len());
        }
        let served = server.served();
        prop_assert_eq!(served.answered + served.malformed + served.foreign, 1);
        let mut client = Client::new(Rules::PUBLISHED, Token(token), 1_000);
        client.poll(1_000);
        client.receive(&bytes, 2_000, true);
        let counts = client.counts();
        prop_assert_eq!((counts.answers, counts.malformed + counts.foreign + counts.old), (0, 1));
    }
}
