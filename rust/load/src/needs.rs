//! Whether this host's limits will do for what was asked: found out before the start, since a run
//! that comes to them on its way would measure them.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use ullage_common::{Failure, limits};

/// How long Linux keeps the port of a connection that its own side closed first, seconds:
/// `TCP_TIMEWAIT_LEN` in include/net/tcp.h.
const TIME_WAIT_S: f64 = 60.0;
/// The same where `net.ipv4.tcp_tw_reuse` lets a new connection have the port: a second
/// (Documentation/networking/ip-sysctl.rst).
const REUSE_S: f64 = 1.0;
/// Number of that state in /proc/net/tcp.
const TIME_WAIT: &str = "06";
/// Descriptors that are open anyway, or for a moment.
const SPARE_DESCRIPTORS: u64 = 16;

/// Raise the soft limit of open descriptors to `needed`, or as far as the hard one allows.
///
/// Fails when that is not enough.
pub fn descriptors(needed: u64) -> Result<(), Failure> {
    let needed = needed + SPARE_DESCRIPTORS;
    let hard = limits::most_descriptors()?;
    if needed > hard {
        return Err(Failure::too_low(format!(
            "{needed} descriptors are needed, RLIMIT_NOFILE allows {hard}: use fewer threads, or \
             raise the limit"
        )));
    }
    limits::allow_descriptors(needed)
}

/// Which ports connections get here, and how long a closed one keeps its own.
#[derive(Debug, PartialEq)]
pub struct Ports {
    pub first: u16,
    pub last: u16,
    /// Those of them that closed connections to the same peer still keep.
    pub waiting: u64,
    pub kept_s: f64,
}

impl Ports {
    /// As they are in this network namespace, for connections to the peer.
    pub fn here(peer: SocketAddrV4) -> Result<Self, Failure> {
        let read = |path: &str| fs::read_to_string(path).map_err(|e| Failure::new(path, e));
        let range = read("/proc/sys/net/ipv4/ip_local_port_range")?;
        let (first, last) = port_range(&range)
            .ok_or_else(|| Failure::new("ip_local_port_range", format!("{range:?}")))?;
        // Both are the kernel's own and may be absent from an old or an odd one.
        let reuse = fs::read_to_string("/proc/sys/net/ipv4/tcp_tw_reuse").unwrap_or_default();
        let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
        Ok(Self {
            first,
            last,
            waiting: waiting(&table, peer, first..=last),
            kept_s: kept_s(&reuse, *peer.ip()),
        })
    }

    /// Fails unless there are so many ports free.
    pub fn check(&self, needed: u64) -> Result<(), Failure> {
        let all = u64::from(self.last.saturating_sub(self.first)) + 1;
        let free = all.saturating_sub(self.waiting);
        if needed <= free {
            return Ok(());
        }
        Err(Failure::too_low(format!(
            "{needed} ports are needed, {free} of {}-{} are free for {} s: ask for a lower rate, \
             a shorter time or --close server, or widen net.ipv4.ip_local_port_range",
            self.first, self.last, self.kept_s
        )))
    }

    /// Ports that connections take which this side closes first: those in progress, and all that
    /// were closed within the time that a port is kept. Of a Poisson schedule five standard
    /// deviations more.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn needed(&self, rate: f64, time_s: f64, threads: u64) -> u64 {
        let events = rate * time_s.min(self.kept_s);
        (events + 5.0 * events.sqrt()).ceil() as u64 + threads
    }
}

fn port_range(text: &str) -> Option<(u16, u16)> {
    let mut words = text.split_whitespace().map(str::parse);
    match (words.next(), words.next(), words.next()) {
        (Some(Ok(first)), Some(Ok(last)), None) if first <= last => Some((first, last)),
        _ => None,
    }
}

/// Connections to the peer in `TIME_WAIT`, of a table like /proc/net/tcp.
fn waiting(table: &str, peer: SocketAddrV4, range: std::ops::RangeInclusive<u16>) -> u64 {
    let address = u32::from_ne_bytes(peer.ip().octets());
    let remote = format!("{address:08X}:{:04X}", peer.port());
    let kept = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().take(4).collect();
        let [_, local, other, state] = words[..] else {
            return false;
        };
        let port = local
            .rsplit_once(':')
            .map(|(_, port)| u16::from_str_radix(port, 16));
        state == TIME_WAIT && other == remote && matches!(port, Some(Ok(p)) if range.contains(&p))
    };
    table.lines().filter(kept).count() as u64
}

fn kept_s(reuse: &str, peer: Ipv4Addr) -> f64 {
    match reuse.trim() {
        "1" => REUSE_S,
        "2" if IpAddr::V4(peer).is_loopback() => REUSE_S,
        _ => TIME_WAIT_S,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0
   1: 0100007F:C350 0200000A:1F90 06 00000000:00000000 03:000016C7 00000000     0
   2: 0100007F:C351 0200000A:1F90 01 00000000:00000000 00:00000000 00000000     0
   3: 0100007F:0050 0200000A:1F90 06 00000000:00000000 03:000016C7 00000000     0
   4: 0100007F:C352 0200000A:1F91 06 00000000:00000000 03:000016C7 00000000     0
";

    fn ports(waiting: u64, kept_s: f64) -> Ports {
        Ports {
            first: 32768,
            last: 60999,
            waiting,
            kept_s,
        }
    }

    #[test]
    fn a_range_is_two_ports_in_order() {
        assert_eq!(port_range("32768\t60999\n"), Some((32768, 60999)));
        for bad in ["", "1", "1 2 3", "9 1", "0 65536", "a b"] {
            assert_eq!(port_range(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn waiting_counts_this_peer_this_state_and_this_range_alone() {
        let peer = "10.0.0.2:8080".parse().unwrap();
        assert_eq!(waiting(TABLE, peer, 32768..=60999), 1);
        assert_eq!(waiting(TABLE, peer, 1..=60999), 2);
        assert_eq!(waiting("nonsense\n\n1 2\n", peer, 1..=60999), 0);
    }

    #[test]
    fn reuse_shortens_the_wait_where_it_holds() {
        let (near, far) = (Ipv4Addr::LOCALHOST, Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(kept_s("0\n", near).to_bits(), TIME_WAIT_S.to_bits());
        assert_eq!(kept_s("1\n", far).to_bits(), REUSE_S.to_bits());
        assert_eq!(kept_s("2\n", far).to_bits(), TIME_WAIT_S.to_bits());
        assert_eq!(kept_s("2\n", near).to_bits(), REUSE_S.to_bits());
    }

    #[test]
    fn needed_is_rate_times_the_kept_time_and_five_deviations() {
        assert_eq!(ports(0, 60.0).needed(100.0, 1.0, 4), 154);
        assert_eq!(ports(0, 60.0).needed(100.0, 600.0, 0), 6_000 + 388);
        assert_eq!(ports(0, 1.0).needed(100.0, 600.0, 0), 150);
    }

    #[test]
    fn too_few_ports_are_said_with_what_there_is() {
        assert!(ports(0, 60.0).check(28_232).is_ok());
        let failure = ports(232, 60.0).check(28_001).unwrap_err();
        let text = format!("{failure:?}");
        assert!(
            text.contains("28001 ports are needed, 28000 of 32768-60999"),
            "{text}"
        );
        assert!(ports(30_000, 60.0).check(1).is_err());
    }

    #[test]
    fn no_limit_allows_every_descriptor() {
        assert!(descriptors(1).is_ok());
        let text = format!("{:?}", descriptors(u64::MAX - 1000).unwrap_err());
        assert!(text.contains("RLIMIT_NOFILE"), "{text}");
    }
}
