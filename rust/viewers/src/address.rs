//! Where videos are: `http://ADDRESS:PORT/PATH`, and where redirects may lead.
//!
//! Addresses only, no names: a viewer resolves nothing, so a front cannot make it ask anybody else.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest that is taken from a redirect.
const LONGEST: usize = 2000;

/// An address of plain HTTP whose host is an IPv4 address.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Url {
    pub address: SocketAddrV4,
    /// Begins with a slash.
    pub path: String,
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("`{}`: {why}", printable(text)));
        if text.len() > LONGEST {
            return wrong("longer than 2000 bytes");
        }
        let Some(authority) = text.strip_prefix("http://") else {
            return wrong("does not begin with http://");
        };
        let (host, path) = match authority.find('/') {
            Some(at) => authority.split_at(at),
            None => (authority, "/"),
        };
        // Nothing that could end the request's first line, or a header.
        if !path
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#')
        {
            return wrong("the path has a character that does not belong there");
        }
        let address = host
            .parse()
            .or_else(|_| host.parse().map(|ip| SocketAddrV4::new(ip, 80)));
        match address {
            Ok(address) if address.port() != 0 => Ok(Self {
                address,
                path: path.into(),
            }),
            _ => wrong("the host is not an IPv4 address with a port"),
        }
    }
}

/// The part of a text from outside that can be shown.
pub fn printable(text: &str) -> String {
    let clean = |c: char| if c.is_ascii_graphic() { c } else { '?' };
    text.chars().take(100).map(clean).collect()
}

impl fmt::Display for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "http://{}{}", self.address, self.path)
    }
}

impl TryFrom<String> for Url {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Url> for String {
    fn from(url: Url) -> Self {
        url.to_string()
    }
}

/// Addresses: `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network {
    base: Ipv4Addr,
    length: u32,
}

impl Network {
    /// Loopback, RFC 1918 and link-local: a lab's.
    pub fn private() -> Vec<Self> {
        [
            ([127, 0, 0, 0], 8),
            ([10, 0, 0, 0], 8),
            ([172, 16, 0, 0], 12),
            ([192, 168, 0, 0], 16),
            ([169, 254, 0, 0], 16),
        ]
        .map(|(base, length)| Self {
            base: base.into(),
            length,
        })
        .into()
    }

    pub fn has(self, address: Ipv4Addr) -> bool {
        let shift = 32 - self.length;
        let part = |ip: Ipv4Addr| u64::from(ip.to_bits()) >> shift;
        part(address) == part(self.base)
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (base, length) = text.split_once('/').unwrap_or((&text, "32"));
        match (base.parse(), length.parse()) {
            (Ok(base), Ok(length @ 0..=32)) => Ok(Self { base, length }),
            _ => Err(format!("`{}` is not like 10.0.0.0/8", printable(&text))),
        }
    }
}

impl From<Network> for String {
    fn from(network: Network) -> Self {
        format!("{}/{}", network.base, network.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_apart_from_other_texts() {
        let url: Url = "http://10.0.0.5:8080/a/clip.mp4?x=1".parse().expect("url");
        assert_eq!(url.address.to_string(), "10.0.0.5:8080");
        assert_eq!(url.path, "/a/clip.mp4?x=1");
        assert_eq!(url.to_string(), "http://10.0.0.5:8080/a/clip.mp4?x=1");
        let bare: Url = "http://10.0.0.5".parse().expect("url");
        assert_eq!((bare.address.port(), bare.path.as_str()), (80, "/"));
        for bad in [
            "",
            "https://10.0.0.5/",
            "http://example.org/",
            "http://10.0.0.5:0/",
            "http://10.0.0.5:99999/",
            "http://user@10.0.0.5/",
            "http://10.0.0.5/a b",
            "http://10.0.0.5/a\r\nX: y",
            "http://10.0.0.5/ü",
            "//10.0.0.5/",
        ] {
            assert!(bad.parse::<Url>().is_err(), "{bad}");
        }
        assert!(
            format!("http://10.0.0.5/{}", "x".repeat(3000))
                .parse::<Url>()
                .is_err()
        );
    }

    #[test]
    fn networks_have_their_addresses() {
        let of = |text: &str| Network::try_from(text.to_owned());
        assert!(of("10.0.0.0/8").expect("network").has([10, 9, 8, 7].into()));
        assert!(!of("10.0.0.0/8").expect("network").has([11, 0, 0, 0].into()));
        assert!(of("0.0.0.0/0").expect("network").has([8, 8, 8, 8].into()));
        assert!(!of("10.1.2.3").expect("network").has([10, 1, 2, 4].into()));
        for bad in ["", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/-1"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
