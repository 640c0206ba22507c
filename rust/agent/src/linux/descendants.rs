//! Finds and kills everything below this process, whatever sessions and groups it has fled to.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use libc::pid_t;

use crate::system::sys;

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// A process, as `/proc/PID/stat` tells of it.
#[derive(Debug, PartialEq)]
pub struct Process {
    pub pid: pid_t,
    pub session: pid_t,
    /// It is a zombie: nothing of it runs, somebody has to reap it.
    pub ended: bool,
    parent: pid_t,
}

/// Kills until nothing is left, calling `reap` in each round; false when time ran out before.
pub fn kill_all(patience: Option<Duration>, reap: impl Fn()) -> bool {
    let round = || {
        let left = below_us(|_| false)?;
        reap();
        kill(&left);
        Ok(left.is_empty())
    };
    // Without /proc the death signal of each child has to do.
    until_gone(patience, round).unwrap_or(false)
}

/// Repeats a round of killing until it says that nobody was left; false when time ran out before.
pub fn until_gone(
    patience: Option<Duration>,
    mut round: impl FnMut() -> io::Result<bool>,
) -> io::Result<bool> {
    let began = Instant::now();
    let mut pause = FIRST_PAUSE;
    while !round()? {
        if patience.is_some_and(|patience| began.elapsed() > patience) {
            return Ok(false);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    Ok(true)
}

pub fn kill(processes: &[Process]) {
    for process in processes {
        // It may be gone since; then there is nothing to do.
        let _ = sys::kill(process.pid, libc::SIGKILL);
    }
}

/// Every process below this one, but for those that are `spared` and what is below them.
pub fn below_us(spared: impl Fn(&Process) -> bool) -> io::Result<Vec<Process>> {
    let mut below: HashMap<pid_t, Vec<Process>> = HashMap::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // A process that has ended since the listing has no stat.
        let stat = fs::read(entry.path().join("stat")).unwrap_or_default();
        if let Some(process) = process(pid, &stat) {
            below.entry(process.parent).or_default().push(process);
        }
    }
    let mut descendants = Vec::new();
    let mut look_at = vec![std::process::id().cast_signed()];
    while let Some(pid) = look_at.pop() {
        let mut children = below.remove(&pid).unwrap_or_default();
        children.retain(|child| !spared(child));
        look_at.extend(children.iter().map(|child| child.pid));
        descendants.extend(children);
    }
    Ok(descendants)
}

/// Reads a line of `/proc/PID/stat`. The name before the fields may hold anything, so count from
/// its end.
fn process(pid: pid_t, stat: &[u8]) -> Option<Process> {
    let after_name = stat.iter().rposition(|byte| *byte == b')')?;
    let text = std::str::from_utf8(stat.get(after_name + 1..)?).ok()?;
    let mut fields = text.split_ascii_whitespace();
    Some(Process {
        pid,
        ended: matches!(fields.next()?, "Z" | "X"),
        parent: fields.next()?.parse().ok()?,
        session: fields.nth(1)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_behind_a_nasty_name() {
        let expected = |parent, session, ended| {
            Some(Process {
                pid: 12,
                session,
                ended,
                parent,
            })
        };
        let nasty = process(12, b"12 (a) S 7 (b) R 99 98 97 1");
        assert_eq!(nasty, expected(99, 97, false));
        assert_eq!(process(12, b"12 (\xFF) Z 7 12 4 0"), expected(7, 4, true));
        assert_eq!(process(12, b"12 (sh) S 7 12"), None);
        assert_eq!(process(12, b"12 (sh"), None);
        assert_eq!(process(12, b""), None);
    }

    #[test]
    fn our_children_are_found_unless_they_are_spared() {
        let mut child = std::process::Command::new("sleep")
            .arg("30")
            .spawn()
            .expect("sleep");
        let pid = child.id().cast_signed();
        let has =
            |descendants: &[Process], pid| descendants.iter().any(|process| process.pid == pid);
        let below = below_us(|_| false).expect("/proc");
        assert!(has(&below, pid) && !has(&below, std::process::id().cast_signed()));
        let below = below_us(|process| process.pid == pid).expect("/proc");
        assert!(!has(&below, pid));
        child.kill().expect("kill");
        child.wait().expect("wait");
    }
}
