//! Whatever ends the agent, nothing of it is left.
#![cfg(unix)]

mod common;

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{AGENT, Agent, Event, MAGIC, alive, gone_within, json};

const SOON: Duration = Duration::from_secs(5);

/// A child, a grandchild in a session of its own, and one that has been orphaned on top.
const FAMILY: &str = "echo $$; setsid sleep 1000 >/dev/null 2>&1 & echo $!; \
    (setsid sleep 1000 >/dev/null 2>&1 & echo $!); echo end; sleep 1000";

fn raise_family(agent: &mut Agent) -> [i32; 3] {
    agent.send(&json!({"op": "spawn", "id": 4, "argv": ["sh", "-c", FAMILY]}));
    let mut text = String::new();
    while !text.ends_with("end\n") {
        if let Event::Raw { bytes, .. } = agent.next() {
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
    let pids: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    assert!(pids.iter().all(|pid| alive(*pid)), "{text}");
    pids.try_into().expect("three of them")
}

fn pid_of_worker(agent: &mut Agent) -> i32 {
    let hello = agent.hello();
    hello["facts"]["pid"]
        .as_i64()
        .and_then(|pid| i32::try_from(pid).ok())
        .expect("a pid")
}

fn supervisor(agent: &Agent) -> i32 {
    agent.process.as_ref().expect("ours").id().cast_signed()
}

fn kill(pid: i32, signal: i32) {
    // SAFETY: no memory is involved.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

#[test]
fn the_worker_is_killed() {
    let mut agent = Agent::serve();
    let worker = pid_of_worker(&mut agent);
    let family = raise_family(&mut agent);
    kill(worker, libc::SIGKILL);
    agent.wait_for_end();
    assert!(
        !family.iter().any(|pid| alive(*pid)),
        "end of file means that nothing is left"
    );
    assert_eq!(agent.exit_code(), Some(137));
}

#[test]
fn the_keeper_is_killed() {
    let mut agent = Agent::serve();
    let worker = pid_of_worker(&mut agent);
    let family = raise_family(&mut agent);
    kill(supervisor(&agent), libc::SIGKILL);
    assert!(gone_within(&family, SOON) && gone_within(&[worker], SOON));
}

#[test]
fn the_keeper_is_told_to_end() {
    let mut agent = Agent::serve();
    let family = raise_family(&mut agent);
    kill(supervisor(&agent), libc::SIGTERM);
    agent.wait_for_end();
    assert!(!family.iter().any(|pid| alive(*pid)));
}

#[test]
fn an_interrupt_is_not_for_the_agent() {
    let mut agent = Agent::serve();
    let worker = pid_of_worker(&mut agent);
    kill(supervisor(&agent), libc::SIGINT);
    kill(worker, libc::SIGINT);
    agent.ns();
    let run = agent.shell(9, "kill -INT $$");
    assert_eq!(run.exit["signal"], 2, "but programs get it as usual");
}

#[test]
fn bye() {
    let mut agent = Agent::serve();
    let family = raise_family(&mut agent);
    assert_eq!(agent.ask(&json!({"op": "bye", "id": 5}))["op"], "done");
    assert_eq!(agent.exit_code(), Some(0));
    assert!(!family.iter().any(|pid| alive(*pid)));
}

#[test]
fn end_of_file() {
    let mut agent = Agent::serve();
    let family = raise_family(&mut agent);
    agent.to = None;
    assert_eq!(agent.exit_code(), Some(0));
    assert!(!family.iter().any(|pid| alive(*pid)));
    let idle = Agent::serve();
    drop(idle);
}

#[test]
fn orphans_are_reaped() {
    let mut agent = Agent::serve();
    let worker = pid_of_worker(&mut agent);
    raise_family(&mut agent);
    agent.shell(
        5,
        "for i in 1 2 3 4 5 6 7; do (sleep 0.1 >/dev/null 2>&1 &); done",
    );
    std::thread::sleep(Duration::from_millis(500));
    let run = agent.shell(6, &format!("ps -o stat= --ppid {worker} | grep -c Z"));
    assert_eq!(run.text().trim(), "0");
}

/// Leaves one in a session of its own and one in the program's own group, with its output closed.
const LEAVE: &str = "setsid sleep 1000 >/dev/null 2>&1 & echo $!; \
    sleep 1000 >/dev/null 2>&1 & echo $!";

#[test]
fn a_sweep_takes_what_ended_programs_left() {
    let mut agent = Agent::serve();
    let worker = pid_of_worker(&mut agent);
    let run = agent.shell(5, LEAVE);
    let left: Vec<i32> = run.text().lines().filter_map(|l| l.parse().ok()).collect();
    assert!(left.len() == 2 && left.iter().all(|pid| alive(*pid)));
    assert_eq!(
        agent.ask(&json!({"op": "sweep", "id": 6})),
        json!({"op": "done", "id": 6, "killed": 2})
    );
    let gone = |pid: &i32| !Path::new(&format!("/proc/{pid}")).exists();
    assert!(left.iter().all(gone), "reaped, not only killed");
    assert!(alive(worker) && alive(supervisor(&agent)));
    assert_eq!(agent.ask(&json!({"op": "sweep", "id": 6}))["killed"], 0);
    assert_eq!(agent.shell(7, "echo on").text(), "on\n");
}

#[test]
fn a_sweep_spares_what_runs() {
    let mut agent = Agent::serve();
    let family = raise_family(&mut agent);
    // SAFETY: no memory is involved.
    while family[1..]
        .iter()
        .any(|pid| unsafe { libc::getsid(*pid) } != *pid)
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Nothing tells the detached orphan of a running program from that of an ended one.
    assert_eq!(agent.ask(&json!({"op": "sweep", "id": 6}))["killed"], 1);
    assert_eq!(family.map(alive), [true, true, false]);
    agent.send(&json!({"op": "kill", "id": 7, "target": 4, "signal": 9}));
    // `done` and `exit`, in either order.
    let _ = (agent.answer(), agent.answer());
    // The program's own sleep was killed with its group, and on a busy machine has not ended yet.
    let killed = &agent.ask(&json!({"op": "sweep", "id": 6}))["killed"];
    assert!(*killed == 1 || *killed == 2, "{killed}");
    assert_eq!(family.map(alive), [false, false, false]);
}

#[test]
fn a_sweep_spares_the_orphans_of_what_runs() {
    let mut agent = Agent::serve();
    let script = "(sleep 1000 & echo $!); sleep 1000";
    agent.send(&json!({"op": "spawn", "id": 4, "argv": ["sh", "-c", script]}));
    let Event::Json(_) = agent.next() else {
        panic!("started comes first")
    };
    let Event::Raw { bytes, .. } = agent.next() else {
        panic!("a pid")
    };
    let orphan = String::from_utf8_lossy(&bytes)
        .trim()
        .parse()
        .expect("a pid");
    assert_eq!(agent.ask(&json!({"op": "sweep", "id": 6}))["killed"], 0);
    assert!(alive(orphan));
}

#[test]
fn a_sweep_by_a_guest_s_first_process() {
    // In a user namespace, so that switching the guest off cannot be meant for this machine.
    let namespaces = ["--map-root-user", "--pid", "--fork", "--mount-proc"];
    let allowed = Command::new("unshare")
        .args(namespaces)
        .arg("true")
        .status()
        .is_ok_and(|status| status.success());
    if !allowed {
        eprintln!("skipped: user namespaces are needed");
        return;
    }
    let mut unshare = Command::new("unshare");
    unshare.args(namespaces).args([AGENT, "serve", "--guest"]);
    let mut agent = Agent::start_by(&mut unshare);
    assert_eq!(agent.hello()["facts"]["init"], true);
    assert_eq!(agent.shell(5, LEAVE).text().lines().count(), 2);
    assert_eq!(agent.ask(&json!({"op": "sweep", "id": 6}))["killed"], 2);
    let run = agent.shell(7, "cd /proc; echo [0-9]*; echo $$");
    let (all, own) = run.text().trim().split_once('\n').expect("two lines");
    assert_eq!(all, format!("1 {own}"));
}

#[test]
fn it_is_small() {
    let mut agent = Agent::serve();
    let worker = pid_of_worker(&mut agent);
    raise_family(&mut agent);
    let rss_kib = |pid: i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .expect("VmRSS");
        line.trim()
            .trim_end_matches(" kB")
            .parse::<u64>()
            .expect("a number")
    };
    let total = rss_kib(worker) + rss_kib(supervisor(&agent));
    // Debug builds link dynamically, and are larger than what is shipped.
    assert!(total < 16 << 10, "{total} KiB");
}

/// The kernel shows what it waits for as not blocked meanwhile; so by its system call.
fn waits_for_a_signal(pid: u32) -> bool {
    let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).expect("syscall");
    let number = call.split(' ').next().and_then(|word| word.parse().ok());
    number == Some(libc::SYS_rt_sigtimedwait)
}

#[test]
fn pause_waits_for_its_signal() {
    let mut process = Command::new(AGENT).arg("pause").spawn().expect("pause");
    // Before it has blocked the signal, that kills it.
    while !waits_for_a_signal(process.id()) {
        assert!(process.try_wait().expect("wait").is_none());
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(process.id().cast_signed(), libc::SIGTERM);
    assert!(process.wait().expect("wait").success());
}

#[test]
fn wrong_usage_is_told() {
    let output = Command::new(AGENT).arg("dance").output().expect("output");
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("dance: no such command"));
    let version = Command::new(AGENT)
        .arg("--version")
        .output()
        .expect("output");
    assert_eq!(
        version.stdout,
        format!("ullage-agent {}\n", env!("CARGO_PKG_VERSION")).as_bytes()
    );
}

/// A pseudo-terminal stands for the virtio-serial port.
fn pseudo_terminal() -> (File, String) {
    // SAFETY: calls on a descriptor of our own, with a buffer of the size that is told.
    unsafe {
        let master = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
        assert!(master >= 0 && libc::grantpt(master) == 0 && libc::unlockpt(master) == 0);
        let mut name = [0; 64];
        assert_eq!(libc::ptsname_r(master, name.as_mut_ptr(), name.len()), 0);
        let name = std::ffi::CStr::from_ptr(name.as_ptr())
            .to_str()
            .expect("UTF-8")
            .to_owned();
        (File::from_raw_fd(master), name)
    }
}

#[test]
fn a_device_calls_out_until_it_is_answered() {
    let (mut master, name) = pseudo_terminal();
    let began = Instant::now();
    let mut process = Command::new(AGENT)
        .args(["serve", "--device", &name])
        .stdin(Stdio::null())
        .spawn()
        .expect("the agent starts");
    for _ in 0..3 {
        let mut magic = [0; 15];
        master.read_exact(&mut magic).expect("the magic line");
        assert_eq!(magic, MAGIC);
    }
    assert!(began.elapsed() > Duration::from_millis(150), "at its pace");
    let mut agent = Agent::on(master.try_clone().expect("clone"), master);
    assert_eq!(agent.hello()["op"], "hello");
    let quiet = agent.next_within(Duration::from_millis(350));
    assert!(
        quiet.is_none(),
        "after the first frame it is quiet: {quiet:?}"
    );
    let family = raise_family(&mut agent);
    assert_eq!(agent.ask(&json!({"op": "bye", "id": 5}))["op"], "done");
    assert!(process.wait().expect("wait").success());
    assert!(!family.iter().any(|pid| alive(*pid)));
}

#[test]
fn a_missing_device_is_named() {
    let output = Command::new(AGENT)
        .args(["serve", "--device", "/dev/no-such"])
        .output()
        .expect("output");
    assert_eq!(output.status.code(), Some(1));
    let message = "ullage-agent: cannot open /dev/no-such: No such file or directory\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), message);
}

#[test]
fn a_closed_output_is_the_end() {
    let mut process = Command::new(AGENT)
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(
            OpenOptions::new()
                .write(true)
                .open("/dev/full")
                .expect("/dev/full"),
        )
        .stderr(Stdio::piped())
        .spawn()
        .expect("the agent starts");
    assert!(
        process
            .stdin
            .as_ref()
            .is_some_and(|stdin| stdin.as_raw_fd() > 2)
    );
    assert_eq!(process.wait().expect("wait").code(), Some(1));
    let mut text = String::new();
    process
        .stderr
        .take()
        .expect("stderr")
        .read_to_string(&mut text)
        .expect("read");
    assert_eq!(
        text,
        "ullage-agent: cannot write to the controller: No space left on device\n"
    );
}
