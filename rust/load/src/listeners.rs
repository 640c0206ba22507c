//! Who listens on a port here, as far as that can be seen.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use crate::processes;
use ullage_common::failure::Failure;

/// Number of that state in /proc/net/tcp.
const LISTEN: &str = "0A";

/// A socket on which somebody listens.
#[derive(Debug, PartialEq)]
struct Listener {
    port: u16,
    user: u32,
    inode: u64,
}

/// A server cannot start since somebody answers at its place: another's would be measured.
pub fn taken(place: SocketAddr) -> Failure {
    let why = on(place.port()).map_or_else(
        || format!("{place} is taken, by whom cannot be seen from here"),
        |holder| format!("{place} is taken by {holder}"),
    );
    Failure::new("cannot start the server", why)
}

/// `perl (process 7)` of each who listens on the port; None: there is none.
pub fn on(port: u16) -> Option<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let holders: BTreeSet<String> = tables
        .iter()
        .flatten()
        .flat_map(|table| table.lines().filter_map(parse))
        .filter(|one| one.port == port)
        .map(|one| one.holder())
        .collect();
    let words: Vec<String> = holders.into_iter().collect();
    (!words.is_empty()).then(|| words.join(" and "))
}

impl Listener {
    fn holder(&self) -> String {
        let socket = format!("socket:[{}]", self.inode);
        let mut pids: Vec<i32> = processes::all()
            .unwrap_or_default()
            .into_iter()
            .map(|process| process.pid)
            .filter(|pid| holds(*pid, &socket))
            .collect();
        pids.sort_unstable();
        // Of a server with workers the first began it.
        pids.first().map_or_else(
            || format!("a process of the user {}", self.user),
            |pid| format!("{} (process {pid})", processes::name(*pid)),
        )
    }
}

fn holds(pid: i32, socket: &str) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    descriptors
        .flatten()
        .any(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == Path::new(socket)))
}

/// `sl local_address rem_address st queues tr:when retrnsmt uid timeout inode …`; None: no listener.
fn parse(line: &str) -> Option<Listener> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (local, state) = (fields.get(1)?, fields.get(3)?);
    let (_, port) = local.rsplit_once(':')?;
    (*state == LISTEN).then_some(())?;
    Some(Listener {
        port: u16::from_str_radix(port, 16).ok()?,
        user: fields.get(7)?.parse().ok()?,
        inode: fields.get(9)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::process::id;

    use super::*;

    #[test]
    fn who_listens_is_named() {
        for place in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(place).unwrap();
            let port = listener.local_addr().unwrap().port();
            let holder = on(port).unwrap();
            assert!(
                holder.ends_with(&format!(" (process {})", id())),
                "{holder}"
            );
            drop(listener);
            assert_eq!(on(port), None);
        }
    }

    #[test]
    fn a_line_is_a_listener_or_not() {
        let line = "  1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  33 \
                    0 4711 1 0000 100 0 0 10 0";
        let want = Listener {
            port: 8080,
            user: 33,
            inode: 4711,
        };
        assert_eq!(parse(line), Some(want));
        assert_eq!(parse(&line.replace(" 0A ", " 01 ")), None);
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt";
        assert_eq!(parse(head), None);
    }
}
