//! The processes that there are, and what each used so far.

use std::fs;
use std::io;

use nix::sys::resource::Usage;
use nix::sys::signal::Signal;
use nix::sys::time::TimeValLike;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::{Pid, SysconfVar, sysconf};

/// Where a process stands.
#[derive(Debug, PartialEq)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    pub group: i32,
    /// CPU time of the children that it has waited for, in clock ticks.
    gone_ticks: u64,
}

/// All that can be seen from here.
pub fn all() -> io::Result<Vec<Process>> {
    let names =
        fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let pids = names.filter_map(|name| name.parse::<i32>().ok());
    Ok(pids.filter_map(process).collect())
}

/// All below a process: its children, theirs, and so on.
pub fn below(ancestor: i32) -> io::Result<Vec<Process>> {
    let mut others = all()?;
    let mut family = vec![ancestor];
    let mut members = Vec::new();
    while let Some(parent) = family.pop() {
        let (children, rest) = others.into_iter().partition(|one| one.parent == parent);
        others = rest;
        let children: Vec<Process> = children;
        family.extend(children.iter().map(|child| child.pid));
        members.extend(children);
    }
    Ok(members)
}

/// What its program is called, as `ps` has it; `?` when it is gone.
pub fn name(pid: i32) -> String {
    let comm = fs::read(format!("/proc/{pid}/comm")).unwrap_or_else(|_| b"?".into());
    String::from_utf8_lossy(&comm).trim_end().into()
}

fn process(pid: i32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse(pid, &String::from_utf8_lossy(&stat))
}

/// Of /proc/PID/stat; the name at its begin may hold blanks and parentheses.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let gone = |place: usize| fields.get(place)?.parse::<u64>().ok();
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        gone_ticks: gone(13)? + gone(14)?,
    })
}

impl Process {
    /// CPU time of the children that it has waited for, in seconds.
    #[allow(clippy::cast_precision_loss)]
    pub fn gone_s(&self) -> f64 {
        let a_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
        self.gone_ticks as f64 / a_second as f64
    }
}

/// CPU time of a process so far, in seconds; None: it is gone.
#[allow(clippy::cast_precision_loss)]
pub fn cpu_s(pid: i32) -> Option<f64> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid)).ok()?;
    let time = clock_gettime(clock).ok()?;
    Some(time.num_nanoseconds() as f64 / 1e9)
}

/// The most memory that a process has had, in bytes; None: it is gone, or has none.
pub fn peak_bytes(pid: i32) -> Option<u64> {
    let kib: u64 = status(pid, "VmHWM:")?.strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// It ignores the end of its children: the kernel adds what they used to nobody's times.
pub fn forgets_children(pid: i32) -> bool {
    let ignored = status(pid, "SigIgn:").and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    ignored.is_some_and(|mask| mask >> (Signal::SIGCHLD as i32 - 1) & 1 == 1)
}

/// A line of /proc/PID/status, without its title.
fn status(pid: i32, title: &str) -> Option<String> {
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    let text = String::from_utf8_lossy(&status);
    let line = text.lines().find_map(|line| line.strip_prefix(title))?;
    Some(line.trim().into())
}

/// CPU time of a usage, user and system, in seconds.
#[allow(clippy::cast_precision_loss)]
pub fn used_s(usage: &Usage) -> f64 {
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    micros as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use std::process::{Command, id};

    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let stat = "7 (a) b) S 3 5 1 0 -1 4 0 0 0 0 1 2 30 40 20 0";
        let want = Process {
            pid: 7,
            parent: 3,
            group: 5,
            gone_ticks: 70,
        };
        assert_eq!(parse(7, stat), Some(want));
        assert_eq!(parse(7, "7 (a) S 3"), None);
    }

    #[test]
    fn those_below_are_children_and_theirs() {
        let own = i32::try_from(id()).unwrap();
        let mut child = Command::new("sh")
            .args(["-c", "sleep 60 & wait"])
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let begun = std::time::Instant::now();
        let grandchild = loop {
            if let [grandchild] = &below(pid).unwrap()[..] {
                break grandchild.pid;
            }
            assert!(begun.elapsed().as_secs() < 60, "it has no child");
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        let family = below(own).unwrap();
        assert!(
            [pid, grandchild]
                .iter()
                .all(|pid| family.iter().any(|one| one.pid == *pid))
        );
        assert!(peak_bytes(pid).unwrap() > 0);
        assert!(cpu_s(pid).is_some());
        for pid in [grandchild, pid] {
            nix::sys::signal::kill(Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
        }
        child.wait().unwrap();
        assert_eq!(cpu_s(pid), None);
    }
}
