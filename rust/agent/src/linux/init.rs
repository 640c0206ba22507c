//! PID 1 of a small guest, straight from the initramfs: from nothing to a serving agent on the
//! image's root.
//!
//! The guest needs no other program for that: a kernel, its modules and this binary. What the
//! kernel command line says (`ullage.root=`, `ullage.ro`, `ullage.data=`, `ullage.data-type=`,
//! `ullage.hostname=`, `ullage.agent=`, `ullage.patience=`, `ullage.boot=systemd`) is all the
//! configuration there is.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use libc::c_ulong;

use super::{ending, enter, handover, link, modules, mounts, sys};
use crate::shutdown;

const NEW_ROOT: &str = "/newroot";
/// Where the agent lives in the guest: on a tmpfs, so that the image need not hold it.
const AGENT: &str = "/run/ullage/agent";
const PLAIN: c_ulong = libc::MS_NOSUID | libc::MS_NODEV;
const SYSTEM: c_ulong = PLAIN | libc::MS_NOEXEC;

/// What the kernel command line asks for.
#[derive(Debug, PartialEq)]
struct Boot {
    root: String,
    read_only: bool,
    data: Option<String>,
    data_type: String,
    hostname: Option<String>,
    /// The device that leads to the controller, where it is no virtio-serial port.
    agent: Option<String>,
    systemd: bool,
    /// Seconds after the boot at which all disks must be there. Whoever waits for the guest knows
    /// how slow it may be.
    patience: u64,
}

impl Boot {
    fn parse(cmdline: &str) -> Result<Self, String> {
        let mut boot = Self {
            root: "/dev/vda".into(),
            read_only: false,
            data: None,
            data_type: "ext4".into(),
            hostname: None,
            agent: None,
            systemd: false,
            patience: 270,
        };
        for word in cmdline
            .split_ascii_whitespace()
            .filter_map(|word| word.strip_prefix("ullage."))
        {
            match word.split_once('=') {
                Some(("root", device)) => boot.root = device.into(),
                Some(("data", device)) => boot.data = Some(device.into()),
                Some(("data-type", kind)) => boot.data_type = kind.into(),
                Some(("hostname", name)) => boot.hostname = Some(name.into()),
                Some(("agent", device)) => boot.agent = Some(device.into()),
                Some(("boot", "systemd")) => boot.systemd = true,
                Some(("patience", text)) => {
                    let seconds = text.parse::<u32>();
                    boot.patience = seconds.map_err(|_| unknown(word))?.into();
                }
                None if word == "ro" => boot.read_only = true,
                _ => return Err(unknown(word)),
            }
        }
        Ok(boot)
    }
}

fn unknown(word: &str) -> String {
    format!("ullage.{word}: no such option on the kernel command line")
}

/// Boots. A guest that cannot is switched off, after saying why on its console.
pub fn run() -> ! {
    become_guest();
    let Err(message) = boot();
    shutdown::end(1, Some(&message));
}

/// From here on our end is the guest's end.
pub fn become_guest() {
    ending::power_off_at_end();
    std::panic::set_hook(Box::new(|panic| {
        ullage_common::say(&format!("ullage-agent: {panic}"));
        ending::power_off();
    }));
}

fn boot() -> Result<std::convert::Infallible, String> {
    mount_system()?;
    open_console().map_err(|error| failed("open", "/dev/console", &error))?;
    let cmdline = fs::read_to_string("/proc/cmdline")
        .map_err(|error| failed("read", "/proc/cmdline", &error))?;
    let boot = Boot::parse(&cmdline)?;
    modules::load_listed()?;
    mount_disks(&boot)?;
    fill_root()?;
    if let Some(hostname) = &boot.hostname {
        set_hostname(hostname).map_err(|error| failed("set the host name", hostname, &error))?;
    }
    link::up("lo").map_err(|error| failed("bring up", "lo", &error))?;
    modules::forget_listed();
    let _ = fs::remove_file("/init");
    std::env::set_current_dir(NEW_ROOT)
        .and_then(|()| mounts::cover_root())
        .map_err(|error| failed("switch the root to", NEW_ROOT, &error))?;
    if boot.systemd {
        handover::to_systemd(AGENT)
    } else {
        Err(serve(boot.agent.as_deref().unwrap_or("auto")))
    }
}

fn failed(doing: &str, target: &str, error: &io::Error) -> String {
    sys::failed(&format!("init: cannot {doing}"), target, error)
}

/// Becomes the serving agent; the return value is why not.
fn serve(device: &str) -> String {
    let args = ["serve", "--device", device, "--guest"];
    let error = Command::new(AGENT).args(args).env_clear().exec();
    failed("execute", AGENT, &error)
}

fn mount_at(kind: &str, target: &str, flags: c_ulong, options: &str) -> Result<(), String> {
    // On a read-only root the directory has to be there, and mount says so.
    let _ = fs::create_dir_all(target);
    match mounts::mount(kind, Path::new(kind), Path::new(target), flags, options) {
        // The kernel has mounted it already.
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(()),
        result => result.map_err(|error| failed("mount", target, &error)),
    }
}

fn mount_system() -> Result<(), String> {
    mount_at("proc", "/proc", SYSTEM, "")?;
    mount_at("sysfs", "/sys", SYSTEM, "")?;
    mount_at("devtmpfs", "/dev", libc::MS_NOSUID, "mode=0755")
}

