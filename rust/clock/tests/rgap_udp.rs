//! RGAP over the loopback, with this machine's clock on both sides: the offset is 0.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

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

/// Stands between the two, and holds what comes back for so long.
fn delaying(server: SocketAddr, ways: [Duration; 2], stop: &AtomicBool, socket: &UdpSocket) {
    let mut bytes = [0; 128];
    let beyond = UdpSocket::bind("127.0.0.1:0").expect("bind");
    for one in [socket, &beyond] {
        let look = Some(Duration::from_millis(20));
        one.set_read_timeout(look).expect("timeout");
    }
    while !stop.load(Ordering::Relaxed) {
        let Ok((length, client)) = socket.recv_from(&mut bytes) else {
            continue;
        };
        thread::sleep(ways[0]);
        beyond.send_to(&bytes[..length], server).expect("send");
        if let Ok(length) = beyond.recv(&mut bytes) {
            thread::sleep(ways[1]);
            socket.send_to(&bytes[..length], client).expect("send");
        }
    }
}

/// The truth is 0, and inside of the hard bound however slow and unlike the two ways are.
#[test]
fn over_a_longer_way_the_bound_holds() {
    let clock = Clock::get();
    let apart = clock.promise().ordered_ns.unwrap_or(0);
    for [there_us, back_us] in [[50, 50], [500, 500], [5_000, 5_000], [8_000, 2_000]] {
        let ways = [there_us, back_us].map(Duration::from_micros);
        let server = UdpSocket::bind("127.0.0.1:0").expect("bind");
        let between = UdpSocket::bind("127.0.0.1:0").expect("bind");
        let mut client = Udp::new(between.local_addr().expect("address")).expect("bind");
        let target = server.local_addr().expect("address");
        let stop = AtomicBool::new(false);
        let (outcome, _) = beside_a_server(&server, || {
            thread::scope(|scope| {
                scope.spawn(|| delaying(target, ways, &stop, &between));
                let outcome = synchronise(&mut client, TOKEN, Rules::PUBLISHED, || clock.ordered());
                stop.store(true, Ordering::Relaxed);
                outcome.expect("socket").expect("answered")
            })
        });
        let fix = outcome.fix;
        println!(
            "{there_us} us there, {back_us} us back: {} ns off, within {} ns, {} answers, {:?}",
            fix.offset_ns, fix.half_ns, outcome.counts.answers, outcome.stop
        );
        assert!(
            fix.offset_ns.unsigned_abs() <= fix.half_ns + apart,
            "{outcome:?}"
        );
    }
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
