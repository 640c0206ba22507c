//! Several real servers and many real clients over UDP on one host, whose clocks are made to run
//! falsely: all are read from this process's clock, so the truth is known to the nanosecond.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ullage_clock::rgap::udp::{Udp, serve};
use ullage_clock::rgap::{Drift, Fix, Global, Rules, Server, Standing, Synced, Token, synchronise};
use ullage_clock::{Clock, Reasons};

const TOKEN: Token = Token(*b"several in a row");
const RULES: Rules = Rules {
    patience_ns: 20_000_000_000,
    ..Rules::PUBLISHED
};

/// A machine of its own: so much faster than this one, and so much ahead.
#[derive(Clone, Copy)]
struct False {
    ppb: i64,
    ahead_ns: u64,
}

impl False {
    fn now(self) -> u64 {
        self.of(Clock::get().ordered())
    }

    fn of(self, true_ns: u64) -> u64 {
        let faster = i128::from(true_ns) * i128::from(self.ppb) / 1_000_000_000;
        let shown = i128::from(true_ns) + faster + i128::from(self.ahead_ns);
        u64::try_from(shown).expect("after the beginning")
    }
}

/// Cores may be apart by what the clock promises, and roundings add up.
fn apart() -> u64 {
    Clock::get().promise().ordered_ns.unwrap_or(0) + 3
}

fn socket() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bind");
    let address = socket.local_addr().expect("address");
    (socket, address)
}

fn learn(parent: SocketAddr, clock: False) -> (Fix, Standing) {
    let mut channel = Udp::new(parent).expect("bind");
    let outcome = synchronise(&mut channel, TOKEN, RULES, || clock.now());
    let outcome = outcome.expect("socket").expect("answered");
    (outcome.fix, outcome.best.standing())
}

/// Ends what serves, also when a test fails.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The root, a client of it that serves, a client of that which serves, and one more.
#[test]
fn a_chain() {
    let clocks = [(0, 0), (-20_000, 1 << 40), (11_250, 5_000_000), (40_000, 7)]
        .map(|(ppb, ahead_ns)| False { ppb, ahead_ns });
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ending = Ending(&stop);
        let mut parent = None;
        for (level, clock) in clocks.into_iter().enumerate() {
            let parent_clock = parent.map(|parent| {
                let (first, _) = learn(parent, clock);
                thread::sleep(Duration::from_millis(1_100));
                let (last, standing) = learn(parent, clock);
                assert_eq!(usize::from(standing.stratum), level - 1);
                let global = Global::fit(&[first, last], &Drift::USUAL).expect("agree");
                (global, standing)
            });
            let served = move || {
                let local = clock.now();
                let Some((global, standing)) = parent_clock else {
                    return (local, Standing::ROOT);
                };
                let reading = global.at(local);
                let standing = Standing {
                    hard_ns: reading.hard_ns,
                    bound_ns: reading.bound_ns,
                    stratum: standing.stratum + 1,
                    ..standing
                };
                (reading.ns, standing)
            };
            for _ in 0..100 {
                let before = Clock::get().ordered();
                let (ns, standing) = served();
                let after = Clock::get().ordered();
                let low = before.saturating_sub(standing.hard_ns + apart());
                let high = after.saturating_add(standing.hard_ns + apart());
                assert!(
                    (low..=high).contains(&ns),
                    "level {level}: {ns} {standing:?}"
                );
            }
            println!("level {level}: {:?}", served().1);
            let (socket, address) = socket();
            let stop = &stop;
            scope.spawn(move || {
                let awake = |(ns, standing)| {
                    (
                        ns,
                        Standing {
                            awake: true,
                            ..standing
                        },
                    )
                };
                serve(&socket, &mut Server::new(TOKEN), || awake(served()), stop).expect("serve");
            });
            parent = Some(address);
        }
    });
}

/// Fifty at once, each with a clock of its own, on one server.
#[test]
fn many_clients_of_one_server() {
    let (socket, address) = socket();
    let stop = AtomicBool::new(false);
    let all = Mutex::new(Vec::new());
    let served = thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let mut server = Server::new(TOKEN);
            let clock = || (Clock::get().ordered(), Standing::ROOT);
            serve(&socket, &mut server, clock, &stop).expect("serve");
            server.served()
        });
        let ending = Ending(&stop);
        thread::scope(|clients| {
            for number in 0..50_u64 {
                let (all, clock) = (
                    &all,
                    False {
                        ppb: i64::try_from(number).expect("small") * 2_000 - 49_000,
                        ahead_ns: number << 30,
                    },
                );
                clients.spawn(move || {
                    let (fix, _) = learn(address, clock);
                    let global = Global::once(&fix, &Drift::USUAL);
                    let truth = Clock::get().ordered();
                    let reading = global.at(clock.of(truth));
                    let off = reading.ns.abs_diff(truth);
                    assert!(off <= reading.hard_ns + apart(), "{off} {reading:?}");
                    all.lock().expect("nobody failed").push(fix.half_ns);
                });
            }
        });
        drop(ending);
        serving.join().expect("served")
    });
    let mut halves = all.into_inner().expect("nobody failed");
    halves.sort_unstable();
    assert_eq!(halves.len(), 50);
    println!("{served:?}, hard bounds {} to {} ns", halves[0], halves[49]);
    assert!(served.answered >= 50 && served.malformed + served.foreign == 0);
}

/// The process's own global clock says whatever its own clock and its server have to say.
#[test]
fn a_time_stamp_carries_all_reasons() {
    let (socket, address) = socket();
    let stop = AtomicBool::new(false);
    let standing = Standing {
        reasons: Reasons::UNSYNCHRONISED | Reasons::SUSPENDED,
        hard_ns: 1_000_000,
        ..Standing::ROOT
    };
    thread::scope(|scope| {
        let _ending = Ending(&stop);
        scope.spawn(|| {
            let clock = || (Clock::get().ordered(), standing);
            serve(&socket, &mut Server::new(TOKEN), clock, &stop).expect("serve");
        });
        let synced = Synced::get();
        assert_eq!(synced.now().global.hard_ns, u64::MAX);
        let disruptions = synced.disruptions();
        let mut channel = Udp::new(address).expect("bind");
        let outcome = synchronise(&mut channel, TOKEN, RULES, || Clock::get().ordered());
        let outcome = outcome.expect("socket").expect("answered");
        synced
            .learn(&outcome, &Drift::USUAL, disruptions)
            .expect("agrees");
    });
    let now = Synced::get().now();
    let own = Clock::get().stamp().reasons;
    assert_eq!(now.reasons, own | standing.reasons);
    assert!(now.global.hard_ns >= 1_000_000 && now.global.hard_ns < u64::MAX);
    let (_, standing) = Synced::get().serve();
    assert_eq!((standing.reasons, standing.stratum), (now.reasons, 1));
    assert!(standing.hard_ns >= now.global.hard_ns);
}
