//! A synchronisation over whatever carries datagrams: UDP, TCP, a pipe.

use std::io;

use super::patience::Patience;
use super::{Action, Client, Failure, LENGTH, Outcome, Rules, Server, Standing, Token};

/// One more than any message has, so that a longer one is seen to be none.
pub(super) type Buffer = [u8; LENGTH + 1];

/// Between two looks of somebody awake there is no more than this, in nanoseconds: two system calls,
/// one of which copies a message. More is a thread that was taken off its core.
const AWAKE_NS: u64 = 5_000;

/// How often a sleeping server looks whether it is to stop, in nanoseconds.
pub(super) const STOP_NS: u64 = 50_000_000;

/// Carries messages to one server and back. Never blocks but in [`Channel::wait`].
pub trait Channel {
    /// Sends it, or loses it.
    ///
    /// # Errors
    /// If nothing will ever go this way again.
    fn send(&mut self, bytes: &[u8; LENGTH]) -> io::Result<()>;

    /// What has come, if anything.
    ///
    /// # Errors
    /// If nothing will ever come this way again.
    fn look(&mut self) -> io::Result<Option<&[u8]>>;

    /// Waits until something may have come, at most so long.
    ///
    /// # Errors
    /// As above.
    fn wait(&mut self, within_ns: u64) -> io::Result<()>;
}

/// When it was last seen that nothing is there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Eyes {
    /// By the own clock; none when they were closed since.
    empty_ns: Option<u64>,
}

impl Eyes {
    /// Nothing was there, now.
    pub fn empty(&mut self, now_ns: u64) {
        self.empty_ns = Some(now_ns);
    }

    /// They were closed.
    pub fn closed(&mut self) {
        self.empty_ns = None;
    }

    /// Whether what was found now came while they were open.
    pub fn awake(self, now_ns: u64) -> bool {
        self.empty_ns
            .is_some_and(|empty| now_ns.saturating_sub(empty) <= AWAKE_NS)
    }
}

/// The answer to what has just come, if it is a request of this run, and when it goes.
pub(super) fn respond(
    server: &mut Server,
    bytes: &[u8],
    eyes: Eyes,
    clock: impl Fn() -> (u64, Standing),
) -> Option<([u8; LENGTH], u64)> {
    let (t2, before) = clock();
    let pending = server.receive(bytes, t2)?;
    let (t3, after) = clock();
    // What it says must hold for both instants: in between, it may have learned something.
    let worse = before.or_worse(after);
    let awake = worse.awake && eyes.awake(t2);
    Some((pending.answer(t3, Standing { awake, ..worse }), t3))
}

/// Synchronises this clock with the server at the other end.
///
/// # Errors
/// If the channel is broken. That nobody answers is a [`Failure`].
pub fn synchronise(
    channel: &mut impl Channel,
    token: Token,
    rules: Rules,
    clock: impl Fn() -> u64,
) -> io::Result<Result<Outcome, Failure>> {
    let mut client = Client::new(rules, token, clock());
    let (mut eyes, mut patience) = (Eyes::default(), Patience::default());
    loop {
        let now_ns = clock();
        match client.poll(now_ns) {
            Action::Done(done) => return Ok(done),
            Action::Send(bytes) => {
                channel.send(&bytes)?;
                eyes.closed();
                patience.begin(now_ns);
            }
            Action::Wait { until_ns } => {
                if let Some(bytes) = channel.look()? {
                    let now_ns = clock();
                    client.receive(bytes, now_ns, eyes.awake(now_ns));
                    patience.met(now_ns);
                } else if !patience.over(now_ns) {
                    eyes.empty(now_ns);
                } else {
                    channel.wait(until_ns.saturating_sub(now_ns))?;
                    eyes.closed();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reasons;
    use crate::rgap::{Body, Message};
    use std::cell::Cell;

    #[test]
    fn awake_is_who_has_just_looked() {
        let mut eyes = Eyes::default();
        assert!(!eyes.awake(0));
        eyes.empty(1_000);
        assert!(eyes.awake(1_000 + AWAKE_NS) && !eyes.awake(1_001 + AWAKE_NS));
        eyes.closed();
        assert!(!eyes.awake(1_000));
    }

    /// It learned something between the request and the answer: what it says holds for both.
    #[test]
    fn an_answer_is_as_good_as_the_worse_of_its_instants() {
        let token = Token([1; 16]);
        let request = Message {
            token,
            sequence: 1,
            t1: 5,
            body: Body::Request,
        };
        let before = Standing {
            hard_ns: 900,
            bound_ns: 10,
            stratum: 3,
            awake: true,
            reasons: Reasons::MOVED,
        };
        let after = Standing {
            hard_ns: 100,
            bound_ns: 20,
            stratum: 1,
            awake: true,
            reasons: Reasons::SUSPENDED,
        };
        let calls = Cell::new(0);
        let clock = || {
            calls.set(calls.get() + 1);
            (
                1_000 * calls.get(),
                if calls.get() == 1 { before } else { after },
            )
        };
        let mut eyes = Eyes::default();
        eyes.empty(999);
        let mut server = Server::new(token);
        let (bytes, t3) = respond(&mut server, &request.encode(), eyes, clock).expect("answer");
        let standing = Standing {
            hard_ns: 900,
            bound_ns: 20,
            stratum: 3,
            awake: true,
            reasons: Reasons::MOVED | Reasons::SUSPENDED,
        };
        let body = Body::Response {
            t2: 1_000,
            t3: 2_000,
            standing,
        };
        assert_eq!((Message { body, ..request }.encode(), 2_000), (bytes, t3));
        eyes.closed();
        calls.set(0);
        let (bytes, _) = respond(&mut server, &request.encode(), eyes, clock).expect("answer");
        let woken = Message::parse(&bytes).expect("message").body;
        assert!(matches!(woken, Body::Response { standing, .. } if !standing.awake));
        let foreign = Message {
            token: Token([2; 16]),
            ..request
        };
        assert!(respond(&mut server, &foreign.encode(), eyes, clock).is_none());
    }
}
