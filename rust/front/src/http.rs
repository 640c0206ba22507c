//! What a viewer asks: one HTTP/1.x request, read from bytes that anybody may have sent.

use httparse::{EMPTY_HEADER, Error, Status};
use ullage_elastic::ClientId;

/// Bytes of a request line and its headers, at most.
pub const MOST_HEAD: usize = 8192;
/// Bytes of a body, at most. No request needs one; some clients send one all the same.
pub const MOST_BODY: usize = 4096;
/// Headers, at most.
const MOST_HEADERS: usize = 64;

/// A page that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    Metrics,
    State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// To be sent to a node, within so many milliseconds.
    Watch {
        client: ClientId,
        patience_ms: Option<u64>,
    },
    /// It has seen enough.
    Finished {
        client: ClientId,
    },
    Page(Page),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No HTTP, or an address that makes no sense here.
    Malformed,
    NoSuchPage,
    /// A page that is asked for with this method, not with that.
    Only(&'static str),
    TooLongHead,
    TooLongBody,
    /// A body whose length is not told in advance.
    Encoded,
    /// The client wants to be told to go on.
    Expects,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The beginning of a request.
    Partial,
    /// A request of `length` bytes.
    Whole {
        request: Result<Request, Fault>,
        /// The connection may be used again.
        keep: bool,
        length: usize,
    },
    /// No request, so nothing after it can be read either.
    Bad(Fault),
}

/// Reads the first request of the bytes.
pub fn parse(bytes: &[u8]) -> Parsed {
    let mut headers = [EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let head = match request.parse(bytes) {
        Ok(Status::Complete(length)) if length <= MOST_HEAD => length,
        Ok(Status::Partial) if bytes.len() < MOST_HEAD => return Parsed::Partial,
        Ok(_) | Err(Error::TooManyHeaders) => return Parsed::Bad(Fault::TooLongHead),
        Err(_) => return Parsed::Bad(Fault::Malformed),
    };
    let fields = match Fields::of(&request) {
        Ok(fields) => fields,
        Err(fault) => return Parsed::Bad(fault),
    };
    if fields.body > MOST_BODY {
        return Parsed::Bad(Fault::TooLongBody);
    }
    let length = head + fields.body;
    if bytes.len() < length {
        return Parsed::Partial;
    }
    Parsed::Whole {
        request: read_request(
            request.method.unwrap_or_default(),
            request.path.unwrap_or_default(),
        ),
        keep: fields.keep,
        length,
    }
}

/// Of the headers, what matters.
struct Fields {
    keep: bool,
    body: usize,
}

impl Fields {
    fn of(request: &httparse::Request) -> Result<Self, Fault> {
        let mut keep = request.version == Some(1);
        let mut body = None;
        for header in request.headers.iter() {
            if header.name.eq_ignore_ascii_case("connection") {
                if names(header.value, b"close") {
                    keep = false;
                } else if names(header.value, b"keep-alive") {
                    keep = true;
                }
            } else if header.name.eq_ignore_ascii_case("content-length") {
                let length = number(header.value).ok_or(Fault::Malformed)?;
                if body.is_some_and(|before| before != length) {
                    return Err(Fault::Malformed);
                }
                body = Some(length);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                return Err(Fault::Encoded);
            } else if header.name.eq_ignore_ascii_case("expect") {
                return Err(Fault::Expects);
            }
        }
        let body = usize::try_from(body.unwrap_or(0)).map_err(|_| Fault::TooLongBody)?;
        Ok(Self { keep, body })
    }
}

/// Whether a list such as `keep-alive, upgrade` names the word.
fn names(list: &[u8], word: &[u8]) -> bool {
    let mut parts = list.split(|byte| *byte == b',');
    parts.any(|part| part.trim_ascii().eq_ignore_ascii_case(word))
}

/// Digits and nothing else.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        sum.checked_mul(10)?.checked_add(digit.into())
    })
}

fn read_request(method: &str, target: &str) -> Result<Request, Fault> {
    let (path, query) = path_of(target).unwrap_or_default();
    if let Some(client) = path.strip_prefix("/watch/") {
        only("GET", method)?;
        let client = number(client.as_bytes()).ok_or(Fault::Malformed)?;
        let patience_ms = patience(query)?;
        return Ok(Request::Watch {
            client,
            patience_ms,
        });
    }
    if let Some(client) = path.strip_prefix("/finished/") {
        only("POST", method)?;
        let client = number(client.as_bytes()).ok_or(Fault::Malformed)?;
        return Ok(Request::Finished { client });
    }
    match path {
        "/metrics" => only("GET", method).map(|()| Request::Page(Page::Metrics)),
        "/state" => only("GET", method).map(|()| Request::Page(Page::State)),
        _ => Err(Fault::NoSuchPage),
    }
}

/// Path and query of a target, which may be a whole address.
fn path_of(target: &str) -> Option<(&str, &str)> {
    let path = match target.strip_prefix("http://") {
        Some(after_scheme) => &after_scheme[after_scheme.find('/')?..],
        None => target,
    };
    Some(path.split_once('?').unwrap_or((path, "")))
}

fn patience(query: &str) -> Result<Option<u64>, Fault> {
    if query.is_empty() {
        return Ok(None);
    }
    let digits = query.strip_prefix("patience_ms=");
    let patience_ms = digits.and_then(|digits| number(digits.as_bytes()));
    patience_ms.map(Some).ok_or(Fault::Malformed)
}

