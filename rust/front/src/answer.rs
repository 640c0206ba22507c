//! What viewers are told.

use std::io::Write;
use std::time::{Duration, SystemTime};

use ullage_elastic::Why;

use crate::http::Fault;

/// A fixed answer: status, the word in `X-Ullage`, and a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    status: &'static str,
    word: &'static str,
    sentence: &'static str,
}

const fn words(status: &'static str, word: &'static str, sentence: &'static str) -> Words {
    Words {
        status,
        word,
        sentence,
    }
}

const BUSY: &str = "503 Service Unavailable";

pub const BLOCKED: Words = words(BUSY, "blocked", "no node had room within your patience");
pub const FULL: Words = words(BUSY, "full", "as many wait as may");
pub const NO_NODES: Words = words(BUSY, "no-nodes", "there will never be a node");
pub const LOST: Words = words(BUSY, "lost", "the node failed; ask again");
pub const ELSEWHERE: Words = words(
    "409 Conflict",
    "elsewhere",
    "you asked again, and are answered there",
);
pub const ENDING: Words = words(BUSY, "ending", "the front ends; ask again when it is back");
pub const UNLOGGED: Words = words(
    BUSY,
    "unlogged",
    "the log cannot be written, so nothing is decided",
);
pub const UNCOUNTABLE: Words = words(BUSY, "uncountable", "more viewers than can be counted");
pub const CROWDED: Words = words(BUSY, "crowded", "too many connections");
pub const UNKNOWN: Words = words("404 Not Found", "unknown", "nobody serves such a viewer");
pub const SLOW: Words = words(
    "408 Request Timeout",
    "slow",
    "the request did not arrive in time",
);

/// Why a viewer goes without a node.
pub fn turned_away(why: Why) -> Words {
    match why {
        Why::Patience => BLOCKED,
        Why::WaitingRoomFull => FULL,
        Why::NoNodes => NO_NODES,
    }
}

/// Why a request is refused.
pub fn faulty(fault: Fault) -> Words {
    match fault {
        Fault::Malformed => words("400 Bad Request", "malformed", "this is no request"),
        Fault::NoSuchPage => words("404 Not Found", "no-such-page", "there is no such page"),
        Fault::Only("POST") => words(
            "405 Method Not Allowed\r\nAllow: POST",
            "method",
            "this is done with POST",
        ),
        Fault::Only(_) => words(
            "405 Method Not Allowed\r\nAllow: GET",
            "method",
            "this is done with GET",
        ),
        Fault::TooLongHead => words(
            "431 Request Header Fields Too Large",
            "head",
            "the head has more than 8 KiB or 64 headers",
        ),
        Fault::TooLongBody => words(
            "413 Content Too Large",
            "body",
            "the body has more than 4 KiB",
        ),
        Fault::Encoded => words(
            "501 Not Implemented",
            "encoding",
            "a body's length must be told in advance",
        ),
        Fault::Expects => words(
            "417 Expectation Failed",
            "expect",
            "nobody is told to go on",
        ),
    }
}

/// Writes answers; the date, which each carries, is made once a second.
pub struct Writer {
    date: String,
    second: u64,
}

impl Writer {
    pub fn new() -> Self {
        Self {
            date: String::new(),
            second: u64::MAX,
        }
    }

    /// Reads the machine's calendar; before each batch of answers.
    pub fn refresh(&mut self) {
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        if since.as_secs() != self.second {
            self.second = since.as_secs();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(self.second);
            self.date = httpdate::fmt_http_date(time);
        }
    }

    /// To a node.
    pub fn redirect(&self, out: &mut Vec<u8>, location: &str, keep: bool) {
        self.head(out, "302 Found");
        out.extend_from_slice(b"Location: ");
        out.extend_from_slice(location.as_bytes());
        out.extend_from_slice(b"\r\nCache-Control: no-store\r\n");
        end(out, 0, keep);
    }

    /// Done, and nothing to say.
    pub fn done(&self, out: &mut Vec<u8>, keep: bool) {
        self.head(out, "204 No Content");
        connection(out, keep);
        out.extend_from_slice(b"\r\n");
    }

