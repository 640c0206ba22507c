//! What is sent again and again: its method, its headers and its body.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::net::SocketAddrV4;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use clap::Args;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request};

use crate::faults::Fault;
use ullage_common::failure::Failure;

/// A longer body is no request any more.
const LONGEST_BODY: usize = 16 << 20;
/// The generator's own: they say where the message ends, and whether the connection is kept.
const OURS: [HeaderName; 3] = [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING];

#[derive(Args, Default)]
pub struct Options {
    /// What the server is asked to do.
    #[arg(long, default_value = "GET", value_parser = method)]
    method: Method,
    /// The file with what is sent; else `ULLAGE_BODY` of the environment is.
    #[arg(long)]
    body_file: Option<PathBuf>,
}

/// `Name: value` of every request, from 0 on. In the environment: everybody sees arguments.
const HEADER: &str = "ULLAGE_HEADER_";
const BODY: &str = "ULLAGE_BODY";

/// Of every request, as the environment has them.
pub fn headers() -> Result<HeaderMap, Failure> {
    numbered(env::var_os)
}

fn numbered<T: AsRef<OsStr>>(read: impl Fn(String) -> Option<T>) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for text in (0..).map_while(|number| read(format!("{HEADER}{number}"))) {
        let text = text.as_ref().to_str().ok_or_else(|| "no text".to_owned());
        let (name, value) = text.and_then(header).map_err(Failure::input)?;
        headers.append(name, value);
    }
    Ok(headers)
}

/// Names of what is in the environment for us alone.
pub fn of_requests(name: &OsStr) -> bool {
    name.to_str()
        .is_some_and(|name| name == BODY || name.starts_with(HEADER))
}

fn method(text: &str) -> Result<Method, String> {
    match Method::from_bytes(text.as_bytes()) {
        // What follows would be no HTTP.
        Ok(Method::CONNECT) | Err(_) => Err("no method of a request".into()),
        Ok(method) => Ok(method),
    }
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("`Name: value` is wanted")?;
    let name: HeaderName = name.parse().map_err(|_| format!("{name}: no name"))?;
    if OURS.contains(&name) {
        return Err(format!("{name} is set by what is sent"));
    }
    let value = HeaderValue::from_str(value.trim()).map_err(|_| format!("{name}: no value"))?;
    Ok((name, value))
}

/// A request to be made again and again.
#[derive(Clone)]
pub struct Ask {
    path: String,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
}

impl Ask {
    /// To this server; `close`: each over a connection of its own.
    pub fn new(
        options: &Options,
        server: SocketAddrV4,
        path: &str,
        close: bool,
    ) -> Result<Self, Failure> {
        let mut headers = headers()?;
        if !headers.contains_key(HOST) {
            let host = HeaderValue::try_from(server.to_string());
            headers.insert(HOST, host.expect("digits, dots and a colon"));
        }
        if close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let body = body(options)?;
        if body.is_empty() && [Method::POST, Method::PUT, Method::PATCH].contains(&options.method) {
            // A body is expected of these (RFC 9110, 8.6); of others hyper says what it sends.
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        Ok(Self {
            path: path.into(),
            method: options.method.clone(),
            headers,
            body,
        })
    }

    pub fn method(&self) -> &str {
        self.method.as_str()
    }

    /// Bytes of its body.
    pub fn body_bytes(&self) -> usize {
        self.body.len()
    }

    pub fn request(&self) -> Result<Request<Full<Bytes>>, Fault> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.path.parse().map_err(|_| Fault::Other)?;
        request.headers_mut().clone_from(&self.headers);
        Ok(request)
    }
}

fn body(options: &Options) -> Result<Bytes, Failure> {
    let bytes = match &options.body_file {
        Some(path) => fs::read(path).map_err(|error| Failure::bad(path.display(), error))?,
        None => env::var_os(BODY).map_or_else(Vec::new, OsString::into_vec),
    };
    if bytes.len() > LONGEST_BODY {
        let limit = format!("the body has {} bytes, {LONGEST_BODY} at most", bytes.len());
        return Err(Failure::input(limit));
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_a_name_and_a_value() {
        let (name, value) = header("X-Shop:  a: b ").unwrap();
        assert_eq!((name.as_str(), value.to_str().unwrap()), ("x-shop", "a: b"));
        for bad in [
            "none",
            "a b: c",
            ": c",
            "A: b\r\nC: d",
            "Content-Length: 3",
            "Transfer-Encoding: chunked",
            "connection: close",
        ] {
            assert!(header(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn headers_are_counted_in_the_environment() {
        let given = |texts: &'static [&'static str]| {
            numbered(move |name| {
                let number: usize = name.strip_prefix(HEADER).unwrap().parse().unwrap();
                texts.get(number)
            })
        };
        let headers = given(&["Host: shop", "X-Key: a", "X-Key: b"]).unwrap();
        assert_eq!(headers[HOST], "shop");
        assert_eq!(headers.get_all("x-key").iter().count(), 2);
        assert!(given(&[]).unwrap().is_empty());
        assert!(given(&["Host: shop", "none"]).is_err());
    }

    #[test]
    fn a_server_is_not_given_them() {
        assert!(of_requests(OsStr::new("ULLAGE_HEADER_0")) && of_requests(OsStr::new(BODY)));
        assert!(!of_requests(OsStr::new("ULLAGE_RUN")) && !of_requests(OsStr::new("PATH")));
    }

    #[test]
    fn a_method_is_one_that_is_followed_by_http() {
        assert!(method("PURGE").is_ok());
        for bad in ["CONNECT", "", "GET /"] {
            assert!(method(bad).is_err(), "{bad}");
        }
    }
}
