//! One connection to a web server: a request, its answer looked at in full, and what went wrong.

use std::io;
use std::net::SocketAddrV4;
use std::pin::Pin;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::Response;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::faults::Fault;
use crate::http_request::Ask;

/// What is asked for, and what must come.
pub struct Target {
    pub server: SocketAddrV4,
    pub ask: Ask,
    /// None: whatever it is, as long as all of it comes.
    pub document: Option<Vec<u8>>,
    pub status: u16,
    pub deadline: Duration,
    /// A connection for each request.
    pub close: bool,
}

/// An open connection, driven only while somebody waits for an answer.
struct Link {
    requests: SendRequest<Full<Bytes>>,
    connection: Pin<Box<Connection<TokioIo<TcpStream>, Full<Bytes>>>>,
}

/// One user of the server, with at most one connection.
pub struct Client<'a> {
    target: &'a Target,
    runtime: Runtime,
    link: Option<Link>,
}

impl<'a> Client<'a> {
    pub fn new(target: &'a Target) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self {
            target,
            runtime,
            link: None,
        })
    }

    /// Connect before the first request, where the connection is kept.
    pub fn warm(&mut self) {
        if !self.target.close {
            // Whoever cannot connect now tries again with its first request, which then tells.
            let connected = self
                .runtime
                .block_on(async { timeout(self.target.deadline, connect(self.target)).await });
            self.link = connected.ok().and_then(Result::ok);
        }
    }

    /// One request; when the last byte of its answer was here.
    pub fn exchange(&mut self) -> Result<Instant, Fault> {
        let link = self.link.take();
        let target = self.target;
        let exchanged = async { timeout(target.deadline, exchange(target, link)).await };
        let (ended, link) = self
            .runtime
            .block_on(exchanged)
            .map_err(|_| Fault::TimedOut)??;
        self.link = link.filter(|_| !target.close);
        Ok(ended)
    }
}

async fn connect(target: &Target) -> Result<Link, Fault> {
    let stream = TcpStream::connect(target.server)
        .await
        .map_err(|error| Fault::from(&error))?;
    stream
        .set_nodelay(true)
        .map_err(|error| Fault::from(&error))?;
    let (requests, connection) = http1::handshake(TokioIo::new(stream)).await?;
    Ok(Link {
        requests,
        connection: Box::pin(connection),
    })
}

async fn exchange(target: &Target, link: Option<Link>) -> Result<(Instant, Option<Link>), Fault> {
    let mut link = match link {
        Some(link) => link,
        None => connect(target).await?,
    };
    let request = target.ask.request()?;
    let (ended, lives) = {
        let answer = async {
            let response = link.requests.send_request(request).await?;
            read(target, response).await
        };
        tokio::pin!(answer);
        tokio::select! {
            biased;
            ended = &mut answer => (ended?, true),
            // It is over, but what came before its end may be the answer.
            _ = &mut link.connection => (answer.await?, false),
        }
    };
    Ok((ended, lives.then_some(link)))
}

