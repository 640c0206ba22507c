//! The little of HTTP/1.1 that a viewer speaks. Every byte is from outside.

use std::fmt::Write;

use crate::address::Url;
use crate::session::Why;

/// A longer head is refused.
pub const LONGEST_HEAD: usize = 8192;
const MOST_HEADERS: usize = 64;

/// An answer's first part, as far as it matters.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Head {
    pub status: u16,
    /// Bytes of the head itself.
    pub size: usize,
    pub length: Option<u64>,
    /// First byte and the one after the last.
    pub range: Option<(u64, u64)>,
    pub location: Option<String>,
    /// Sent in pieces of their own lengths, which a viewer does not read.
    pub coded: bool,
    /// The connection is not kept.
    pub closes: bool,
    /// `X-Ullage`.
    pub word: Word,
}

/// Why a front has no node, as far as it matters.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Word {
    /// None, or another.
    #[default]
    Other,
    /// `blocked`: patience is over.
    Blocked,
    /// `unlogged` or `crowded`: the front has not taken the question into account.
    Undecided,
    /// `ending` or `lost`: the front will be back, or has forgotten the node, so it is asked again.
    Again,
}

/// The head at the beginning of these bytes; none yet if it has not ended.
pub fn head(bytes: &[u8]) -> Result<Option<Head>, Why> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let size = match response.parse(bytes) {
        Ok(httparse::Status::Complete(size)) => size,
        Ok(httparse::Status::Partial) if bytes.len() < LONGEST_HEAD => return Ok(None),
        _ => return Err(Why::Protocol),
    };
    let mut head = Head {
        status: response.code.ok_or(Why::Protocol)?,
        size,
        closes: response.version != Some(1),
        ..Head::default()
    };
    for header in response.headers.iter() {
        head.take(header.name, header.value)?;
    }
    if matches!(head.status, 204 | 304) {
        head.length = Some(0);
    }
    Ok(Some(head))
}

impl Head {
    fn take(&mut self, name: &str, value: &[u8]) -> Result<(), Why> {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        let text = || {
            std::str::from_utf8(value)
                .map(str::trim)
                .map_err(|_| Why::Protocol)
        };
        if is("content-length") {
            let length = digits(text()?).ok_or(Why::Protocol)?;
            // Who believes the other length would read two answers.
            if self.length.is_some_and(|other| other != length) {
                return Err(Why::Protocol);
            }
            self.length = Some(length);
        } else if is("content-range") {
            self.range = Some(range(text()?).ok_or(Why::Length)?);
        } else if is("transfer-encoding") {
            self.coded = true;
        } else if is("location") {
            self.location = Some(text()?.to_owned());
        } else if is("connection") {
            self.closes |= text()?.eq_ignore_ascii_case("close");
        } else if is("x-ullage") {
            self.word = match text()?.to_ascii_lowercase().as_str() {
                "blocked" => Word::Blocked,
                "unlogged" | "crowded" => Word::Undecided,
                "ending" | "lost" => Word::Again,
                _ => Word::Other,
            };
        }
        Ok(())
    }
}

/// Nothing but digits, and not too many.
fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

/// `bytes 0-99/1000`.
fn range(text: &str) -> Option<(u64, u64)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last) = (digits(first)?, digits(last)?);
    let inside = total == "*" || digits(total)? > last;
    (first <= last && inside).then(|| (first, last.saturating_add(1)))
}

/// Ask the front for a node.
pub fn ask(into: &mut Vec<u8>, front: &Url, client: u64, patience_ms: u64) {
    let base = front.path.trim_end_matches('/');
    let line = format!("GET {base}/watch/{client}?patience_ms={patience_ms}");
    request(into, &line, front, "Connection: close\r\n");
}

/// Tell the front that its node has room again.
pub fn finished(into: &mut Vec<u8>, front: &Url, client: u64) {
    let base = front.path.trim_end_matches('/');
    let line = format!("POST {base}/finished/{client}");
    request(
        into,
        &line,
        front,
        "Content-Length: 0\r\nConnection: close\r\n",
    );
}

/// Ask a node for a part of its video: the first byte, and the one after the last.
pub fn part(into: &mut Vec<u8>, node: &Url, (from, to): (u64, u64)) {
    into.clear();
    let Url { address, path } = node;
    let mut text = Text(into);
    // Writing into memory does not fail.
    let _ = write!(
        text,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nRange: bytes={from}-{}\r\n\r\n",
        to - 1
    );
}

/// Ask a node for all of its video.
pub fn whole(into: &mut Vec<u8>, node: &Url) {
    request(into, &format!("GET {}", node.path), node, "");
}

