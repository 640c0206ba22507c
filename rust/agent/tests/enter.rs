//! `enter`: where native instances live. What needs root says so and is skipped without it.
#![cfg(unix)]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use common::{AGENT, Agent, json};

/// None, with a line that says so, when this host does not let us mount.
fn privileged() -> Option<()> {
    let allowed = Command::new("unshare")
        .args(["-m", "true"])
        .status()
        .is_ok_and(|status| status.success());
    if !allowed {
        eprintln!("skipped: root is needed");
    }
    allowed.then_some(())
}

/// A root without programs of its own: /usr is bound into it.
fn image(name: &str) -> PathBuf {
    let root = common::scratch(name);
    for directory in ["usr", "proc", "sys", "dev", "tmp", "run", "data", "etc"] {
        fs::create_dir(root.join(directory)).expect("mkdir");
    }
    for link in ["bin", "sbin", "lib", "lib64"] {
        symlink(format!("usr/{link}"), root.join(link)).expect("symlink");
    }
    fs::write(root.join("etc/os-release"), "PRETTY_NAME=\"A test\"\n").expect("write");
    root
}

fn error_of(args: &[&str]) -> String {
    let output = Command::new(AGENT)
        .arg("enter")
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("output");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn cpus_need_no_root() {
    let mut agent = Agent::start(["enter", "--cpus", "0"]);
    assert_eq!(agent.hello()["facts"]["cpus_allowed"], json!([0]));
}

#[test]
fn a_root_of_its_own() {
    let Some(()) = privileged() else { return };
    let (root, data) = (image("root"), common::scratch("root-data"));
    let bind = format!("{}:/data", data.display());
    let root_arg = root.display().to_string();
    let args = [
        "enter",
        "--root",
        &root_arg,
        "--bind",
        "/usr:/usr:ro",
        "--tmpfs",
        "/tmp",
        "--tmpfs",
        "/run",
        "--bind",
        &bind,
        "--bind",
        "/etc/passwd:/run/deep/passwd:ro",
        "--hostname",
        "native-3",
    ];
    let mut agent = Agent::start(args);
    let facts = agent.hello()["facts"].clone();
    assert_eq!(
        (&facts["hostname"], &facts["os"]),
        (&json!("native-3"), &json!("A test"))
    );
    assert!(facts["clocksource"].is_string(), "/sys is there");
    let script = "touch /etc/x /usr/x /run/deep/passwd; touch /tmp/x /data/x && echo written; \
        ls /; cat /run/deep/passwd";
    let run = agent.shell(4, script);
    assert!(run.text().starts_with(
        "written\nbin\ndata\ndev\netc\nlib\nlib64\nproc\nrun\nsbin\nsys\ntmp\nusr\nroot:"
    ));
    let errors = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(
        errors.matches("Read-only file system").count(),
        3,
        "{errors}"
    );
    assert!(data.join("x").exists() && !root.join("tmp/x").exists());
    let run = agent.shell(
        4,
        "cat /proc/self/mountinfo; test -c /dev/null && test -d /sys/fs/cgroup && echo fine",
    );
    assert!(run.text().ends_with("fine\n"));
    let old = run
        .text()
        .lines()
        .filter(|line| line.contains(" / / "))
        .count();
    assert!(
        old <= 1,
        "the host's root is not under ours: {}",
        run.text()
    );
    drop(agent);
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    assert!(!mounts.contains(&root_arg), "nothing shows on the host");
}

#[test]
fn a_symlink_in_the_image_leads_into_the_image() {
    let Some(()) = privileged() else { return };
    let root = image("symlink");
    let host = common::scratch("symlink-host");
    symlink(&host, root.join("out")).expect("symlink");
    let (root, target) = (root.display().to_string(), "/etc:/out");
    let error = error_of(&["--root", &root, "--bind", target]);
    assert_eq!(
        error,
        "ullage-agent: enter: --bind to /out: No such file or directory\n"
    );
}

#[test]
fn mounts_without_a_root() {
    let Some(()) = privileged() else { return };
    let data = common::scratch("mounts-data");
    fs::write(data.join("here"), "").expect("write");
    let bind = format!("{}:/tmp/inner:ro", data.display());
    let mut agent = Agent::start(["enter", "--tmpfs", "/tmp", "--bind", &bind]);
    let run = agent.shell(4, "ls /tmp /tmp/inner; stat -c %a /tmp; touch /tmp/inner/x");
    assert_eq!(run.text(), "/tmp:\ninner\n\n/tmp/inner:\nhere\n1777\n");
    assert!(String::from_utf8_lossy(&run.stderr).contains("Read-only file system"));
}

#[test]
fn failed_steps_are_named() {
    let Some(()) = privileged() else { return };
    let root = image("errors").display().to_string();
    let bare = common::scratch("bare").display().to_string();
    let missing = "No such file or directory\n";
    let cases = [
        (
            vec!["--netns", "/no/ns"],
            format!("enter: --netns /no/ns: {missing}"),
        ),
        (
            vec!["--root", "/no/root"],
            format!("enter: --root /no/root: {missing}"),
        ),
        (
            vec!["--root", &bare],
            format!("enter: mount of {bare}/proc: {missing}"),
        ),
        (
            vec!["--root", &root, "--bind", "/no/src:/tmp"],
            format!("enter: --bind from /no/src: {missing}"),
        ),
        (
            vec!["--root", &root, "--bind", "/usr:/no/dst"],
            format!("enter: --bind to /no/dst: {missing}"),
        ),
        (
            vec!["--root", &root, "--tmpfs", "/no/dst"],
            format!("enter: --tmpfs /no/dst: {missing}"),
        ),
        (
            vec!["--cgroup", "/no/group"],
            format!("enter: --cgroup /no/group: {missing}"),
        ),
        (
            vec!["--cpus", "4095"],
            "enter: --cpus [4095]: Invalid argument\n".to_owned(),
        ),
    ];
    for (args, message) in cases {
        assert_eq!(error_of(&args), format!("ullage-agent: {message}"));
    }
}

/// `/proc/self/status` of a program on an image's root: one line of its capabilities.
fn capabilities(agent: &mut Agent, set: &str) -> u64 {
    let run = agent.shell(4, "cat /proc/self/status");
    let line = run.text().lines().find_map(|line| line.strip_prefix(set));
    let digits = line.expect("a line").trim_start_matches(':').trim();
    u64::from_str_radix(digits, 16).expect("hexadecimal")
}

#[test]
fn programs_cannot_make_the_image_writable() {
    let Some(()) = privileged() else { return };
    let root = image("remount").display().to_string();
    let mut agent = Agent::start(["enter", "--root", &root, "--bind", "/usr:/usr:ro"]);
    let run = agent.shell(
        4,
        "mount -o remount,rw /; mount -o remount,bind,rw /usr; umount /usr; touch /etc/x",
    );
    let errors = String::from_utf8_lossy(&run.stderr).into_owned();
    for refused in [
        "mount: /: permission denied",
        "mount: /usr: permission denied",
        "umount: /usr: must be superuser",
        "touch: cannot touch '/etc/x': Read-only file system",
    ] {
        assert!(errors.contains(refused), "{errors}");
    }
}

#[test]
fn programs_on_an_image_lose_five_capabilities_and_no_more() {
    let Some(()) = privileged() else { return };
    let taken = [16, 17, 21, 22, 27]
        .iter()
        .fold(0, |set, bit| set | 1 << bit);
    let root = image("capabilities").display().to_string();
    // As under a service manager that lets its services inherit some.
    let mut inheriting = Command::new("setpriv");
    inheriting.args(["--inh-caps", "+sys_admin,+chown", AGENT]);
    inheriting.args(["enter", "--root", &root, "--bind", "/usr:/usr:ro"]);
    let mut inside = Agent::start_by(&mut inheriting);
    let mut outside = Agent::start(["enter", "--cpus", "0"]);
    for set in ["CapPrm", "CapEff", "CapBnd"] {
        let whole = capabilities(&mut outside, set);
        assert_eq!(capabilities(&mut inside, set), whole & !taken, "{set}");
    }
    assert_eq!(capabilities(&mut inside, "CapInh"), 1, "chown alone");
}

#[test]
fn shared_memory_on_an_image_is_its_own() {
    let Some(()) = privileged() else { return };
    let root = image("shm").display().to_string();
    let mut agent = Agent::start(["enter", "--root", &root, "--bind", "/usr:/usr:ro"]);
    let file = PathBuf::from(format!("/dev/shm/ullage-test-{}", std::process::id()));
    let script = format!(
        "touch {} && stat -fc %T /dev/shm && stat -c %a /dev/shm && readlink /proc/self/ns/ipc",
        file.display()
    );
    let run = agent.shell(4, &script);
    let outside = fs::remove_file(&file);
    assert!(outside.is_err(), "the file is not on the host's /dev/shm");
    let ours = fs::read_link("/proc/self/ns/ipc").expect("a namespace");
    let (start, namespace) = run.text().split_at("tmpfs\n1777\n".len());
    assert_eq!(start, "tmpfs\n1777\n", "{run:?}");
    assert_ne!(namespace.trim(), ours.display().to_string());
}

#[test]
fn the_host_s_root_comes_with_its_shared_memory_and_all_capabilities() {
    let ours = fs::read_link("/proc/self/ns/ipc").expect("a namespace");
    let status = fs::read_to_string("/proc/self/status").expect("status");
    let mut agent = Agent::start(["enter", "--cpus", "0"]);
    let run = agent.shell(
        4,
        "readlink /proc/self/ns/ipc; grep CapBnd /proc/self/status",
    );
    let (namespace, bound) = run.text().split_once('\n').expect("two lines");
    assert_eq!(namespace, ours.display().to_string());
    assert!(status.contains(bound), "{bound}");
}