fn only(allowed: &'static str, method: &str) -> Result<(), Fault> {
    if method == allowed {
        Ok(())
    } else {
        Err(Fault::Only(allowed))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(text: &str) -> (Result<Request, Fault>, bool) {
        match parse(text.as_bytes()) {
            Parsed::Whole {
                request,
                keep,
                length,
            } => {
                assert_eq!(length, text.len());
                (request, keep)
            }
            other => panic!("{text:?}: {other:?}"),
        }
    }

    fn get(target: &str) -> Result<Request, Fault> {
        whole(&format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n")).0
    }

    fn bad(head: &str) -> Fault {
        match parse(format!("GET /state HTTP/1.1\r\n{head}\r\n\r\n").as_bytes()) {
            Parsed::Bad(fault) => fault,
            other => panic!("{head:?}: {other:?}"),
        }
    }

    #[test]
    fn what_is_asked_is_read() {
        let watch = |client, patience_ms| {
            Ok(Request::Watch {
                client,
                patience_ms,
            })
        };
        assert_eq!(get("/watch/7"), watch(7, None));
        assert_eq!(get("/watch/7?patience_ms=0"), watch(7, Some(0)));
        assert_eq!(
            get("http://front:80/watch/7?patience_ms=5"),
            watch(7, Some(5))
        );
        assert_eq!(get(&format!("/watch/{}", u64::MAX)), watch(u64::MAX, None));
        assert_eq!(get("/metrics"), Ok(Request::Page(Page::Metrics)));
        assert_eq!(get("/state?"), Ok(Request::Page(Page::State)));
        let (finished, _) = whole("POST /finished/9 HTTP/1.1\r\nContent-Length: 2\r\n\r\nok");
        assert_eq!(finished, Ok(Request::Finished { client: 9 }));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for target in [
            "/watch/",
            "/watch/-1",
            "/watch/+1",
            "/watch/1/2",
            "/watch/18446744073709551616",
            "/watch/1?patience_ms=",
            "/watch/1?patience_ms=1.5",
            "/watch/1?patience=1",
        ] {
            assert_eq!(get(target), Err(Fault::Malformed), "{target}");
        }
        for target in ["/", "/watch", "*", "http://front", "/State"] {
            assert_eq!(get(target), Err(Fault::NoSuchPage), "{target}");
        }
        let posted = whole("POST /watch/1 HTTP/1.1\r\n\r\n").0;
        assert_eq!(posted, Err(Fault::Only("GET")));
        assert_eq!(get("/finished/1"), Err(Fault::Only("POST")));
    }

    #[test]
    fn a_connection_is_kept_as_both_sides_wish() {
        for (version, header, keep) in [
            ("1.1", "X: y", true),
            ("1.1", "Connection: Close", false),
            ("1.1", "Connection: te, close", false),
            ("1.0", "X: y", false),
            ("1.0", "Connection: keep-alive", true),
        ] {
            let text = format!("GET /state HTTP/{version}\r\n{header}\r\n\r\n");
            assert_eq!(whole(&text).1, keep, "{text:?}");
        }
    }

    #[test]
    fn heads_and_bodies_have_their_limits() {
        assert_eq!(bad("Transfer-Encoding: chunked"), Fault::Encoded);
        assert_eq!(bad("Expect: 100-continue"), Fault::Expects);
        assert_eq!(bad("Content-Length: 4097"), Fault::TooLongBody);
        assert_eq!(
            bad("Content-Length: 1\r\nContent-Length: 2"),
            Fault::Malformed
        );
        assert_eq!(bad("Content-Length: -1"), Fault::Malformed);
        assert_eq!(bad("No colon"), Fault::Malformed);
        assert_eq!(bad(&"a: b\r\n".repeat(65)), Fault::TooLongHead);
        assert_eq!(
            bad(&format!("a: {}", "b".repeat(MOST_HEAD))),
            Fault::TooLongHead
        );
        let endless = [b"GET /".as_slice(), &[b'x'; MOST_HEAD]].concat();
        assert_eq!(parse(&endless), Parsed::Bad(Fault::TooLongHead));
    }

    #[test]
    fn requests_may_follow_each_other() {
        let first = "POST /finished/1 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
        let both = format!("{first}GET /state HTTP/1.1\r\n\r\n");
        let Parsed::Whole { length, .. } = parse(both.as_bytes()) else {
            panic!("two requests");
        };
        assert_eq!(length, first.len());
        assert_eq!(whole(&both[length..]).0, Ok(Request::Page(Page::State)));
    }

    #[test]
    fn changed_requests_do_not_break_it() {
        let seeds: [&[u8]; 3] = [
            b"GET /watch/7?patience_ms=1500 HTTP/1.1\r\nHost: 10.0.0.1:8080\r\n\r\n",
            b"POST /finished/7 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
            b"GET /state HTTP/1.0\r\nConnection: close\r\n\r\n",
        ];
        ullage_mutate::inputs(&seeds, |bytes| {
            if let Parsed::Whole { length, .. } = parse(bytes) {
                assert!(length <= bytes.len());
            }
        });
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Parsed::Whole { length, .. } = parse(&bytes) {
                prop_assert!(length <= bytes.len());
            }
        }

        #[test]
        fn a_request_is_the_same_however_it_arrives(client: u64, patience: u64, cut in 0usize..60) {
            let text = format!("GET /watch/{client}?patience_ms={patience} HTTP/1.1\r\n\r\n");
            let watch = Request::Watch { client, patience_ms: Some(patience) };
            prop_assert_eq!(whole(&text).0, Ok(watch));
            let cut = cut.min(text.len() - 1);
            prop_assert_eq!(parse(&text.as_bytes()[..cut]), Parsed::Partial);
        }
    }
}
