//! A root directory for `enter`: read-only or with a layer over it, in a mount namespace of its
//! own, with the host's /proc, /sys and /dev, with shared memory of its own and with what the
//! caller binds into it.
//!
//! Sources are opened before the root changes and targets are looked up after it, so a symlink in
//! an image leads into the image and never to the host.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{capabilities, mounts, sys};

/// Something mounted in addition.
#[derive(Debug, PartialEq)]
pub enum Extra {
    Bind {
        source: PathBuf,
        target: PathBuf,
        read_only: bool,
    },
    Tmpfs {
        target: PathBuf,
    },
}

/// One step's error.
pub fn failed(step: &str, path: &Path, error: &io::Error) -> String {
    sys::failed(&format!("enter: {step}"), path.display(), error)
}

impl Extra {
    /// Reads `SRC:DST` or `SRC:DST:ro`.
    pub fn bind(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let (source, target, option) = (parts.next(), parts.next(), parts.next());
        let read_only = option == Some("ro");
        match (source, target) {
            (Some(source), Some(target))
                if source.starts_with('/')
                    && target.starts_with('/')
                    && parts.next().is_none()
                    && (read_only || option.is_none()) =>
            {
                Ok(Self::Bind {
                    source: source.into(),
                    target: target.into(),
                    read_only,
                })
            }
            _ => Err(format!(
                "enter: --bind {text}: /SRC:/DST or /SRC:/DST:ro is wanted"
            )),
        }
    }

    pub fn tmpfs(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            Ok(Self::Tmpfs {
                target: text.into(),
            })
        } else {
            Err(format!("enter: --tmpfs {text}: an absolute path is wanted"))
        }
    }
}

/// Enters `root` (None: stays on the host's) and mounts the extras there.
///
/// overlay: options of what is mounted on it; None: it can only be read.
pub fn enter(root: Option<&Path>, overlay: Option<&str>, extras: &[Extra]) -> Result<(), String> {
    if root.is_none() && extras.is_empty() {
        return Ok(());
    }
    mounts::unshare().map_err(|error| failed("mount namespace of", Path::new("/"), &error))?;
    let sources = open_sources(extras)?;
    match root {
        None => mount_extras(extras, &sources),
        Some(root) => {
            let system = ["/sys", "/dev"].map(|path| (path, mounts::place(Path::new(path))));
            let old = change_root(root, overlay)?;
            for (path, source) in system {
                source
                    .and_then(|source| mounts::bind(&mounts::path_of(&source), Path::new(path)))
                    .map_err(|error| failed("mount of", Path::new(path), &error))?;
            }
            own_shared_memory()?;
            mount_extras(extras, &sources)?;
            old.as_ref().map_or(Ok(()), leave)?;
            capabilities::take_from_programs()
                .map_err(|error| failed("capabilities on", root, &error))
        }
    }
}

/// One handle per bind, in order.
fn open_sources(extras: &[Extra]) -> Result<Vec<OwnedFd>, String> {
    let sources = extras.iter().filter_map(|extra| match extra {
        Extra::Bind { source, .. } => Some(source),
        Extra::Tmpfs { .. } => None,
    });
    sources
        .map(|source| mounts::place(source).map_err(|error| failed("--bind from", source, &error)))
        .collect()
}

/// Makes `root`, with /proc, our root; a handle on the old one when it can be detached.
fn change_root(root: &Path, overlay: Option<&str>) -> Result<Option<OwnedFd>, String> {
    let wrong = |error: io::Error| failed("--root", root, &error);
    if let Some(options) = overlay {
        mounts::mount("overlay", Path::new("overlay"), root, 0, options)
            .map_err(|error| failed("--overlay on", root, &error))?;
    } else {
        mounts::bind(root, root).map_err(wrong)?;
        mounts::make_read_only(root).map_err(wrong)?;
    }
    let new = mounts::place(root).map_err(wrong)?;
    let old = mounts::place(Path::new("/")).map_err(wrong)?;
    mounts::place_below(&new, "proc")
        .and_then(|proc| mounts::bind(Path::new("/proc"), &mounts::path_of(&proc)))
        .map_err(|error| failed("mount of", &root.join("proc"), &error))?;
    let pivoted = mounts::go_to(new.as_fd())
        .and_then(|()| mounts::make_cwd_root())
        .map_err(wrong)?;
    std::env::set_current_dir("/").map_err(wrong)?;
    Ok(pivoted.then_some(old))
}

/// Detaches the old root, so that we hold none of the host's mounts.
fn leave(old: &OwnedFd) -> Result<(), String> {
    let wrong = |error: io::Error| failed("leaving", Path::new("/"), &error);
    mounts::go_to(old.as_fd())
        .and_then(|()| mounts::detach_cwd())
        .map_err(wrong)?;
    std::env::set_current_dir("/").map_err(wrong)
}

/// What a program leaves in shared memory must end with the instance, and not load the next one.
/// Where the host's root stays, so does its shared memory: programs of the host may need it.
fn own_shared_memory() -> Result<(), String> {
    // SAFETY: no memory is involved.
    sys::check(unsafe { libc::unshare(libc::CLONE_NEWIPC) })
        .map_err(|error| failed("IPC namespace of", Path::new("/"), &error))?;
    let (shm, queues) = (Path::new("/dev/shm"), Path::new("/dev/mqueue"));
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    for (kind, target, options) in [("tmpfs", shm, "mode=1777"), ("mqueue", queues, "")] {
        // On a host without the directory there is nothing to share.
        if target.is_dir() {
            mounts::mount(kind, Path::new(kind), target, flags, options)
                .map_err(|error| failed("mount of", target, &error))?;
        }
    }
    Ok(())
}

fn mount_extras(extras: &[Extra], sources: &[OwnedFd]) -> Result<(), String> {
    let mut sources = sources.iter();
    let mut ours: Vec<&Path> = Vec::new();
    for extra in extras {
        match extra {
            Extra::Tmpfs { target } => {
                make_point(target, true, &ours)
                    .and_then(|()| mount_tmpfs(target))
                    .map_err(|error| failed("--tmpfs", target, &error))?;
                ours.push(target);
            }
            Extra::Bind {
                target, read_only, ..
            } => {
                let Some(source) = sources.next() else { break };
                bind(source, target, *read_only, &ours)
                    .map_err(|error| failed("--bind to", target, &error))?;
            }
        }
    }
    Ok(())
}

fn bind(source: &OwnedFd, target: &Path, read_only: bool, ours: &[&Path]) -> io::Result<()> {
    let source = mounts::path_of(source);
    make_point(target, fs::metadata(&source)?.is_dir(), ours)?;
    mounts::bind(&source, target)?;
    if read_only {
        mounts::make_read_only(target)
    } else {
        Ok(())
    }
}

/// A tmpfs with the mode of the directory that it covers: /tmp stays what it is.
fn mount_tmpfs(target: &Path) -> io::Result<()> {
    let mode = fs::metadata(target)?.permissions().mode() & 0o7777;
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    mounts::mount(
        "tmpfs",
        Path::new("tmpfs"),
        target,
        flags,
        &format!("mode={mode:o}"),
    )
}

/// Makes a missing mount point, but only on a tmpfs of ours: neither images nor the host are
/// changed.
fn make_point(target: &Path, directory: bool, ours: &[&Path]) -> io::Result<()> {
    if !ours.iter().any(|tmpfs| target.starts_with(tmpfs)) || target.exists() {
        return Ok(());
    }
    if directory {
        return fs::create_dir_all(target);
    }
    target.parent().map_or(Ok(()), fs::create_dir_all)?;
    File::create(target).map(drop)
}
