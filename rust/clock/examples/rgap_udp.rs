//! Another machine's time by RGAP over UDP, and how wrong it may be.
//!
//! `rgap_udp serve ADDRESS TOKEN` on one, `rgap_udp sync ADDRESS TOKEN [SECONDS]` on the other; the
//! token is 32 hexadecimal digits, the same on both. Synchronises twice, so many seconds apart.

use std::error::Error;
use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use ullage_clock::Clock;
use ullage_clock::rgap::udp::{Udp, serve};
use ullage_clock::rgap::{
    Correction, Drift, Fix, Global, Rules, Server, Standing, Token, synchronise,
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let now = || (Clock::get().ordered(), Standing::ROOT);
    match words[..] {
        ["serve", address, token] => {
            let mut server = Server::new(parse(token)?);
            let socket = UdpSocket::bind(address)?;
            now();
            Ok(serve(&socket, &mut server, now, &AtomicBool::new(false))?)
        }
        ["sync", address, token] => sync(address, parse(token)?, 10),
        ["sync", address, token, seconds] => sync(address, parse(token)?, seconds.parse()?),
        _ => Err("rgap_udp serve ADDRESS TOKEN | sync ADDRESS TOKEN [SECONDS]".into()),
    }
}

fn parse(token: &str) -> Result<Token, Box<dyn Error>> {
    if token.len() != 32 || !token.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err("the token is not 32 hexadecimal digits".into());
    }
    Ok(Token(u128::from_str_radix(token, 16)?.to_be_bytes()))
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
