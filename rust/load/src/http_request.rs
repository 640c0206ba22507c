//! What is sent again and again: its method, its headers and its body.

use std::fs;
use std::net::SocketAddrV4;
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
    /// `Name: value`, several times.
    #[arg(long = "header", value_parser = header)]
    headers: Vec<(HeaderName, HeaderValue)>,
    /// What is sent with it.
    #[arg(long, conflicts_with = "body_file")]
    body: Option<String>,
    /// The file with what is sent.
    #[arg(long)]
    body_file: Option<PathBuf>,
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
        let mut headers = HeaderMap::new();
        for (name, value) in &options.headers {
            headers.append(name, value.clone());
        }
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
    let bytes = match (&options.body, &options.body_file) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(path)) => {
            fs::read(path).map_err(|error| Failure::bad(path.display(), error))?
        }
        (None, None) => Vec::new(),
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
    fn a_method_is_one_that_is_followed_by_http() {
        assert!(method("PURGE").is_ok());
        for bad in ["CONNECT", "", "GET /"] {
            assert!(method(bad).is_err(), "{bad}");
        }
    }
}