/// Every byte, and nothing else.
async fn read(target: &Target, response: Response<Incoming>) -> Result<Instant, Fault> {
    if response.status() != target.status {
        return Err(Fault::Status);
    }
    let mut body = response.into_body();
    let mut left = target.document.as_deref();
    while let Some(frame) = body.frame().await {
        let frame = frame?;
        if let (Some(data), Some(rest)) = (frame.data_ref(), &mut left) {
            *rest = rest.strip_prefix(&data[..]).ok_or(Fault::Document)?;
        }
    }
    let ended = Instant::now();
    if left.is_none_or(<[u8]>::is_empty) {
        Ok(ended)
    } else {
        Err(Fault::Document)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::thread;

    use super::*;
    use crate::http_request;

    const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

    /// A server that answers the requests of each connection with these texts, and closes it then;
    /// and a client of it.
    fn with_server<T>(
        connections: &'static [&'static [&'static str]],
        close: bool,
        ask: impl Fn(&mut Client) -> T,
    ) -> T {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = target(&listener, close);
        with_listener(listener, connections, &target, ask)
    }

    fn with_listener<T>(
        listener: TcpListener,
        connections: &'static [&'static [&'static str]],
        target: &Target,
        ask: impl Fn(&mut Client) -> T,
    ) -> T {
        let serve = thread::spawn(move || {
            for answers in connections {
                let (mut stream, _) = listener.accept().unwrap();
                for answer in *answers {
                    let mut request = [0; 1024];
                    let length = stream.read(&mut request).unwrap();
                    assert!(request[..length].starts_with(b"GET /5 HTTP/1.1\r\n"));
                    stream.write_all(answer.as_bytes()).unwrap();
                }
            }
        });
        let result = ask(&mut Client::new(target).unwrap());
        serve.join().unwrap();
        result
    }

    fn target(listener: &TcpListener, close: bool) -> Target {
        let SocketAddr::V4(server) = listener.local_addr().unwrap() else {
            unreachable!("it was bound to an IPv4 address")
        };
        Target {
            server,
            ask: Ask::new(&http_request::Options::default(), server, "/5", close).unwrap(),
            document: Some(b"hello".to_vec()),
            status: 200,
            deadline: Duration::from_secs(5),
            close,
        }
    }

    #[test]
    fn a_connection_is_kept_or_not() {
        let twice = |client: &mut Client| [client.exchange(), client.exchange()].map(|x| x.is_ok());
        assert_eq!(with_server(&[&[GOOD, GOOD]], false, twice), [true, true]);
        assert_eq!(with_server(&[&[GOOD], &[GOOD]], true, twice), [true, true]);
    }

    #[test]
    fn after_a_fault_there_is_a_new_connection() {
        let twice = |client: &mut Client| [client.exchange(), client.exchange()].map(|x| x.is_ok());
        assert_eq!(
            with_server(&[&["nonsense\r\n"], &[GOOD]], false, twice),
            [false, true]
        );
    }

    #[test]
    fn what_is_not_the_document_has_its_kind() {
        let cases: [(&'static [&'static [&str]], Fault); 7] = [
            (
                &[&["HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nhello"]],
                Fault::Status,
            ),
            (
                &[&["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhallo"]],
                Fault::Document,
            ),
            (
                &[&["HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell"]],
                Fault::Document,
            ),
            (
                &[&["HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!"]],
                Fault::Document,
            ),
            (
                &[&["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"]],
                Fault::Closed,
            ),
            (&[&["220 smtp.example.org ready\r\n"]], Fault::Protocol),
            (&[&[""]], Fault::Closed),
        ];
        for (answers, fault) in cases {
            let error = with_server(answers, false, |client| client.exchange().unwrap_err());
            assert_eq!(error, fault, "{answers:?}");
        }
    }

    #[test]
    fn without_a_document_any_answer_will_do_that_is_whole() {
        let answers: [(&'static [&'static [&str]], bool); 3] = [
            (
                &[&["HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\nyes"]],
                true,
            ),
            (&[&[GOOD]], false),
            (
                &[&["HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nyes"]],
                false,
            ),
        ];
        for (connections, good) in answers {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut target = target(&listener, false);
            (target.document, target.status) = (None, 201);
            let answered = with_listener(listener, connections, &target, |client| {
                client.exchange().is_ok()
            });
            assert_eq!(answered, good, "{connections:?}");
        }
    }

    #[test]
    fn nobody_there_and_nobody_who_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut target = target(&listener, false);
        target.deadline = Duration::from_millis(20);
        let mut client = Client::new(&target).unwrap();
        assert_eq!(client.exchange().unwrap_err(), Fault::TimedOut);
        drop(listener);
        assert_eq!(client.exchange().unwrap_err(), Fault::Refused);
    }
}
