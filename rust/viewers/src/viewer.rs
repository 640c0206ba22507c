//! One viewer: where it stands, and what its answers mean. Without sockets and time.

use std::os::fd::OwnedFd;

use crate::http::{Head, Word};
use crate::playback::{Plan, Player, Violation};
use crate::session::{Outcome, Why};

pub const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Phase {
    #[default]
    Free,
    /// Has asked the front, or is connecting to it.
    Asking,
    /// The front could not be reached; asks again soon.
    Pausing,
    /// Has asked its node for a chunk, or is connecting to it.
    Fetching,
    /// Its buffer is full.
    Resting,
    /// All of the video is there, and plays.
    Watching,
    /// Its session is over; tells the front.
    Telling,
    /// The front could not be told; tells it again soon.
    Retelling,
}

/// The state of a viewer. All times are the run's clock's; 0: not yet.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts of its connection, each on its own"
)]
pub struct Viewer {
    pub phase: Phase,
    pub client: u64,
    pub due_ns: u64,
    pub asked_ns: u64,
    pub answered_ns: u64,
    pub first_byte_ns: u64,
    pub node: u32,
    /// The front has it in a room, or may have: it was asked, and has not said otherwise.
    pub placed: bool,
    /// The same before its last question.
    pub was_placed: bool,
    /// When its last question began; of one that tells the front that it is gone, when it went.
    pub question_ns: u64,
    /// Questions to the front, or tries to tell it, so far.
    pub asks: u8,
    pub redirects: u8,
    /// What its first node did to it, when it was sent to another.
    pub trouble: Option<Why>,
    pub fd: Option<OwnedFd>,
    /// The generation of its descriptor: events of one that was closed do not count.
    pub generation: u32,
    pub connecting: bool,
    /// The connection has answered before, so the server may rightly have closed it since.
    pub kept: bool,
    /// The answer's head has come.
    pub headed: bool,
    /// The answer is the connection's last.
    pub closes: bool,
    /// What has come of a head that has not ended.
    pub partial: Vec<u8>,
    /// Bytes of the chunk that have not come.
    pub left: u64,
    /// Bytes of the next chunk that came with the head.
    pub early: u64,
    pub last_byte_ns: u64,
    pub player: Player,
    pub violations: Vec<Violation>,
    pub bytes: u64,
    /// When the first request that was due at an instant was due, and when it was sent; the last one.
    sent: Option<[(u64, u64); 2]>,
    /// The first chunk after playing began, and when it was there; the last one.
    chunks_came: Option<[(u64, u64); 2]>,
}

impl Viewer {
    /// Another viewer takes this place.
    pub fn come(&mut self, client: u64, due_ns: u64, now_ns: u64) {
        *self = Self {
            client,
            due_ns,
            asked_ns: now_ns,
            question_ns: now_ns,
            asks: 1,
            node: NOWHERE,
            generation: self.generation,
            ..Self::default()
        };
    }

    /// Ready for another answer on this connection, or on a new one.
    pub fn expect(&mut self) {
        self.headed = false;
        self.closes = false;
        self.early = 0;
        self.partial = Vec::new();
    }

    /// The next chunk is there; whether the picture had stood still.
    pub fn complete(&mut self, plan: &Plan, now_ns: u64) -> Option<Violation> {
        let paced = self.player.plays();
        let violation = self.player.complete(plan, now_ns);
        if paced {
            let this = (self.player.fetched() - 1, now_ns);
            let first = self.chunks_came.map_or(this, |[first, _]| first);
            self.chunks_came = Some([first, this]);
        }
        self.violations.extend(violation);
        violation
    }

    /// A request that was due then is sent now.
    pub fn sends(&mut self, due_ns: u64, now_ns: u64) {
        let this = (due_ns, now_ns);
        let first = self.sent.map_or(this, |[first, _]| first);
        self.sent = Some([first, this]);
    }

    /// From its first request that was due at an instant to the last: how long, and how long due.
    pub fn requested(&self) -> Option<(u64, u64)> {
        let [first, last] = self.sent?;
        let should = last.0 - first.0;
        (should > 0).then_some((last.1 - first.1, should))
    }

    /// From its first chunk after playing began to the last: how long it was, and how long at their pace.
    pub fn delivered(&self, plan: &Plan) -> Option<(u64, u64)> {
        let [first, last] = self.chunks_came?;
        let should = Player::between_ns(plan, first.0, last.0);
        (should > 0).then_some((last.1 - first.1, should))
    }
}

/// What the front's answer means.
#[derive(Debug, Eq, PartialEq)]
pub enum Answer {
    Go(String),
    Over(Outcome, Why),
    Broken(Why),
}