/// An initramfs without /dev/console leaves PID 1 without a voice until now.
fn open_console() -> io::Result<()> {
    let console = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/console")?;
    (0..3).try_for_each(|fd| sys::replace(&console, fd))
}

fn mount_disks(boot: &Boot) -> Result<(), String> {
    let flags = if boot.read_only { libc::MS_RDONLY } else { 0 };
    let patience = Duration::from_secs(boot.patience);
    mount_disk("ext4", &boot.root, NEW_ROOT, flags, patience)?;
    let data = format!("{NEW_ROOT}/data");
    boot.data.as_ref().map_or(Ok(()), |device| {
        mount_disk(&boot.data_type, device, &data, libc::MS_NOATIME, patience)
    })
}

fn mount_disk(
    kind: &str,
    device: &str,
    target: &str,
    flags: c_ulong,
    patience: Duration,
) -> Result<(), String> {
    wait_for(device, patience)?;
    let _ = fs::create_dir_all(target);
    mounts::mount(kind, Path::new(device), Path::new(target), flags, "")
        .map_err(|error| failed("mount", &format!("{device} on {target}"), &error))
}

fn wait_for(device: &str, patience: Duration) -> Result<(), String> {
    while !Path::new(device).exists() {
        if Duration::from_nanos(ullage_clock::boot_ns()) > patience {
            return Err(format!(
                "init: {device} has not appeared {} s after the boot",
                patience.as_secs()
            ));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Everything that a userland expects below its root, and the agent.
fn fill_root() -> Result<(), String> {
    let below = |path: &str| format!("{NEW_ROOT}{path}");
    for path in ["/proc", "/sys", "/dev"] {
        let target = below(path);
        let _ = fs::create_dir_all(&target);
        mounts::move_to(Path::new(path), Path::new(&target))
            .map_err(|error| failed("move to", &target, &error))?;
    }
    mount_at("tmpfs", &below("/run"), PLAIN, "mode=755")?;
    mount_at("tmpfs", &below("/tmp"), PLAIN, "mode=1777")?;
    mount_at("tmpfs", &below("/dev/shm"), PLAIN, "mode=1777")?;
    mount_at(
        "devpts",
        &below("/dev/pts"),
        libc::MS_NOSUID | libc::MS_NOEXEC,
        "mode=620,ptmxmode=666",
    )?;
    mount_at("cgroup2", &below("/sys/fs/cgroup"), SYSTEM, "")?;
    link_descriptors(&below("/dev"));
    let agent = below(AGENT);
    install_agent(&agent, &below("/proc/self/exe")).map_err(|error| failed("write", &agent, &error))
}

/// devtmpfs has no /dev/fd, and shells want it.
fn link_descriptors(dev: &str) {
    let links = [
        ("/proc/self/fd", "fd"),
        ("/proc/self/fd/0", "stdin"),
        ("/proc/self/fd/1", "stdout"),
        ("/proc/self/fd/2", "stderr"),
    ];
    for (target, name) in links {
        // It may be there already, and nothing of ours needs it.
        let _ = symlink(target, Path::new(dev).join(name));
    }
}

fn install_agent(target: &str, source: &str) -> io::Result<()> {
    if let Some(directory) = Path::new(target).parent() {
        fs::create_dir_all(directory)?;
    }
    let mut copy = File::create(target)?;
    io::copy(&mut File::open(source)?, &mut copy)?;
    copy.set_permissions(fs::Permissions::from_mode(0o755))
}

/// For the kernel, and for a systemd that would go back to the image's name.
fn set_hostname(name: &str) -> io::Result<()> {
    enter::set_hostname(name)?;
    let below = |path: &str| Path::new(NEW_ROOT).join(path);
    let (ours, theirs) = (below("run/ullage/hostname"), below("etc/hostname"));
    fs::write(&ours, format!("{name}\n"))?;
    if theirs.is_file() {
        mounts::bind(&ours, &theirs)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_read() {
        let boot = Boot::parse(
            "quiet ullage.root=/dev/vdb ullage.ro ullage.data=/dev/vdc ullage.data-type=xfs \
             ullage.hostname=vm-0 ullage.agent=/dev/hvc1 ullage.patience=270\n",
        );
        let expected = Boot {
            root: "/dev/vdb".into(),
            read_only: true,
            data: Some("/dev/vdc".into()),
            data_type: "xfs".into(),
            hostname: Some("vm-0".into()),
            agent: Some("/dev/hvc1".into()),
            systemd: false,
            patience: 270,
        };
        assert_eq!(boot, Ok(expected));
    }

    #[test]
    fn defaults_are_plain() {
        let boot = Boot::parse("quiet ro root=/dev/sda").expect("defaults");
        assert!(boot.root == "/dev/vda" && !boot.read_only && !boot.systemd);
        assert!(Boot::parse("ullage.boot=systemd").expect("systemd").systemd);
    }

    #[test]
    fn unknown_options_are_refused() {
        assert!(Boot::parse("ullage.roots=/dev/vda").is_err());
        assert!(Boot::parse("ullage.boot=openrc").is_err());
        assert!(Boot::parse("ullage.patience=long").is_err());
    }
}
