//! Whether a front can be reached from here: asked once, before a fleet's generators are started.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::address::Url;
use ullage_common::Failure;

/// Of its answer no more is needed.
const FIRST: &[u8] = b"HTTP/1.1 200 ";

/// Ask a front for its state; nothing else is done.
#[derive(Args)]
pub struct Options {
    /// `http://ADDRESS:PORT`
    #[arg(long)]
    front: Url,
    /// Seconds for the connection, and for the answer.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    limit: u64,
}

pub fn command(options: &Options) -> Result<ExitCode, Failure> {
    let at = options.front.address;
    ask(options).map_err(|error| Failure::new(&format!("the front at {at}"), error))?;
    Ok(ExitCode::SUCCESS)
}

fn ask(options: &Options) -> io::Result<()> {
    let limit = Duration::from_secs(options.limit);
    let address = options.front.address;
    let mut stream = TcpStream::connect_timeout(&address.into(), limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    stream.write_all(format!("GET /state HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut first = [0; FIRST.len()];
    stream.read_exact(&mut first)?;
    if first != FIRST {
        return Err(io::Error::other("what answers there is no front"));
    }
    Ok(())
}
