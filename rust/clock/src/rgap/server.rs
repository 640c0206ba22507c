//! The side that is asked: no state but counts, so any number of clients cost nothing.

use super::Standing;
use super::wire::{Body, LENGTH, Message, Token};

/// What a server has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    pub answered: u64,
    /// Datagrams that are no request of this version; ignored.
    pub malformed: u64,
    /// Requests with another run's token; ignored.
    pub foreign: u64,
}

/// Answers the requests of one run.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    token: Token,
    served: Served,
}

/// A request that waits to be told when it is answered.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    request: Message,
    t2: u64,
}

impl Server {
    #[must_use]
    pub fn new(token: Token) -> Self {
        Self {
            token,
            served: Served::default(),
        }
    }

    /// A datagram was received at `t2`, by the server's clock, read after it came.
    pub fn receive(&mut self, bytes: &[u8], t2: u64) -> Option<Pending> {
        let counts = &mut self.served;
        let Some(request) = Message::parse(bytes)
            .ok()
            .filter(|it| it.body == Body::Request)
        else {
            counts.malformed = counts.malformed.saturating_add(1);
            return None;
        };
        if request.token != self.token {
            counts.foreign = counts.foreign.saturating_add(1);
            return None;
        }
        counts.answered = counts.answered.saturating_add(1);
        Some(Pending { request, t2 })
    }

    #[must_use]
    pub fn served(&self) -> Served {
        self.served
    }
}

impl Pending {
    /// The answer, sent at `t3`: by the server's clock, read before it goes, which is as good as the
    /// standing says.
    #[must_use]
    pub fn answer(&self, t3: u64, standing: Standing) -> [u8; LENGTH] {
        let t2 = self.t2;
        let body = Body::Response { t2, t3, standing };
        Message {
            body,
            ..self.request
        }
        .encode()
    }
}
