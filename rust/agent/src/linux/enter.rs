//! Goes where a native instance lives: cgroups, CPUs, a network namespace, a host name, a root
//! directory. Nothing is executed on the way; the agent that serves afterwards is the process that
//! was started.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use super::facts::cpu_list;
use crate::system::root::{self, Extra, failed};
use crate::system::sys;

/// Where to go; every part may be absent.
#[derive(Debug, Default, PartialEq)]
pub struct Place {
    pub cgroups: Vec<PathBuf>,
    pub cpus: Vec<usize>,
    pub netns: Option<PathBuf>,
    pub hostname: Option<String>,
    pub root: Option<PathBuf>,
    /// Options of an overlayfs to mount on the root, which can be written then.
    pub overlay: Option<String>,
    /// Binds and tmpfs, in the order given.
    pub extras: Vec<Extra>,
}

/// Reads the flags of `enter`.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Place, String> {
    let mut place = Place::default();
    let mut args = args.into_iter();
    while let Some(flag) = args.next() {
        let flag = flag.to_string_lossy().into_owned();
        let value = args
            .next()
            .ok_or_else(|| format!("enter: {flag} needs a value"))?;
        let text = || value.to_string_lossy().into_owned();
        match flag.as_str() {
            "--cgroup" => place.cgroups.push(value.into()),
            "--cpus" => place.cpus = parse_cpus(&text())?,
            "--netns" => place.netns = Some(value.into()),
            "--hostname" => place.hostname = Some(text()),
            "--root" => place.root = Some(value.into()),
            "--overlay" => place.overlay = Some(text()),
            "--bind" => place.extras.push(Extra::bind(&text())?),
            "--tmpfs" => place.extras.push(Extra::tmpfs(&text())?),
            _ => return Err(format!("enter: {flag} is no flag of enter")),
        }
    }
    Ok(place)
}

fn parse_cpus(text: &str) -> Result<Vec<usize>, String> {
    let cpus = cpu_list(text);
    if cpus.is_empty() {
        Err(format!(
            "enter: --cpus {text}: a list such as 0,1 is wanted"
        ))
    } else {
        Ok(cpus)
    }
}

impl Place {
    /// Goes there. Must be called while there is one thread only.
    pub fn go(&self) -> Result<(), String> {
        for cgroup in &self.cgroups {
            join_cgroup(cgroup).map_err(|error| failed("--cgroup", cgroup, &error))?;
        }
        if !self.cpus.is_empty() {
            set_cpus(&self.cpus)
                .map_err(|error| format!("enter: --cpus {:?}: {}", self.cpus, sys::text(&error)))?;
        }
        if let Some(netns) = &self.netns {
            join_netns(netns).map_err(|error| failed("--netns", netns, &error))?;
        }
        if let Some(hostname) = &self.hostname {
            // SAFETY: no memory is involved.
            sys::check(unsafe { libc::unshare(libc::CLONE_NEWUTS) })
                .and_then(|_| set_hostname(hostname))
                .map_err(|error| failed("--hostname", Path::new(hostname), &error))?;
        }
        root::enter(self.root.as_deref(), self.overlay.as_deref(), &self.extras)
    }
}

fn join_cgroup(cgroup: &Path) -> io::Result<()> {
    fs::write(cgroup.join("cgroup.procs"), std::process::id().to_string())
}

fn join_netns(path: &Path) -> io::Result<()> {
    let namespace = File::open(path)?;
    // SAFETY: no memory is involved.
    sys::check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

pub fn set_hostname(name: &str) -> io::Result<()> {
    // SAFETY: the name is valid for its length.
    sys::check(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }).map(drop)
}

fn set_cpus(cpus: &[usize]) -> io::Result<()> {
    let most = cpus.iter().max().copied().unwrap_or(0);
    let mut mask = vec![0u64; most / 64 + 1];
    for cpu in cpus {
        mask[cpu / 64] |= 1 << (cpu % 64);
    }
    // SAFETY: the mask is valid for its length, which need not be that of a cpu_set_t.
    let result =
        unsafe { libc::sched_setaffinity(0, size_of_val(mask.as_slice()), mask.as_ptr().cast()) };
    sys::check(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Place, String> {
        parse(args.iter().map(OsString::from))
    }

    #[test]
    fn flags_are_read_in_order() {
        let place = parsed(&[
            "--cgroup",
            "/sys/fs/cgroup/a",
            "--cgroup",
            "/sys/fs/cgroup/b",
            "--cpus",
            "0,2-3",
            "--tmpfs",
            "/run",
            "--bind",
            "/x:/run/x:ro",
            "--root",
            "/image",
            "--overlay",
            "lowerdir=/image",
            "--hostname",
            "native-0",
        ])
        .expect("flags");
        assert_eq!(place.cgroups.len(), 2);
        assert_eq!(place.cpus, [0, 2, 3]);
        let bind = Extra::Bind {
            source: "/x".into(),
            target: "/run/x".into(),
            read_only: true,
        };
        assert_eq!(
            place.extras,
            [
                Extra::Tmpfs {
                    target: "/run".into()
                },
                bind
            ]
        );
        assert_eq!(place.root, Some("/image".into()));
        assert_eq!(place.overlay.as_deref(), Some("lowerdir=/image"));
    }

    #[test]
    fn wrong_flags_are_named() {
        assert_eq!(
            parsed(&["--root"]),
            Err("enter: --root needs a value".into())
        );
        assert_eq!(
            parsed(&["--boot", "x"]),
            Err("enter: --boot is no flag of enter".into())
        );
        assert!(parsed(&["--cpus", "many"]).is_err());
        assert!(parsed(&["--bind", "/only-one"]).is_err());
        assert!(parsed(&["--tmpfs", "relative"]).is_err());
    }

    #[test]
    fn a_missing_cgroup_is_named() {
        let place = parsed(&["--cgroup", "/no/such/group"]).expect("flags");
        assert_eq!(
            place.go(),
            Err("enter: --cgroup /no/such/group: No such file or directory".into())
        );
    }
}
