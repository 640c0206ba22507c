//! RGAP over TCP, with this machine's clock on both sides: the offset is 0.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ullage_clock::rgap::tcp::{Limits, Tcp, serve};
use ullage_clock::rgap::{Failure, LENGTH, Rules, Served, Server, Token, synchronise};

mod rgap_common;

use rgap_common::{TOKEN, is_zero, local, now, once, patient, request};

const WITHIN: Duration = Duration::from_secs(10);

/// What the clients' part returns, and what the server saw meanwhile.
fn beside_a_server<T>(limits: Limits, clients: impl FnOnce(SocketAddr) -> T) -> (T, Served) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("address");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let mut server = Server::new(TOKEN);
            serve(&listener, &mut server, limits, now, &stop).expect("serve");
            server.served()
        });
        // Also if it panics: a scope waits for its threads.
        let ending = Ending(&stop);
        let result = clients(address);
        drop(ending);
        (result, serving.join().expect("served"))
    })
}

struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Nothing more comes, and the other side has closed.
fn closed(connection: &mut TcpStream) -> bool {
    connection.set_read_timeout(Some(WITHIN)).expect("timeout");
    match connection.read(&mut [0; 1]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn many_clients_at_once() {
    let ((), served) = beside_a_server(Limits::USUAL, |address| {
        thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    let mut channel = Tcp::connect(address, WITHIN).expect("connect");
                    is_zero(&once(&mut channel));
                    is_zero(&once(&mut channel));
                });
            }
        });
    });
    assert!(served.answered >= 40, "{served:?}");
    assert_eq!((served.malformed, served.foreign), (0, 0));
}

#[test]
fn strangers_and_garbage_are_dropped_without_a_word() {
    let ((), served) = beside_a_server(Limits::USUAL, |address| {
        for bytes in [
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            request(Token([0; 16]), 1).to_vec(),
            [&b"RGAP\x02\x01"[..], &[9; LENGTH]].concat(),
        ] {
            let mut stranger = TcpStream::connect(address).expect("connect");
            // It may be closed before all has gone.
            let _ = stranger.write_all(&bytes);
            assert!(closed(&mut stranger));
        }
        is_zero(&once(&mut Tcp::connect(address, WITHIN).expect("connect")));
    });
    assert_eq!(served.foreign, 1);
}

#[test]
fn the_silent_are_dropped_and_others_wait_outside() {
    let limits = Limits {
        connections: 2,
        greeting: Duration::from_secs(2),
        idle: Duration::from_secs(3),
    };
    let started = Instant::now();
    beside_a_server(limits, |address| {
        let mut silent = TcpStream::connect(address).expect("connect");
        silent
            .write_all(&request(TOKEN, 1)[..79])
            .expect("all but a byte");
        let mut connection = TcpStream::connect(address).expect("connect");
        let mut idle = Tcp::from(connection.try_clone().expect("clone")).expect("a channel");
        once(&mut idle);
        let mut third = TcpStream::connect(address).expect("connect");
        assert!(closed(&mut third));
        assert!(closed(&mut silent));
        connection.set_nonblocking(false).expect("blocking");
        // Answers may have come after it had enough of them.
        while !closed(&mut connection) {
            assert!(started.elapsed() < WITHIN * 3, "it is never dropped");
        }
        connection.set_nonblocking(true).expect("non-blocking");
        let rules = Rules::PUBLISHED;
        let refused = synchronise(&mut idle, TOKEN, rules, local).expect_err("dropped");
        let kinds = [
            ErrorKind::UnexpectedEof,
            ErrorKind::ConnectionReset,
            ErrorKind::BrokenPipe,
        ];
        assert!(kinds.contains(&refused.kind()), "{refused}");
        is_zero(&once(&mut Tcp::connect(address, WITHIN).expect("connect")));
    });
}

/// Who asks and does not read gets no more than the kernel's buffers hold, and others are served
/// meanwhile. One answer, of the same length, for each request.
#[test]
fn a_slow_reader_holds_up_nobody() {
    let (sent, served) = beside_a_server(Limits::USUAL, |address| {
        let mut slow = TcpStream::connect(address).expect("connect");
        slow.set_nonblocking(true).expect("non-blocking");
        let (mut sent, started) = (0_usize, Instant::now());
        let requests: Vec<u8> = (0..100).flat_map(|it| request(TOKEN, it)).collect();
        let (mut at, mut stuck) = (0, 0);
        while stuck < 200 {
            match slow.write(&requests[at..]) {
                Ok(more) => {
                    (sent, at) = (sent + more, (at + more) % requests.len());
                    stuck = 0;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    stuck += 1;
                    thread::sleep(Duration::from_millis(1));
                }
            }
            assert!(started.elapsed() < Duration::from_secs(60), "it never ends");
        }
        is_zero(&once(&mut Tcp::connect(address, WITHIN).expect("connect")));
        slow.shutdown(std::net::Shutdown::Write).expect("shutdown");
        slow.set_nonblocking(false).expect("blocking");
        slow.set_read_timeout(Some(WITHIN)).expect("timeout");
        let mut answers = 0;
        let mut buffer = [0; 1 << 14];
        while let Ok(more @ 1..) = slow.read(&mut buffer) {
            answers += more;
        }
        (sent, answers)
    });
    let (sent, answers) = sent;
    assert!(answers <= sent, "{answers} bytes for {sent}");
    assert!(served.answered >= 100, "{served:?}");
}

#[test]
fn a_client_that_dies_in_the_middle() {
    beside_a_server(Limits::USUAL, |address| {
        for cut in [0, 1, 79, 80, 81] {
            let mut dying = TcpStream::connect(address).expect("connect");
            let bytes = [request(TOKEN, 1), request(TOKEN, 2)].concat();
            dying.write_all(&bytes[..cut]).expect("write");
            drop(dying);
        }
        is_zero(&once(&mut Tcp::connect(address, WITHIN).expect("connect")));
    });
}

/// Accepts, but never says anything; then closes; then says nonsense.
#[test]
fn servers_that_are_none() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("address");
    let rules = Rules {
        patience_ns: 20_000_000,
        ..Rules::PUBLISHED
    };
    let mut client = Tcp::connect(address, WITHIN).expect("connect");
    let (mut accepted, _) = listener.accept().expect("accept");
    let silent = synchronise(&mut client, TOKEN, rules, local).expect("open");
    assert_eq!(silent, Err(Failure::NoAnswer));
    accepted.write_all(b"220 mail ready\r\n").expect("write");
    let nonsense = synchronise(&mut client, TOKEN, patient(), local).expect_err("nonsense");
    assert_eq!(nonsense.kind(), ErrorKind::InvalidData);
    let mut client = Tcp::connect(address, WITHIN).expect("connect");
    drop(listener.accept().expect("accept"));
    assert!(synchronise(&mut client, TOKEN, patient(), local).is_err());
    drop((listener, accepted));
    assert!(Tcp::connect(address, WITHIN).is_err());
}
