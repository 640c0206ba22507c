//! What a viewer does when something broke.

use std::io;

use crate::config::nanoseconds;
use crate::session::{Outcome, Why};
use crate::shard::{PAUSE_NS, Shard, now_ns};
use crate::viewer::Phase;

/// Whoever tells the front in vain waits longer each time, up to so many pauses: many may do so at once.
const MOST_PAUSES: u64 = 8;

impl Shard<'_> {
    /// The connection is of no use any more.
    pub fn broken(&mut self, index: u32, error: &io::Error) {
        use io::ErrorKind as Kind;
        let viewer = &mut self.viewers[index as usize];
        let stale = viewer.kept && !viewer.headed && viewer.partial.is_empty();
        if viewer.phase == Phase::Fetching && stale && !viewer.connecting {
            // Closed while the request was on its way: nothing was lost.
            self.statistics.reopened += 1;
            return self.connect(index);
        }
        match error.kind() {
            Kind::ConnectionRefused | Kind::HostUnreachable | Kind::NetworkUnreachable => {
                self.fault(index, Why::ConnectionRefused);
            }
            Kind::TimedOut => self.fault(index, Why::ConnectionTimedOut),
            Kind::UnexpectedEof | Kind::ConnectionReset | Kind::BrokenPipe | Kind::WouldBlock => {
                self.fault(index, Why::ConnectionLost);
            }
            _ => self.lacking(index, error),
        }
    }

    /// This host has no more descriptors, ports or memory: what follows would measure that.
    pub fn lacking(&mut self, index: u32, error: &io::Error) {
        self.statistics.fault = Some(format!("a connection could not be made here: {error}"));
        if self.viewers[index as usize].phase == Phase::Telling {
            // Its session is over, and on record.
            self.statistics.untold += 1;
            return self.vacate(index);
        }
        self.leave(index, Outcome::Failed, Some(Why::Generator), now_ns());
    }

    /// Something broke: the viewer asks again where that may help, or its session is over.
    pub fn fault(&mut self, index: u32, why: Why) {
        let now = now_ns();
        let limits = &self.config.limits;
        let patience_ns = nanoseconds(self.config.patience_s);
        let fronted = self.config.front.is_some();
        self.close(index);
        let viewer = &mut self.viewers[index as usize];
        match viewer.phase {
            Phase::Telling if now < viewer.question_ns + nanoseconds(limits.tell_s) => {
                let tries = u64::from(viewer.asks).min(MOST_PAUSES);
                self.pause_in(index, Phase::Retelling, tries * PAUSE_NS);
            }
            Phase::Telling => {
                self.statistics.untold += 1;
                self.vacate(index);
            }
            Phase::Asking if why.passes() && now < viewer.question_ns + patience_ns => {
                self.pause_in(index, Phase::Pausing, PAUSE_NS);
            }
            Phase::Asking => {
                let why = viewer.trouble.unwrap_or(why);
                self.leave(index, Outcome::Failed, Some(why), now);
            }
            _ if fronted && why.passes() && viewer.asks < limits.asks => {
                viewer.asks += 1;
                viewer.trouble.get_or_insert(why);
                // The front may not have heard yet, and would send it to the same node again.
                viewer.question_ns = now + PAUSE_NS;
                self.statistics.asked_again += 1;
                self.pause_in(index, Phase::Pausing, PAUSE_NS);
            }
            _ => self.leave(index, Outcome::Failed, Some(why), now),
        }
    }
}
