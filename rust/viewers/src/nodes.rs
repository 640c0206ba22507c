//! The nodes that viewers were sent to, each kept once.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use crate::address::{Network, Url};
use crate::session::Why;

/// A front that names more nodes is broken.
const MOST: usize = 1 << 16;
/// Sources of a process on the loopback: with 28,000 ports each, for viewers that come and go.
const SOURCES: u64 = 16;

pub struct Nodes {
    urls: Vec<Url>,
    numbers: HashMap<Url, u32>,
    allowed: Vec<Network>,
    shard: u32,
}

impl Nodes {
    pub fn new(urls: &[Url], allowed: &[Network], shard: u32) -> Self {
        let mut nodes = Self {
            urls: Vec::new(),
            numbers: HashMap::new(),
            allowed: allowed.to_vec(),
            shard,
        };
        for url in urls {
            nodes.urls.push(url.clone());
        }
        nodes
    }

    pub fn url(&self, number: u32) -> &Url {
        &self.urls[number as usize]
    }

    pub fn address(&self, number: u32) -> Option<SocketAddrV4> {
        self.urls.get(number as usize).map(|url| url.address)
    }

    /// The node of a viewer, where the configuration gives them.
    #[expect(clippy::cast_possible_truncation, reason = "2^16 at most")]
    pub fn of(&self, client: u64) -> u32 {
        (client % self.urls.len() as u64) as u32
    }

    /// Where a redirect leads, if it may.
    pub fn find(&mut self, location: &str) -> Result<u32, Why> {
        let url: Url = location.parse().map_err(|_| Why::Location)?;
        if let Some(number) = self.numbers.get(&url) {
            return Ok(*number);
        }
        let address = *url.address.ip();
        if !self.allowed.iter().any(|network| network.has(address)) {
            return Err(Why::NotAllowed);
        }
        let number = u32::try_from(self.urls.len()).map_err(|_| Why::TooManyNodes)?;
        if self.urls.len() >= MOST {
            return Err(Why::TooManyNodes);
        }
        self.urls.push(url.clone());
        self.numbers.insert(url, number);
        Ok(number)
    }

    /// The address that a viewer comes from: on the loopback one of many, as each has its own ports.
    #[expect(clippy::cast_possible_truncation, reason = "bytes")]
    pub fn source(&self, to: SocketAddrV4, client: u64) -> Option<SocketAddrV4> {
        let [high, low] = [100 + (self.shard >> 8) as u8, self.shard as u8];
        let last = 1 + (client % SOURCES) as u8;
        let source = Ipv4Addr::new(127, high, low, last);
        to.ip().is_loopback().then(|| SocketAddrV4::new(source, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_to_nodes_or_nowhere() {
        let mut nodes = Nodes::new(&[], &Network::private(), 3);
        let first = nodes.find("http://10.0.0.1:80/a").expect("allowed");
        assert_eq!(nodes.find("http://10.0.0.2:80/a"), Ok(first + 1));
        assert_eq!(nodes.find("http://10.0.0.1:80/a"), Ok(first));
        assert_eq!(nodes.find("http://8.8.8.8/"), Err(Why::NotAllowed));
        assert_eq!(nodes.find("/elsewhere"), Err(Why::Location));
        let to = nodes.url(first).address;
        assert_eq!(nodes.source(to, 1), None);
        let far = (0..70_000).map(|n| nodes.find(&format!("http://10.0.0.1:80/{n}")));
        assert_eq!(far.last(), Some(Err(Why::TooManyNodes)));
    }

    #[test]
    fn on_the_loopback_viewers_come_from_many_addresses() {
        let nodes = Nodes::new(&[], &[], 259);
        let to = "127.0.0.1:80".parse().expect("address");
        let source = nodes.source(to, 17).expect("loopback");
        assert_eq!(source.ip().octets(), [127, 101, 3, 2]);
        assert_ne!(nodes.source(to, 18), Some(source));
    }
}