fn request(into: &mut Vec<u8>, line: &str, to: &Url, headers: &str) {
    into.clear();
    // As above.
    let _ = write!(
        Text(into),
        "{line} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n",
        to.address
    );
}

struct Text<'a>(&'a mut Vec<u8>);

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(headers: &str) -> Result<Option<Head>, Why> {
        head(format!("HTTP/1.1 206 Partial Content\r\n{headers}\r\n").as_bytes())
    }

    #[test]
    fn a_part_is_understood() {
        let parsed = of("content-length: 100\r\nContent-Range: bytes 0-99/1000\r\n");
        let parsed = parsed.expect("HTTP").expect("complete");
        assert_eq!(
            (parsed.status, parsed.length, parsed.range),
            (206, Some(100), Some((0, 100)))
        );
        assert!(!parsed.closes && parsed.word == Word::Other);
        assert_eq!(head(b"HTTP/1.1 206 Par"), Ok(None));
    }

    #[test]
    fn answers_of_a_front_are_understood() {
        let parsed = head(b"HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1:80/x\r\n\r\n");
        let parsed = parsed.expect("HTTP").expect("complete");
        assert_eq!(parsed.location.as_deref(), Some("http://10.0.0.1:80/x"));
        let parsed = head(b"HTTP/1.1 503 Busy\r\nX-Ullage: blocked\r\nConnection: close\r\n\r\n");
        let parsed = parsed.expect("HTTP").expect("complete");
        assert!(parsed.word == Word::Blocked && parsed.closes);
        for word in ["unlogged", "crowded"] {
            let parsed = head(format!("HTTP/1.1 503 X\r\nX-Ullage: {word}\r\n\r\n").as_bytes());
            let parsed = parsed.expect("HTTP").expect("complete");
            assert_eq!(parsed.word, Word::Undecided, "{word}");
        }
    }

    #[test]
    fn lies_are_not_believed() {
        for (headers, why) in [
            ("Content-Length: -1\r\n", Why::Protocol),
            ("Content-Length: +1\r\n", Why::Protocol),
            ("Content-Length: 99999999999999999999\r\n", Why::Protocol),
            ("Content-Length: 1\r\nContent-Length: 2\r\n", Why::Protocol),
            ("Content-Range: bytes 5-4/10\r\n", Why::Length),
            ("Content-Range: bytes 0-99/99\r\n", Why::Length),
            ("Content-Range: octets 0-99/100\r\n", Why::Length),
            ("Location: \u{fffd}\u{fffd}", Why::Protocol),
        ] {
            match of(headers) {
                Err(parsed) => assert_eq!(parsed, why, "{headers}"),
                Ok(parsed) => assert!(parsed.is_none(), "{headers}: {parsed:?}"),
            }
        }
        assert_eq!(head(b"220 smtp.example.org ready\r\n"), Err(Why::Protocol));
        assert_eq!(head(&[b'H'; 10]), Err(Why::Protocol));
        let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(LONGEST_HEAD));
        assert_eq!(head(endless.as_bytes()), Err(Why::Protocol));
    }

    #[test]
    fn requests_are_as_servers_read_them() {
        let node: Url = "http://10.0.0.1:8080/clip.mp4".parse().expect("url");
        let mut text = Vec::new();
        part(&mut text, &node, (100, 200));
        let want = "GET /clip.mp4 HTTP/1.1\r\nHost: 10.0.0.1:8080\r\nRange: bytes=100-199\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&text), want);
        let front: Url = "http://10.0.0.1:8080".parse().expect("url");
        ask(&mut text, &front, 7, 1500);
        assert!(
            text.starts_with(b"GET /watch/7?patience_ms=1500 HTTP/1.1\r\nHost: 10.0.0.1:8080\r\n")
        );
        finished(&mut text, &front, 7);
        assert!(text.starts_with(b"POST /finished/7 HTTP/1.1\r\n") && text.ends_with(b"\r\n\r\n"));
    }

    #[test]
    fn changed_words_are_survived() {
        let seeds: [&[u8]; 3] = [
            b"HTTP/1.1 206 Partial Content\r\nContent-Length: 100\r\nContent-Range: bytes 0-99/200\r\n\r\n",
            b"HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1:8080/clip.mp4\r\nContent-Length: 0\r\n\r\n",
            b"bytes 0-99/200",
        ];
        ullage_mutate::inputs(&seeds, |bytes| {
            let _ = head(bytes);
            let _ = range(&String::from_utf8_lossy(bytes));
        });
    }

    proptest! {
        /// Whatever comes, and wherever it is cut, is an answer, none yet, or refused.
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = head(&bytes);
            let _ = head(&[b"HTTP/1.1 206 OK\r\n", &bytes[..]].concat());
            let _ = range(&String::from_utf8_lossy(&bytes));
        }
    }
}
