//! Another machine's time by RGAP over UDP, and how wrong it may be.
//!
//! - `rgap_udp serve ADDRESS TOKEN`: the root.
//! - `rgap_udp relay ADDRESS TOKEN PARENT`: learns from another one every second, and serves.
//! - `rgap_udp sync ADDRESS TOKEN [SECONDS]`: synchronises twice, so many seconds apart.
//! - `rgap_udp watch ADDRESS TOKEN ROUNDS MILLISECONDS`: for programs. Synchronises so many times with
//!   such pauses, and prints, right after each and before the next one, one line of
//!   `TICKS LOCAL GLOBAL BOUND HARD REASONS STRATUM`, and for each synchronisation
//!   `fix OFFSET HALF SURE RTT AWAKE STOP MESSAGES TOOK`; or `none` with why.
//!
//! All but `sync` begin with `line` and this process's line in hexadecimal digits, by which its time
//! follows from the counter: on one kernel, that of another process can be had for the same instant.
//! The token is 32 hexadecimal digits, the same on all sides.

use std::error::Error;
use std::fmt::Write;
use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use ullage_clock::rgap::udp::{Udp, serve};
use ullage_clock::rgap::{
    Correction, Drift, Fix, Global, Outcome, Rules, Server, Synced, Token, synchronise,
};
use ullage_clock::{Clock, Line, SHIFT, Scale};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", address, token] => {
            Synced::get().lead();
            answer(address, parse(token)?)
        }
        ["relay", address, token, parent] => {
            let (token, mut parent) = (parse(token)?, Udp::new(parent.parse()?)?);
            thread::spawn(move || {
                loop {
                    if let Err(error) = learn(&mut parent, token) {
                        eprintln!("{error}");
                    }
                    thread::sleep(Duration::from_secs(1));
                }
            });
            answer(address, token)
        }
        ["sync", address, token] => sync(address, parse(token)?, 10),
        ["sync", address, token, seconds] => sync(address, parse(token)?, seconds.parse()?),
        ["watch", address, token, rounds, pause] => {
            let pause = Duration::from_millis(pause.parse()?);
            watch(address, parse(token)?, rounds.parse()?, pause)
        }
        _ => Err(
            "rgap_udp serve ADDRESS TOKEN | relay ADDRESS TOKEN PARENT | sync ADDRESS TOKEN [SECONDS] \
                  | watch ADDRESS TOKEN ROUNDS MILLISECONDS"
                .into(),
        ),
    }
}

fn parse(token: &str) -> Result<Token, Box<dyn Error>> {
    if token.len() != 32 || !token.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err("the token is not 32 hexadecimal digits".into());
    }
    Ok(Token(u128::from_str_radix(token, 16)?.to_be_bytes()))
}

fn answer(address: &str, token: Token) -> Result<(), Box<dyn Error>> {
    let socket = UdpSocket::bind(address)?;
    println!("line {}", hexadecimal(&Clock::get().line())?);
    let clock = || Synced::get().serve();
    let never = AtomicBool::new(false);
    Ok(serve(&socket, &mut Server::new(token), clock, &never)?)
}

fn hexadecimal(line: &Line) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    for byte in line.encode() {
        write!(text, "{byte:02x}")?;
    }
    Ok(text)
}

/// The counter when this process's clock showed this.
fn ticks(local_ns: u64) -> Option<u64> {
    let bytes = Clock::get().line().encode();
    let word = |at: usize| Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let age = u128::from(word(16)?) << 64 | u128::from(word(24)?);
    let mult = Scale::from_mult(word(40)?)?.mult();
    let ahead = (u128::from(local_ns) << SHIFT).checked_sub(age)? / u128::from(mult);
    Some(word(8)?.wrapping_add(u64::try_from(ahead).ok()?))
}

/// One synchronisation of this process's clock.
fn learn(server: &mut Udp, token: Token) -> Result<Outcome, Box<dyn Error>> {
    let synced = Synced::get();
    let disruptions = synced.disruptions();
    let rules = Rules::PUBLISHED;
    let outcome = synchronise(server, token, rules, || Clock::get().ordered())?;
    let outcome = outcome.map_err(|failure| format!("{failure:?}"))?;
    synced.learn(&outcome, &Drift::USUAL, disruptions)?;
    Ok(outcome)
}

fn watch(address: &str, token: Token, rounds: u32, pause: Duration) -> Result<(), Box<dyn Error>> {
    let mut server = Udp::new(address.parse()?)?;
    println!("line {}", hexadecimal(&Clock::get().line())?);
    for _ in 0..rounds {
        match learn(&mut server, token) {
            Ok(Outcome {
                best,
                fix,
                stop,
                counts,
                took_ns,
            }) => println!(
                "fix {} {} {} {} {} {stop:?} {} {took_ns}",
                fix.offset_ns,
                fix.half_ns,
                fix.sure_ns,
                fix.rtt_ns,
                best.standing().awake,
                counts.sent + counts.answers,
            ),
            Err(error) => println!("none {error}"),
        }
        show()?;
        thread::sleep(pause);
        show()?;
    }
    Ok(())
}

fn show() -> Result<(), Box<dyn Error>> {
    let now = Synced::get().now();
    let ticks = ticks(now.local_ns).ok_or("before the line began")?;
    let stratum = Synced::get().stratum().map_or(-1, i16::from);
    println!(
        "{ticks} {} {} {} {} {} {stratum}",
        now.local_ns,
        now.global.ns,
        now.global.bound_ns,
        now.global.hard_ns,
        now.reasons.bits(),
    );
    Ok(())
}

fn sync(address: &str, token: Token, seconds: u64) -> Result<(), Box<dyn Error>> {
    let mut server = Udp::new(address.parse()?)?;
    let first = once(&mut server, token)?;
    let drift = Drift::USUAL;
    let global = Global::once(&first, &drift);
    thread::sleep(Duration::from_secs(seconds));
    let local = Clock::get().ordered();
    println!("after {seconds} s, from the first: {:?}", global.at(local));
    let last = once(&mut server, token)?;
    let rated = Global::fit(&[first, last], &drift)?;
    println!("the same from both: {:?}", rated.at(local));
    println!("rate, parts per trillion: {:?}", rated.rate());
    let correction = Correction::new(&first, &last, &drift)?;
    println!("corrected: {:?}", correction.at(local));
    println!("the offset moved by {} ns", correction.drifted_ns());
    Ok(())
}

fn once(server: &mut Udp, token: Token) -> Result<Fix, Box<dyn Error>> {
    let outcome = synchronise(server, token, Rules::PUBLISHED, || Clock::get().ordered())?;
    let outcome = outcome.map_err(|failure| format!("not synchronised: {failure:?}"))?;
    println!(
        "{:?} after {} messages and {} us: {:?}",
        outcome.stop,
        outcome.counts.sent + outcome.counts.answers,
        outcome.took_ns / 1_000,
        outcome.fix,
    );
    Ok(outcome.fix)
}
