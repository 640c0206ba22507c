//! The table of running programs. A thread waits for each, and reads the clock as soon as the system
//! reports its end, before anything else.

use std::collections::HashMap;
use std::io;
use std::os::windows::io::AsRawHandle;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use windows_sys::Win32::System::Threading::{GetExitCodeProcess, INFINITE, WaitForSingleObject};

use super::job::{Job, KILLED, Stopped};
use super::spawn::Running;
use super::{sys, usage};
use crate::child::{Ended, How};
use crate::protocol::{Code, Failure, KILL};
use crate::time;

/// Linux's numbers: what the controller asks for. None of them can be caught here.
const TERM: i32 = 15;
const CONTINUE: i32 = 18;
const STOP: i32 = 19;

/// Where the waiter leaves the end of one program.
#[derive(Default)]
pub struct Ending {
    slot: Mutex<Option<Ended>>,
    set: Condvar,
}

impl Ending {
    /// The end, once it has come.
    pub fn get(&self) -> Option<Ended> {
        *self.lock()
    }

    pub fn wait(&self) -> Ended {
        let mut slot = self.lock();
        loop {
            if let Some(ended) = *slot {
                return ended;
            }
            slot = self.set.wait(slot).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn set(&self, ended: Ended) {
        *self.lock() = Some(ended);
        self.set.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Ended>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Child {
    job: Arc<Job>,
    /// The signal that we have ended it by.
    killed: Option<i32>,
    timed_out: bool,
    stopped: Stopped,
    ending: Arc<Ending>,
}

#[derive(Default)]
struct Table {
    children: HashMap<u32, Child>,
    /// Jobs of programs whose end was told: what they have left behind is still in them.
    ended: Vec<Arc<Job>>,
}

/// All programs between their start and their `exit` answer, by the id of their spawn.
#[derive(Default)]
pub struct Children(Mutex<Table>);

impl Children {
    /// Each program has a waiter of its own.
    #[allow(
        clippy::unnecessary_wraps,
        clippy::unused_self,
        reason = "as on the other system"
    )]
    pub fn watch(self: &Arc<Self>) -> io::Result<()> {
        Ok(())
    }

    /// Starts the program by `fork`, suspended, and enters it.
    pub fn add(
        self: &Arc<Self>,
        id: u32,
        fork: impl FnOnce() -> io::Result<Running>,
    ) -> io::Result<(u32, Arc<Ending>)> {
        let ending = Arc::new(Ending::default());
        let running = fork()?;
        let child = Child {
            job: Arc::clone(&running.job),
            killed: None,
            timed_out: false,
            stopped: Stopped::default(),
            ending: Arc::clone(&ending),
        };
        let pid = running.pid;
        self.lock().children.insert(id, child);
        let children = Arc::clone(self);
        let waited = sys::start_thread("waiter", move || children.wait_for(id, &running));
        waited.inspect_err(|_| drop(self.lock().children.remove(&id)))?;
        Ok((pid, ending))
    }

    fn wait_for(&self, id: u32, running: &Running) {
        let process = running.process.as_raw_handle();
        let mut code = 0;
        // SAFETY: an open handle, and a number of ours.
        let end = unsafe {
            WaitForSingleObject(process, INFINITE);
            let end = time::stamp();
            GetExitCodeProcess(process, &raw mut code);
            end
        };
        let usage = usage::of(&running.job, process);
        let table = self.lock();
        let Some(child) = table.children.get(&id) else {
            return;
        };
        let how = match child.killed {
            Some(signal) if code == KILLED => How::Killed(signal),
            _ => How::Exited(code),
        };
        child.ending.set(Ended { how, end, usage });
    }

    pub fn contains(&self, id: u32) -> bool {
        self.lock().children.contains_key(&id)
    }

    /// Takes the program out; true when it was killed for running too long.
    pub fn remove(&self, id: u32) -> bool {
        let mut table = self.lock();
        let Some(child) = table.children.remove(&id) else {
            return false;
        };
        table.ended.push(child.job);
        child.timed_out
    }

    /// The jobs of ended programs, to be emptied.
    pub fn take_ended(&self) -> Vec<Arc<Job>> {
        std::mem::take(&mut self.lock().ended)
    }

    /// Those that are not empty, to be looked at again.
    pub fn put_back(&self, jobs: Vec<Arc<Job>>) {
        self.lock().ended.extend(jobs);
    }

    /// What a signal is here: the end of the job, or its rest.
    pub fn signal(&self, id: u32, signal: i32) -> Result<(), Failure> {
        let mut table = self.lock();
        let Some(child) = table.children.get_mut(&id) else {
            let message = format!("kill: nothing runs with id {id}");
            return Err(Failure::new(Code::NoSuchId, message));
        };
        let done = match signal {
            KILL | TERM => {
                child.killed.get_or_insert(signal);
                child.job.kill()
            }
            STOP => child.stopped.stop(&child.job),
            CONTINUE => child.stopped.go_on(),
            _ => {
                let message = format!("kill: signal: {signal} is none on Windows");
                return Err(Failure::new(Code::BadField, message));
            }
        };
        done.map_err(|error| Failure::new(Code::Io, format!("kill: {}", sys::text(&error))))
    }

    /// Kills the program that `ending` belongs to, if it still runs: its time is over.
    pub fn time_out(&self, id: u32, ending: &Arc<Ending>) {
        let mut table = self.lock();
        let same = |child: &&mut Child| Arc::ptr_eq(&child.ending, ending);
        if let Some(child) = table.children.get_mut(&id).filter(same)
            && child.ending.get().is_none()
        {
            child.timed_out = true;
            child.killed.get_or_insert(KILL);
            let _ = child.job.kill();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
