//! Who waits, who watches, and until when.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use ullage_elastic::ClientId;

use crate::token::Token;

/// A deadline that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The patience of one that waits.
    Patience(ClientId),
    /// The longest time that one may watch.
    Watch(ClientId),
}

#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Where it is answered; none after a restart, until it asks again.
    pub token: Option<Token>,
    /// When it asked first.
    pub since: u64,
    turn: u64,
}

/// Outdated deadlines that are kept before they are cleared out.
const IDLE: usize = 1024;

/// Deadlines are not taken back one by one: one whose turn has passed means nothing any more.
#[derive(Default)]
pub struct Sessions {
    held: HashMap<ClientId, Held>,
    watching: HashMap<ClientId, u64>,
    deadlines: BinaryHeap<Reverse<(u64, ClientId, u64)>>,
    turn: u64,
}

impl Sessions {
    pub fn new() -> Self {
        Self::default()
    }

    /// The viewer waits from now on. If it waited already, its connection and patience are
    /// replaced, and the old connection is returned.
    pub fn hold(
        &mut self,
        client: ClientId,
        token: Option<Token>,
        now: u64,
        deadline: u64,
    ) -> Option<Token> {
        let turn = self.next(client, deadline);
        let before = self.held.insert(
            client,
            Held {
                token,
                since: now,
                turn,
            },
        )?;
        let held = self.held.get_mut(&client).expect("just held");
        held.since = before.since;
        before.token
    }

    pub fn end(&mut self, client: ClientId) -> Option<Held> {
        self.held.remove(&client)
    }

    /// The connection on which a waiting viewer is answered.
    pub fn at(&self, client: ClientId) -> Option<Token> {
        self.held.get(&client)?.token
    }

    pub fn has(&self, client: ClientId) -> bool {
        self.held.contains_key(&client)
    }

    pub fn all(&self) -> impl Iterator<Item = &Held> {
        self.held.values()
    }

    /// It watches from now on, and for so long at most.
    pub fn watch(&mut self, client: ClientId, deadline: u64) {
        let turn = self.next(client, deadline);
        self.watching.insert(client, turn);
    }

    /// It does not watch any more.
    pub fn gone(&mut self, client: ClientId) {
        self.watching.remove(&client);
    }

    /// Takes the next thing that is due.
    pub fn due(&mut self, now: u64) -> Option<Due> {
        while let Some(Reverse((deadline, client, turn))) = self.deadlines.peek().copied() {
            if deadline > now {
                return None;
            }
            self.deadlines.pop();
            if self.held.get(&client).is_some_and(|held| held.turn == turn) {
                return Some(Due::Patience(client));
            }
            if self.watching.get(&client) == Some(&turn) {
                self.watching.remove(&client);
                return Some(Due::Watch(client));
            }
        }
        None
    }

    /// When to look again, at the latest.
    pub fn next_due(&self) -> Option<u64> {
        self.deadlines
            .peek()
            .map(|Reverse((deadline, ..))| *deadline)
    }

    fn next(&mut self, client: ClientId, deadline: u64) -> u64 {
        self.turn += 1;
        if self.deadlines.len() > IDLE + 2 * (self.held.len() + self.watching.len()) {
            self.forget();
        }
        self.deadlines.push(Reverse((deadline, client, self.turn)));
        self.turn
    }

    /// More than half are outdated, and would stay until the patience of their viewers ended.
    #[cold]
    fn forget(&mut self) {
        let (held, watching) = (&self.held, &self.watching);
        self.deadlines.retain(|Reverse((_, client, turn))| {
            held.get(client).is_some_and(|held| held.turn == *turn)
                || watching.get(client) == Some(turn)
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all_due(sessions: &mut Sessions, now: u64) -> Vec<Due> {
        std::iter::from_fn(|| sessions.due(now)).collect()
    }

    #[test]
    fn one_that_asks_again_keeps_its_place_and_has_new_patience() {
        let mut sessions = Sessions::new();
        let (first, second) = (Token::new(1, 0), Token::new(2, 0));
        assert_eq!(sessions.hold(7, Some(first), 100, 200), None);
        assert_eq!(sessions.hold(7, Some(second), 150, 400), Some(first));
        assert_eq!(sessions.at(7), Some(second));
        assert_eq!(all_due(&mut sessions, 300), []);
        assert_eq!(sessions.next_due(), Some(400));
        assert_eq!(all_due(&mut sessions, 400), [Due::Patience(7)]);
        assert_eq!(sessions.end(7).unwrap().since, 100);
    }

    #[test]
    fn one_that_is_served_is_not_due_until_it_has_watched_too_long() {
        let mut sessions = Sessions::new();
        sessions.hold(7, None, 0, 10);
        sessions.end(7).unwrap();
        sessions.watch(7, 50);
        assert_eq!(all_due(&mut sessions, 49), []);
        assert_eq!(all_due(&mut sessions, 50), [Due::Watch(7)]);
        sessions.watch(8, 60);
        sessions.gone(8);
        assert_eq!(all_due(&mut sessions, 100), []);
        assert_eq!(sessions.next_due(), None);
    }

    proptest! {
        /// Whatever comes and goes, who is still held after all deadlines was never held.
        #[test]
        fn every_wait_ends(steps in proptest::collection::vec((0u64..8, 0u64..100, any::<bool>()), 0..80)) {
            let mut sessions = Sessions::new();
            for (client, deadline, stays) in steps {
                sessions.hold(client, None, 0, deadline);
                if !stays {
                    sessions.end(client);
                }
            }
            let mut due = all_due(&mut sessions, 100);
            let held = sessions.all().count();
            prop_assert_eq!(due.len(), held);
            due.dedup();
            prop_assert_eq!(due.len(), held);
        }

        /// Of many that come and go with all their patience left, those who stay are due.
        #[test]
        fn deadlines_of_those_who_have_gone_are_forgotten(
            stay in proptest::collection::vec(any::<bool>(), 3_000),
        ) {
            let mut sessions = Sessions::new();
            for (client, stays) in (0..).zip(&stay) {
                sessions.hold(client, None, 0, 1_000_000 + client);
                if client % 2 == 0 {
                    sessions.end(client);
                    sessions.watch(client, 2_000_000 + client);
                }
                if !stays {
                    sessions.end(client);
                    sessions.gone(client);
                }
                let there = sessions.held.len() + sessions.watching.len();
                prop_assert!(sessions.deadlines.len() <= IDLE + 2 * there + 2);
            }
            let there = stay.iter().filter(|stays| **stays).count();
            prop_assert_eq!(all_due(&mut sessions, 3_000_000).len(), there);
        }
    }
}