    pub fn words(&self, out: &mut Vec<u8>, words: &Words, keep: bool) {
        self.head(out, words.status);
        out.extend_from_slice(b"X-Ullage: ");
        out.extend_from_slice(words.word.as_bytes());
        out.extend_from_slice(b"\r\nCache-Control: no-store\r\nContent-Type: text/plain\r\n");
        end(out, words.sentence.len() + 1, keep);
        out.extend_from_slice(words.sentence.as_bytes());
        out.push(b'\n');
    }

    pub fn page(&self, out: &mut Vec<u8>, kind: &str, body: &[u8], keep: bool) {
        self.head(out, "200 OK");
        let _ = write!(out, "Content-Type: {kind}\r\nCache-Control: no-store\r\n");
        end(out, body.len(), keep);
        out.extend_from_slice(body);
    }

    fn head(&self, out: &mut Vec<u8>, status: &str) {
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(status.as_bytes());
        out.extend_from_slice(b"\r\nDate: ");
        out.extend_from_slice(self.date.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

fn end(out: &mut Vec<u8>, length: usize, keep: bool) {
    let _ = write!(out, "Content-Length: {length}\r\n");
    connection(out, keep);
    out.extend_from_slice(b"\r\n");
}

fn connection(out: &mut Vec<u8>, keep: bool) {
    // HTTP/1.0 keeps a connection only when told so; HTTP/1.1 reads it with indifference.
    let word: &[u8] = if keep { b"keep-alive" } else { b"close" };
    out.extend_from_slice(b"Connection: ");
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl Fn(&Writer, &mut Vec<u8>)) -> String {
        let mut writer = Writer::new();
        writer.refresh();
        let mut out = Vec::new();
        write(&writer, &mut out);
        let text = String::from_utf8(out).unwrap();
        let mut headers = [httparse::EMPTY_HEADER; 16];
        let mut response = httparse::Response::new(&mut headers);
        let head = response.parse(text.as_bytes()).unwrap().unwrap();
        let length = response
            .headers
            .iter()
            .find(|it| it.name == "Content-Length");
        let length = length.map_or("0", |it| std::str::from_utf8(it.value).unwrap());
        assert_eq!(
            text.len() - head,
            length.parse::<usize>().unwrap(),
            "{text}"
        );
        assert!(
            response
                .headers
                .iter()
                .any(|it| it.name == "Date" && it.value.ends_with(b"GMT"))
        );
        text
    }

    #[test]
    fn answers_are_http_of_the_length_that_they_say() {
        let to = text(|writer, out| writer.redirect(out, "http://10.0.0.5/clip.mp4", true));
        assert!(to.starts_with("HTTP/1.1 302 Found\r\n") && to.contains("keep-alive"));
        assert!(to.contains("\r\nLocation: http://10.0.0.5/clip.mp4\r\n"));
        assert!(text(|writer, out| writer.done(out, false)).contains("204 No Content"));
        let page = text(|writer, out| writer.page(out, "text/plain", b"abc", false));
        assert!(page.ends_with("\r\n\r\nabc") && page.contains("Connection: close"));
        for fault in [
            Fault::Malformed,
            Fault::NoSuchPage,
            Fault::Only("GET"),
            Fault::Only("POST"),
            Fault::TooLongHead,
            Fault::TooLongBody,
            Fault::Encoded,
            Fault::Expects,
        ] {
            let answer_text = text(|writer, out| writer.words(out, &faulty(fault), false));
            assert!(
                answer_text.starts_with("HTTP/1.1 4") || answer_text.starts_with("HTTP/1.1 5"),
                "{answer_text}"
            );
        }
        for why in [Why::Patience, Why::WaitingRoomFull, Why::NoNodes] {
            let answer_text = text(|writer, out| writer.words(out, &turned_away(why), true));
            assert!(
                answer_text.starts_with("HTTP/1.1 503") && answer_text.contains("\r\nX-Ullage: "),
                "{answer_text}"
            );
        }
    }
}
