//! The log on its file. What is decided is written before anybody is told; where it cannot be written,
//! nothing more is decided until it can.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, ErrorKind, Write};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde_json::Value;
use ullage_common::say;
use ullage_elastic::Config;
use ullage_elastic::log::{self, Line, Record, Replayed};

use crate::config::Sync;
use ullage_common::Failure;

/// The log, and the part of it that is not in its file yet.
pub struct EventLog {
    file: Flock<File>,
    sync: Sync,
    pending: Vec<u8>,
    /// How much of `pending` is in the file already.
    written: usize,
    stuck: bool,
    bytes: u64,
}

impl EventLog {
    /// Opens the log, and reads it where there is one already. A last line that was cut is cut off.
    pub fn open(
        path: &Path,
        sync: Sync,
        config: Config,
        policy: &Value,
    ) -> Result<(Self, Replayed, u64), Failure> {
        let name = path.to_string_lossy();
        let failed = |error: io::Error| Failure::new(&name, error);
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).open(path);
        let lock = Flock::lock(file.map_err(failed)?, FlockArg::LockExclusiveNonblock);
        let file = lock.map_err(|(_, error)| match error {
            Errno::EWOULDBLOCK => Failure::bad(&name, "another front writes this log"),
            other => Failure::new(&name, other),
        })?;
        let replayed = log::replay(BufReader::new(&*file), config, policy);
        let replayed = replayed.map_err(|error| Failure::bad(&name, error))?;
        let length = file.metadata().map_err(failed)?.len();
        let torn = length - replayed.whole;
        if torn > 0 {
            say(&format!(
                "warning: {name}: the last line was cut; {torn} bytes are cut off"
            ));
            file.set_len(replayed.whole).map_err(failed)?;
        }
        let log = Self {
            file,
            sync,
            pending: Vec::new(),
            written: 0,
            stuck: false,
            bytes: replayed.whole,
        };
        Ok((log, replayed, torn))
    }

    /// To be written with the next batch.
    pub fn add(&mut self, at_ns: u64, record: Record) {
        let line = Line { at_ns, record };
        line.write(&mut self.pending)
            .expect("a line can be written to memory");
    }

    /// Writes what was added. False where that is not possible now: said once, and once when it is
    /// possible again.
    pub fn write(&mut self) -> bool {
        if self.pending.is_empty() {
            return true;
        }
        let result = self.write_pending();
        match &result {
            Ok(()) if self.stuck => say("the log can be written again"),
            Err(error) if !self.stuck => say(&format!(
                "error: the log cannot be written, nothing is decided until it can: {error}"
            )),
            _ => {}
        }
        self.stuck = result.is_err();
        !self.stuck
    }

    fn write_pending(&mut self) -> io::Result<()> {
        while self.written < self.pending.len() {
            match (&*self.file).write(&self.pending[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(length) => self.written += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.sync == Sync::EachBatch {
            self.file.sync_data()?;
        }
        self.bytes += self.written as u64;
        self.pending.clear();
        self.written = 0;
        Ok(())
    }

    pub fn pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// What was decided last could not be written.
    pub fn stuck(&self) -> bool {
        self.stuck
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes what is left, and waits for the disk.
    pub fn end(&mut self) -> Result<(), Failure> {
        let result = self.write_pending().and_then(|()| self.file.sync_data());
        result.map_err(|error| Failure::new("the log", error))
    }
}
