//! What the machine says to viewers, and what becomes of them.

use super::Engine;
use crate::NodeId;
use crate::event::Why;
use crate::sim::Observer;
use crate::sim::outcome::End;
use crate::sim::queue::{Due, Kind};
use crate::sim::sessions::Session;

impl<O: Observer> Engine<'_, O> {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "for each viewer that is served")]
    pub(super) fn redirect(&mut self, at: u64, slot: u32, node: NodeId) {
        self.decisions.redirect += 1;
        let waited = slot != self.asking;
        let mut session = self.asker;
        if waited {
            session = self.sessions.get(slot);
            self.sessions.renew(slot);
            self.waits.add(at - session.requested);
        }
        if !session.served {
            self.served_first(at, session, waited, node);
        }
        let ends = at.saturating_add(session.watch);
        if self.remembers {
            session.served = true;
            session.watch = ends;
            self.sessions.keep(slot, session);
        }
        let whom = self.sessions.timer(slot, session.late);
        self.queue.push(Due {
            at: ends,
            kind: Kind::Finished,
            whom,
        });
    }

    #[inline]
    fn served_first(&mut self, at: u64, session: Session, waited: bool, node: NodeId) {
        let steady = u64::from(session.requested >= self.warm_up);
        if waited {
            self.counts.waited += 1;
            self.steady.waited += steady;
        } else {
            self.counts.at_once += 1;
            self.steady.at_once += steady;
        }
        self.records.served(session.number, at, node);
    }

    #[inline(never)]
    pub(super) fn wait(&mut self, at: u64, slot: u32) {
        self.decisions.wait += 1;
        self.be_late(self.asker);
        self.asker.late = true;
        self.sessions.keep(slot, self.asker);
        if let Some(patience) = &mut self.patience {
            // A viewer has its patience, whether and when it comes to need it.
            let at = at.saturating_add(patience.ns_of(self.asker.number));
            let whom = self.sessions.timer(slot, true);
            self.queue.push(Due {
                at,
                kind: Kind::TimedOut,
                whom,
            });
        }
    }

    #[inline(never)]
    pub(super) fn turn_away(&mut self, at: u64, slot: u32, why: Why) {
        self.decisions.turn_away += 1;
        let session = if slot == self.asking {
            self.asker
        } else {
            self.sessions.get(slot)
        };
        self.be_late(session);
        let end = match why {
            _ if session.served => End::Cut,
            Why::Patience => End::Blocked,
            Why::WaitingRoomFull | Why::NoNodes => End::TurnedAway,
        };
        self.end(at, slot, session, end);
    }

    #[inline(never)]
    pub(super) fn lose(&mut self, at: u64, slot: u32) {
        self.decisions.lost += 1;
        self.counts.lost += 1;
        self.sessions.renew(slot);
        let mut session = self.sessions.get(slot);
        if !session.late {
            self.meter.would_go(session.watch);
            session.late = true;
        }
        self.counts.affected += u64::from(!session.affected);
        session.affected = true;
        // It was to see the rest later than now.
        session.watch = session.watch.saturating_sub(at);
        self.sessions.keep(slot, session);
        let Some(reconnect) = &mut self.reconnect else {
            return self.end(at, slot, session, End::Cut);
        };
        let at = at.saturating_add(reconnect.ns());
        let whom = self.sessions.timer(slot, true);
        self.queue.push(Due {
            at,
            kind: Kind::Back,
            whom,
        });
    }

    /// One is not served as it comes.
    fn be_late(&mut self, session: Session) {
        if !session.late {
            let ends = session.requested.saturating_add(session.watch);
            self.meter.would_go(ends);
        }
    }

    /// One goes that has not seen all.
    fn end(&mut self, at: u64, slot: u32, session: Session, end: End) {
        let steady = session.requested >= self.warm_up;
        for (counts, counted) in [(&mut self.counts, true), (&mut self.steady, steady)] {
            let count = match end {
                End::Blocked => &mut counts.blocked,
                End::TurnedAway => &mut counts.turned_away,
                End::Cut => &mut counts.cut,
                End::Finished => &mut counts.finished,
                End::Unserved => &mut counts.unserved,
            };
            *count += u64::from(counted);
        }
        self.records.ended(session.number, at, end);
        self.sessions.close(slot);
    }
}
