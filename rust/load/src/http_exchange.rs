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
use tokio::task::yield_now;
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

/// What a client saw beside its times.
#[derive(Clone, Copy, Default)]
pub struct Seen {
    /// Connections that it opened.
    pub opened: u64,
    /// The first status that was not the one wanted.
    pub other_status: Option<u16>,
}

impl Seen {
    pub fn add(&mut self, other: Self) {
        self.opened += other.opened;
        self.other_status = self.other_status.or(other.other_status);
    }
}

/// Why there was no answer over a connection.
struct Lost {
    fault: Fault,
    /// Not a byte of the request went to the server: it had ended the connection before.
    unsent: bool,
}

impl From<Fault> for Lost {
    fn from(fault: Fault) -> Self {
        Self {
            fault,
            unsent: false,
        }
    }
}

impl From<hyper::Error> for Lost {
    fn from(error: hyper::Error) -> Self {
        Self {
            unsent: error.is_canceled(),
            fault: error.into(),
        }
    }
}

/// One user of the server, with at most one connection.
pub struct Client<'a> {
    target: &'a Target,
    runtime: Runtime,
    link: Option<Link>,
    pub seen: Seen,
}

impl<'a> Client<'a> {
    pub fn new(target: &'a Target) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self {
            target,
            runtime,
            link: None,
            seen: Seen::default(),
        })
    }

    /// Connect before the first request, where the connection is kept.
    pub fn warm(&mut self) {
        if !self.target.close {
            let Self { target, seen, .. } = self;
            let connected = async { timeout(target.deadline, connect(target, seen)).await };
            // Whoever cannot connect now tries again with its first request, which then tells.
            self.link = self.runtime.block_on(connected).ok().and_then(Result::ok);
        }
    }

    /// One request; when the last byte of its answer was here.
    pub fn exchange(&mut self) -> Result<Instant, Fault> {
        let link = self.link.take();
        let Self { target, seen, .. } = self;
        let exchanged = async { timeout(target.deadline, exchange(target, link, seen)).await };
        let (ended, link) = self
            .runtime
            .block_on(exchanged)
            .map_err(|_| Fault::TimedOut)??;
        self.link = link.filter(|_| !self.target.close);
        Ok(ended)
    }
}

async fn connect(target: &Target, seen: &mut Seen) -> Result<Link, Fault> {
    let stream = TcpStream::connect(target.server)
        .await
        .map_err(|error| Fault::from(&error))?;
    stream
        .set_nodelay(true)
        .map_err(|error| Fault::from(&error))?;
    let (requests, connection) = http1::handshake(TokioIo::new(stream)).await?;
    seen.opened += 1;
    Ok(Link {
        requests,
        connection: Box::pin(connection),
    })
}

/// Over the kept connection, or a new one where the server has ended that.
async fn exchange(
    target: &Target,
    kept: Option<Link>,
    seen: &mut Seen,
) -> Result<(Instant, Option<Link>), Fault> {
    if let Some(link) = kept {
        // The runtime learns of what has come since the last answer, such as its end.
        yield_now().await;
        match ask(target, link, seen).await {
            Err(lost) if lost.unsent => {}
            result => return result.map_err(|lost| lost.fault),
        }
    }
    let link = connect(target, seen).await?;
    ask(target, link, seen).await.map_err(|lost| lost.fault)
}

async fn ask(
    target: &Target,
    link: Link,
    seen: &mut Seen,
) -> Result<(Instant, Option<Link>), Lost> {
    let Link {
        mut requests,
        mut connection,
    } = link;
    let request = target.ask.request()?;
    let ended = {
        let answer = async {
            let response = requests.send_request(request).await?;
            read(target, response, seen).await.map_err(Lost::from)
        };
        tokio::pin!(answer);
        tokio::select! {
            biased;
            ended = &mut answer => ended?,
            _ = &mut connection => {
                // What came before its end may be the answer; what waits to be sent hears of the end
                // only when the connection is gone.
                drop(connection);
                return Ok((answer.await?, None));
            }
        }
    };
    let link = Link {
        requests,
        connection,
    };
    Ok((ended, Some(link)))
}

/// Every byte, and nothing else.
async fn read(
    target: &Target,
    response: Response<Incoming>,
    seen: &mut Seen,
) -> Result<Instant, Fault> {
    let status = response.status().as_u16();
    if status != target.status {
        seen.other_status.get_or_insert(status);
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
    use std::sync::mpsc::{Sender, channel};
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

    /// Answers once on each connection and ends it without having said so; tells of each end.
    fn ends_each(listener: &TcpListener, connections: usize, ended: &Sender<()>) {
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
            stream.write_all(GOOD.as_bytes()).unwrap();
            drop(stream);
            ended.send(()).unwrap();
        }
    }

    #[test]
    fn a_kept_connection_that_the_server_has_ended_is_replaced() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = target(&listener, false);
        let mut client = Client::new(&target).unwrap();
        let (sender, ended) = channel();
        thread::spawn(move || ends_each(&listener, 3, &sender));
        for _ in 0..3 {
            assert!(client.exchange().is_ok());
            ended.recv().unwrap();
        }
        assert_eq!(client.seen.opened, 3);
    }

    #[test]
    fn words_of_farewell_are_no_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = target(&listener, false);
        let mut client = Client::new(&target).unwrap();
        client.warm();
        let (mut idle, _) = listener.accept().unwrap();
        idle.write_all(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
            .unwrap();
        drop(idle);
        let (sender, ended) = channel();
        thread::spawn(move || ends_each(&listener, 1, &sender));
        assert!(client.exchange().is_ok());
        ended.recv().unwrap();
        assert_eq!((client.seen.opened, client.seen.other_status), (2, None));
    }

    #[test]
    fn what_may_have_reached_the_server_is_not_repeated() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = target(&listener, false);
        let mut client = Client::new(&target).unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
            stream.write_all(GOOD.as_bytes()).unwrap();
            assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
        });
        assert!(client.exchange().is_ok());
        assert_eq!(client.exchange().unwrap_err(), Fault::Closed);
        assert_eq!(client.seen.opened, 1);
    }

    /// The connection is over when it is first looked at, with the request in hand.
    #[test]
    fn an_end_at_the_moment_of_sending_is_told_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut target = target(&listener, false);
        target.deadline = Duration::from_secs(60);
        let mut client = Client::new(&target).unwrap();
        client.warm();
        drop(listener.accept().unwrap());
        let link = client.link.take().unwrap();
        let lost = client.runtime.block_on(async {
            yield_now().await;
            timeout(target.deadline, ask(&target, link, &mut Seen::default())).await
        });
        let lost = lost.expect("no wait").err().expect("nobody answers");
        assert!(lost.unsent);
        assert_eq!(lost.fault, Fault::Closed);
    }

    #[test]
    fn the_first_other_status_is_remembered() {
        const MOVED: &str = "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n";
        const GONE: &str = "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n";
        let status = with_server(&[&[MOVED], &[GONE], &[GOOD]], false, |client| {
            assert_eq!(client.exchange().unwrap_err(), Fault::Status);
            assert_eq!(client.exchange().unwrap_err(), Fault::Status);
            assert!(client.exchange().is_ok());
            client.seen.other_status
        });
        assert_eq!(status, Some(302));
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