/// Of an answer to a question for a node.
pub fn answer(head: Head) -> Answer {
    match head.status {
        301..=303 | 307 | 308 => match head.location {
            Some(location) => Answer::Go(location),
            None => Answer::Broken(Why::Location),
        },
        503 if head.word == Word::Blocked => Answer::Over(Outcome::Blocked, Why::PatienceOver),
        503 if head.word == Word::Again => Answer::Broken(Why::ServerError),
        503 => Answer::Over(Outcome::Refused, Why::TurnedAway),
        500.. => Answer::Broken(Why::ServerError),
        _ => Answer::Broken(Why::Status),
    }
}

/// What a node's answer means: Go elsewhere, or what is wrong with it; none: bytes follow.
///
/// `range` is what was asked for; of the whole video if none.
pub fn video(head: Head, range: Option<(u64, u64)>, plan: &Plan) -> Option<Answer> {
    let broken = |why| Some(Answer::Broken(why));
    match (head.status, range) {
        (301..=303 | 307 | 308, _) => Some(answer(head)),
        (500.., _) => broken(Why::ServerError),
        (206, Some(_)) | (200, None) if head.coded => broken(Why::Protocol),
        (206, Some((from, to))) => {
            let right = head.range == range && head.length == Some(to - from);
            if right { None } else { broken(Why::Length) }
        }
        (200, None) => match head.length {
            Some(length) if length >= plan.bytes() => None,
            Some(_) => broken(Why::Length),
            None => broken(Why::Protocol),
        },
        (416, _) => broken(Why::Length),
        _ => broken(Why::Status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16) -> Head {
        Head {
            status,
            ..Head::default()
        }
    }

    #[test]
    fn answers_of_the_front() {
        let to = Head {
            location: Some("x".into()),
            ..head(302)
        };
        assert_eq!(answer(to), Answer::Go("x".into()));
        assert_eq!(answer(head(302)), Answer::Broken(Why::Location));
        let blocked = Head {
            word: Word::Blocked,
            ..head(503)
        };
        assert_eq!(
            answer(blocked),
            Answer::Over(Outcome::Blocked, Why::PatienceOver)
        );
        assert_eq!(
            answer(head(503)),
            Answer::Over(Outcome::Refused, Why::TurnedAway)
        );
        let again = Head {
            word: Word::Again,
            ..head(503)
        };
        assert_eq!(answer(again), Answer::Broken(Why::ServerError));
        assert_eq!(answer(head(500)), Answer::Broken(Why::ServerError));
        assert_eq!(answer(head(200)), Answer::Broken(Why::Status));
    }

    #[test]
    fn answers_of_a_node() {
        let plan = Plan::new(1000, 100, 800, 0);
        let part = |range, length| Head {
            range: Some(range),
            length: Some(length),
            ..head(206)
        };
        let requested = Some((100, 200));
        let of = |head| video(head, requested, &plan);
        assert_eq!(of(part((100, 200), 100)), None);
        let wrong = Some(Answer::Broken(Why::Length));
        assert_eq!(of(part((0, 100), 100)), wrong);
        assert_eq!(of(part((100, 200), 99)), wrong);
        assert_eq!(of(head(206)), wrong);
        assert_eq!(of(head(416)), wrong);
        assert_eq!(of(head(200)), Some(Answer::Broken(Why::Status)));
        assert_eq!(of(head(404)), Some(Answer::Broken(Why::Status)));
        assert_eq!(of(head(502)), Some(Answer::Broken(Why::ServerError)));
        assert_eq!(of(head(302)), Some(Answer::Broken(Why::Location)));
        let whole = |length| {
            let head = Head {
                length,
                ..head(200)
            };
            video(head, None, &plan)
        };
        assert_eq!(whole(Some(1000)), None);
        assert_eq!(whole(Some(999)), wrong);
        assert_eq!(whole(None), Some(Answer::Broken(Why::Protocol)));
    }

    #[test]
    fn the_pace_is_that_of_the_chunks_that_were_due_at_an_instant() {
        let plan = Plan::new(1000, 100, 800, 2_000_000_000);
        let mut viewer = Viewer::default();
        viewer.come(1, 5, 6);
        for now_ns in [10, 20] {
            viewer.complete(&plan, now_ns);
        }
        assert_eq!(viewer.delivered(&plan), None);
        for now_ns in [30, 1_000_000_030, 2_000_000_031] {
            viewer.complete(&plan, now_ns);
        }
        assert_eq!(
            viewer.delivered(&plan),
            Some((2_000_000_001, 2_000_000_000))
        );
        assert_eq!(viewer.requested(), None);
        for due_ns in [30, 1_000_000_030] {
            viewer.sends(due_ns, due_ns + 5);
        }
        assert_eq!(viewer.requested(), Some((1_000_000_000, 1_000_000_000)));
    }
}
