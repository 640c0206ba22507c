//! RGAP over the loopback, with this machine's clock on both sides: the offset is 0.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ullage_clock::Clock;
use ullage_clock::rgap::udp::{Udp, serve};
use ullage_clock::rgap::{
    Drift, Failure, Global, Rules, Served, Server, Standing, Stop, Token, synchronise,
};

const TOKEN: Token = Token(*b"over the loopbac");

fn pair() -> (UdpSocket, Udp) {
    let server = UdpSocket::bind("127.0.0.1:0").expect("bind");
    let client = Udp::new(server.local_addr().expect("address")).expect("bind");
    (server, client)
}

/// What the client's part returns, and what the server saw meanwhile.
fn beside_a_server<T>(socket: &UdpSocket, client: impl FnOnce() -> T) -> (T, Served) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let mut server = Server::new(TOKEN);
            let clock = || (Clock::get().ordered(), Standing::ROOT);
            serve(socket, &mut server, clock, &stop).expect("serve");
            server.served()
        });
        let result = client();
        stop.store(true, Ordering::Relaxed);
        (result, serving.join().expect("served"))
    })
}

#[test]
fn the_offset_to_oneself_is_zero() {
    let (socket, mut client) = pair();
    let clock = Clock::get();
    let now = || clock.ordered();
    let both = || {
        [(); 2].map(|()| {
            let outcome = synchronise(&mut client, TOKEN, Rules::PUBLISHED, now);
            outcome.expect("socket").expect("answered")
        })
    };
    let (outcomes, served) = beside_a_server(&socket, both);
    // Cores may be apart by what the clock promises.
    let apart = clock.promise().ordered_ns.unwrap_or(0);
    for outcome in &outcomes {
        println!("{outcome:?}");
        let fix = outcome.fix;
        assert!(
            fix.offset_ns.unsigned_abs() <= fix.half_ns + apart,
            "{outcome:?}"
        );
        let counts = outcome.counts;
        assert!(counts.sent + counts.answers <= Rules::PUBLISHED.messages);
        assert!(outcome.stop != Stop::Alike || counts.answers >= 25);
    }
    let sent: u32 = outcomes.iter().map(|outcome| outcome.counts.sent).sum();
    assert!(served.answered <= u64::from(sent));
    let [first, last] = outcomes.map(|outcome| outcome.fix);
    let global = Global::fit(&[first, last], &Drift::USUAL).expect("agree");
    let local = now();
    let reading = global.at(local);
    // The narrower bound is one of 99.9 %, for clocks that are asked again and again.
    assert!(
        reading.ns.abs_diff(local) <= reading.hard_ns + apart,
        "{reading:?}"
    );
    assert!(reading.bound_ns <= reading.hard_ns, "{reading:?}");
}

#[test]
fn nobody_answers() {
    let (server, mut client) = pair();
    let rules = Rules {
        patience_ns: 20_000_000,
        ..Rules::PUBLISHED
    };
    let now = || Clock::get().ordered();
    let silent = synchronise(&mut client, TOKEN, rules, now).expect("socket");
    assert_eq!(silent, Err(Failure::NoAnswer));
    drop(server);
    let gone = synchronise(&mut client, TOKEN, rules, now).expect("socket");
    assert_eq!(gone, Err(Failure::NoAnswer));
}

#[test]
fn strangers_get_nothing() {
    let (socket, mut client) = pair();
    // The server's thread must have begun before the client has had enough.
    let rules = Rules {
        patience_ns: 1_000_000_000,
        ..Rules::PUBLISHED
    };
    let now = || Clock::get().ordered();
    let ask = || synchronise(&mut client, Token([0; 16]), rules, now).expect("socket");
    let (outcome, served) = beside_a_server(&socket, ask);
    assert_eq!(outcome, Err(Failure::NoAnswer));
    assert!(served.answered == 0 && served.foreign > 0, "{served:?}");
}
