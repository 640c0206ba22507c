//! The server's side towards viewers: connections come, ask, wait, are answered, and go.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::Duration;

use ullage_common::epoll::EpollFlags;
use ullage_common::say;
use ullage_elastic::{ClientId, NodeId};

use super::{Limits, Server};
use crate::answer::{self, Words, Writer};
use crate::connection::{Connection, Sent, State};
use crate::decisions::Answer;
use crate::http::Page;
use crate::http::{Parsed, Request};
use crate::pages::Around;
use crate::token::Token;

/// Connections accepted in one turn, at most, so that open ones are not kept waiting.
const ACCEPTED: usize = 64;
/// How long what a client sends after its last answer is read and thrown away.
const LINGER_NS: u64 = 2_000_000_000;
/// How long to wait before accepting again when the host is out of memory or descriptors.
const RELIEF: Duration = Duration::from_millis(10);

impl Server {
    pub(super) fn accept(&mut self) {
        let now = self.front.now();
        for _ in 0..ACCEPTED {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    self.choked = false;
                    self.admit(stream, now);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::ConnectionAborted | ErrorKind::Interrupted
                    ) => {}
                Err(error) => {
                    if !std::mem::replace(&mut self.choked, true) {
                        say(&format!("warning: no connection can be accepted: {error}"));
                    }
                    std::thread::sleep(RELIEF);
                    return;
                }
            }
        }
    }

    fn admit(&mut self, stream: TcpStream, now: u64) {
        self.front.counts.connections += 1;
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        match self.connections.admit(stream, now) {
            Ok(token) => self.read(token),
            Err(mut stream) => {
                self.front.counts.crowded += 1;
                let mut out = Vec::new();
                self.writer.words(&mut out, &answer::CROWDED, false);
                let _ = stream.write(&out);
            }
        }
    }

    /// epoll reports events of a connection.
    pub(super) fn notice(&mut self, token: Token, flags: EpollFlags) {
        let gone = EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR;
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        connection.ended |= flags.intersects(gone);
        connection.readable();
        match connection.state {
            State::Reading => self.read(token),
            State::Answering => self.leave(token),
            State::Writing => {
                let sent = connection.send();
                self.sent(token, sent);
            }
            State::Lingering => {
                if connection.discard(&mut self.part) {
                    self.connections.end(token);
                }
            }
        }
    }

    /// The next request of a connection, if it has come.
    pub(super) fn read(&mut self, token: Token) {
        let now = self.front.now();
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        if connection.state != State::Reading {
            return;
        }
        match connection.next(now, &mut self.part) {
            Err(_) => self.connections.end(token),
            Ok(None | Some(Parsed::Partial)) => self.watch(token),
            Ok(Some(Parsed::Whole {
                request: Ok(request),
                ..
            })) => self.decide(token, request),
            Ok(Some(
                Parsed::Whole {
                    request: Err(fault),
                    ..
                }
                | Parsed::Bad(fault),
            )) => {
                self.front.counts.faulty += 1;
                self.words(token, &answer::faulty(fault));
            }
        }
    }

    fn decide(&mut self, token: Token, request: Request) {
        match request {
            // What the page shows must be in the log already.
            Request::Page(page) => self.front.answers.push((token, Answer::Page(page))),
            Request::Watch { .. } | Request::Finished { .. } if self.front.log.stuck() => {
                self.front.counts.unlogged += 1;
                self.words(token, &answer::UNLOGGED);
            }
            Request::Watch { .. } if self.crowded(token) => {
                self.front.counts.crowded += 1;
                self.words(token, &answer::CROWDED);
            }
            Request::Finished { client } => self.front.finished(token, client),
            Request::Watch {
                client,
                patience_ms,
            } => {
                self.front.watch(token, client, patience_ms);
                if self.front.sessions.at(client) == Some(token) {
                    self.hold(token, client);
                }
            }
        }
    }

    /// It came when all places were taken, and they still are.
    fn crowded(&mut self, token: Token) -> bool {
        self.connections.full() && self.connections.get(token).is_some_and(|it| it.beyond)
    }

    /// A viewer waits on its connection.
    fn hold(&mut self, token: Token, client: ClientId) {
        if let Some(connection) = self.connections.get(token) {
            connection.client = Some(client);
        }
        self.watch(token);
        self.leave(token);
    }

    /// A viewer whose client has gone waits no longer. While the log cannot be written, the end of
    /// its patience sees to that.
    fn leave(&mut self, token: Token) {
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        let client = connection.client.filter(|_| connection.ended);
        if let Some(client) = client.filter(|_| !self.front.log.stuck()) {
            self.front.left(token, client);
        }
    }

    /// epoll tells what happens to it from now on.
    fn watch(&mut self, token: Token) {
        let Some(connection) = self.connections.get(token).filter(|it| !it.watched) else {
            return;
        };
        connection.watched = true;
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP;
        let flags = flags | EpollFlags::EPOLLET;
        if self
            .poll
            .add(connection.stream(), flags, token.number())
            .is_err()
        {
            self.connections.end(token);
        }
    }

    pub(super) fn redirect(&mut self, token: Token, client: ClientId, node: NodeId) {
        let Some(connection) = self.connections.get(token) else {
            return self.front.missed(client);
        };
        let (writer, place) = (&self.writer, self.front.places.get(&node));
        let sent = connection.answer(|out, keep| match place {
            Some(place) => writer.redirect(out, &place.url, keep),
            // It failed in the same turn.
            None => writer.words(out, &answer::LOST, keep),
        });
        if sent == Sent::Failed {
            self.front.missed(client);
        }
        self.sent(token, sent);
    }

    pub(super) fn words(&mut self, token: Token, words: &Words) {
        self.reply(token, |writer, out, keep| writer.words(out, words, keep));
    }

    pub(super) fn page(&mut self, token: Token, page: Page) {
        let around = Around {
            connections: self.connections.len(),
            controller: self.alone.is_none(),
        };
        let (kind, body) = page.write(&mut self.front, around);
        self.reply(token, |writer, out, keep| {
            writer.page(out, kind, &body, keep);
        });
    }

    pub(super) fn reply(&mut self, token: Token, write: impl FnOnce(&Writer, &mut Vec<u8>, bool)) {
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        let writer = &self.writer;
        let sent = connection.answer(|out, keep| write(writer, out, keep));
        self.sent(token, sent);
    }

    /// An answer is with the kernel, or part of it is.
    fn sent(&mut self, token: Token, sent: Sent) {
        let now = self.front.now();
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        connection.since = now;
        connection.client = None;
        match sent {
            Sent::Done if connection.unread() => self.again.push(token),
            Sent::Done | Sent::Partly => self.watch(token),
            Sent::Close if connection.unread() => {
                connection.linger(now);
                if connection.discard(&mut self.part) {
                    self.connections.end(token);
                } else {
                    self.watch(token);
                }
            }
            Sent::Close | Sent::Failed => self.connections.end(token),
        }
    }

    /// Connections that took too long.
    pub(super) fn look(&mut self, now: u64) {
        let Limits { request, idle, .. } = self.limits;
        let late = |it: &&Connection| {
            let may = match it.state {
                State::Answering => return false,
                State::Reading if it.begun() => request,
                State::Reading => idle,
                State::Writing => request,
                State::Lingering => LINGER_NS,
            };
            now.saturating_sub(it.since) > may
        };
        let late: Vec<Token> = self
            .connections
            .all()
            .filter(late)
            .map(|it| it.token)
            .collect();
        for token in late {
            let Some(connection) = self.connections.get(token) else {
                continue;
            };
            if connection.state == State::Reading && connection.begun() {
                connection.last();
                self.front.counts.slow += 1;
                self.words(token, &answer::SLOW);
            } else {
                self.connections.end(token);
            }
        }
    }
}
