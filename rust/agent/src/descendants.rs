//! Finds and kills everything below this process, whatever sessions and groups it has fled to.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use libc::pid_t;

use crate::sys;

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Kills until nothing is left, calling `reap` after each round; false when time ran out before.
pub fn kill_all(patience: Option<Duration>, reap: impl Fn()) -> bool {
    let began = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        // Without /proc the death signal of each child has to do.
        let Ok(left) = of(std::process::id().cast_signed()) else {
            return false;
        };
        reap();
        if left.is_empty() {
            return true;
        }
        for pid in left {
            // It may be gone since; then there is nothing to do.
            let _ = sys::kill(pid, libc::SIGKILL);
        }
        if patience.is_some_and(|patience| began.elapsed() > patience) {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Every process below `root`, without `root`.
fn of(root: pid_t) -> io::Result<Vec<pid_t>> {
    let mut below: HashMap<pid_t, Vec<pid_t>> = HashMap::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // A process that has ended since the listing has no stat.
        if let Some(parent) = fs::read(entry.path().join("stat"))
            .ok()
            .as_deref()
            .and_then(parent)
        {
            below.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut look_at = vec![root];
    while let Some(pid) = look_at.pop() {
        let children = below.remove(&pid).unwrap_or_default();
        look_at.extend(&children);
        found.extend(children);
    }
    Ok(found)
}

/// The parent in a line of `/proc/PID/stat`. The name before it may hold anything, so count from
/// its end.
fn parent(stat: &[u8]) -> Option<pid_t> {
    let after_name = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(after_name + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_behind_a_nasty_name() {
        assert_eq!(parent(b"12 (a) S 7 (b) R 99 1 1"), Some(99));
        assert_eq!(parent(b"12 (sh) S 7 12 12 0"), Some(7));
        assert_eq!(parent(b"12 (\xFF) Z 7 12"), Some(7));
        assert_eq!(parent(b"12 (sh"), None);
        assert_eq!(parent(b""), None);
    }

    #[test]
    fn our_children_are_among_init_s_descendants() {
        let me = std::process::id().cast_signed();
        let mut child = std::process::Command::new("sleep")
            .arg("30")
            .spawn()
            .expect("sleep");
        let below = of(me).expect("/proc");
        assert!(below.contains(&child.id().cast_signed()));
        assert!(!below.contains(&me));
        child.kill().expect("kill");
        child.wait().expect("wait");
    }
}
