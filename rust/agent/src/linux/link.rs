//! `link`: a network interface comes up, with an address. The instance may hold no `ip`.

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::thread;
use std::time::Duration;

use crate::system::sys;

/// `libc::IFF_UP` in the type of the request.
const IFF_UP: libc::c_short = 1;
const NEIGHBOURS: &str = "/proc/net/arp";
/// A neighbour of whom it is not known yet where it is.
const NOBODY: &str = "00:00:00:00:00:00";
const DISCARD_PORT: u16 = 9;
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(100);

/// What is to be up.
#[derive(Debug, PartialEq)]
pub struct Link {
    name: String,
    address: Ipv4Addr,
    prefix: u32,
    /// Who must answer.
    gateway: Option<Ipv4Addr>,
}

/// Reads `NAME ADDRESS PREFIX [GATEWAY]`.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Link, String> {
    let words: Option<Vec<String>> = args.into_iter().map(|arg| arg.into_string().ok()).collect();
    let link = match words.as_deref() {
        Some([name, address, prefix]) => read(name, address, prefix, None),
        Some([name, address, prefix, gateway]) => read(name, address, prefix, Some(gateway)),
        _ => None,
    };
    link.ok_or_else(|| "link: NAME ADDRESS PREFIX [GATEWAY] are wanted".into())
}

fn read(name: &str, address: &str, prefix: &str, gateway: Option<&str>) -> Option<Link> {
    Some(Link {
        name: name.into(),
        address: address.parse().ok()?,
        prefix: prefix
            .parse()
            .ok()
            .filter(|length| (1..=32).contains(length))?,
        gateway: gateway.map(str::parse).transpose().ok()?,
    })
}

impl Link {
    /// Gives it its address, brings it up, and waits until the gateway is seen.
    pub fn go(&self) -> Result<(), String> {
        let wrong = |error: io::Error| sys::failed("link", &self.name, &error);
        let mask = Ipv4Addr::from(u32::MAX << (32 - self.prefix));
        set_address(&self.name, libc::SIOCSIFADDR, self.address).map_err(wrong)?;
        set_address(&self.name, libc::SIOCSIFNETMASK, mask).map_err(wrong)?;
        up(&self.name).map_err(wrong)?;
        self.gateway
            .map_or(Ok(()), |gateway| wait_for(gateway).map_err(wrong))
    }
}

/// An e1000 says that it has a link a second before it really passes packets, and a host's packet
/// filter may drop what is sent, but it does not see ARP.
fn wait_for(gateway: Ipv4Addr) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    for _ in 0..TRIES {
        let _ = socket.send_to(b"", (gateway, DISCARD_PORT));
        thread::sleep(PAUSE);
        if knows(&std::fs::read_to_string(NEIGHBOURS)?, gateway) {
            return Ok(());
        }
    }
    Err(io::Error::other(format!("{gateway} does not answer")))
}

/// `IP address  HW type  Flags  HW address  Mask  Device`, arp(7).
fn knows(neighbours: &str, address: Ipv4Addr) -> bool {
    let address = address.to_string();
    neighbours.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace();
        fields.next() == Some(&address) && fields.nth(2).is_some_and(|place| place != NOBODY)
    })
}

/// Brings an interface up.
pub fn up(name: &str) -> io::Result<()> {
    let mut request = named(name)?;
    call(libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: the kernel has just written the flags.
    unsafe { request.ifr_ifru.ifru_flags |= IFF_UP };
    call(libc::SIOCSIFFLAGS, &mut request)
}

fn set_address(name: &str, what: libc::Ioctl, address: Ipv4Addr) -> io::Result<()> {
    let mut request = named(name)?;
    let octets = address.octets();
    let family = libc::sa_family_t::try_from(libc::AF_INET).unwrap_or_default();
    // SAFETY: plain bytes. A `sockaddr_in` has the port in the first two of its data, then the
    // address.
    unsafe {
        request.ifr_ifru.ifru_addr.sa_family = family;
        let data = &mut request.ifr_ifru.ifru_addr.sa_data[2..];
        ptr::copy_nonoverlapping(octets.as_ptr(), data.as_mut_ptr().cast(), octets.len());
    }
    call(what, &mut request)
}

fn named(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all zeros is a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: it fits, with room for a zero.
    unsafe {
        let target = request.ifr_name.as_mut_ptr().cast();
        ptr::copy_nonoverlapping(name.as_ptr(), target, name.len());
    }
    Ok(request)
}

fn call(what: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: on success the socket is ours; the request has the right size for these calls.
    unsafe {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        let socket = OwnedFd::from_raw_fd(sys::check(libc::socket(libc::AF_INET, kind, 0))?);
        sys::check(libc::ioctl(socket.as_raw_fd(), what, request)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Link, String> {
        parse(words.iter().map(OsString::from))
    }

    #[test]
    fn an_address_and_who_must_answer() {
        let link = parsed(&["eth0", "10.1.2.3", "24", "10.1.2.1"]).expect("a link");
        assert_eq!(link.gateway, Some(Ipv4Addr::new(10, 1, 2, 1)));
        assert_eq!(
            parsed(&["eth0", "10.1.2.3", "24"]).expect("a link").gateway,
            None
        );
        for wrong in [
            &["eth0", "10.1.2.3"][..],
            &["eth0", "10.1.2", "24"],
            &["eth0", "10.1.2.3", "0"],
            &["eth0", "10.1.2.3", "33"],
            &["eth0", "10.1.2.3", "24", "gateway"],
        ] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_neighbour_is_known_when_it_has_answered() {
        let table = "IP address       HW type     Flags       HW address            Mask     Device\n\
                     10.1.2.1         0x1         0x2         02:00:00:00:00:01     *        eth0\n\
                     10.1.2.9         0x1         0x0         00:00:00:00:00:00     *        eth0\n";
        assert!(knows(table, Ipv4Addr::new(10, 1, 2, 1)));
        assert!(!knows(table, Ipv4Addr::new(10, 1, 2, 9)));
        assert!(!knows(table, Ipv4Addr::new(10, 1, 2, 2)));
    }

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        assert!(up("no-such-link").is_err() && up("a-name-that-is-much-too-long").is_err());
    }
}
