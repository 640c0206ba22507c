//! Kills children whose time is over. A thread of its own, since the one that carries a child's
//! output may be waiting for credit at that moment.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::system::children::{Children, Ending};
use crate::system::sys;
use crate::time;

struct Deadline {
    at_ns: u64,
    id: u32,
    ending: Arc<Ending>,
}

/// The deadlines to come, in no order: there are few.
#[derive(Default)]
pub struct Timer {
    deadlines: Mutex<Vec<Deadline>>,
    changed: Condvar,
}

impl Timer {
    pub fn start(children: Arc<Children>) -> io::Result<Arc<Self>> {
        let timer = Arc::new(Self::default());
        let ours = Arc::clone(&timer);
        sys::start_thread("timer", move || ours.run(&children))?;
        Ok(timer)
    }

    /// At `at_ns`, the child will be killed if it still runs.
    pub fn add(&self, at_ns: u64, id: u32, ending: Arc<Ending>) {
        let mut deadlines = self
            .deadlines
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        deadlines.push(Deadline { at_ns, id, ending });
        self.changed.notify_all();
    }

    fn run(&self, children: &Children) -> ! {
        let mut deadlines = self
            .deadlines
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        loop {
            deadlines = match end_late(&mut deadlines, children) {
                None => self
                    .changed
                    .wait(deadlines)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(pause) => {
                    let waited = self
                        .changed
                        .wait_timeout(deadlines, Duration::from_nanos(pause));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

/// Ends who is late; in how many nanoseconds the next one is. Without anybody the clock is not asked:
/// it may not have begun.
fn end_late(deadlines: &mut Vec<Deadline>, children: &Children) -> Option<u64> {
    if deadlines.is_empty() {
        return None;
    }
    let now = time::now_ns();
    deadlines.retain(|deadline| {
        let over = deadline.at_ns <= now;
        if over {
            children.time_out(deadline.id, &deadline.ending);
        }
        !over && deadline.ending.get().is_none()
    });
    deadlines.iter().map(|deadline| deadline.at_ns - now).min()
}
