//! The limits that the cgroups around us set, as far as they can be read from inside, v1 or v2.

use std::fs;
use std::path::{Path, PathBuf};

/// A v1 "no limit" is the largest page-aligned number; nothing real comes near this.
const NO_LIMIT: u64 = 1 << 60;

/// The tightest CPU quota, in CPUs.
pub fn cpu_quota() -> Option<f64> {
    let v2 = directories(None)
        .into_iter()
        .filter_map(|dir| quota_v2(&read(&dir, "cpu.max")?));
    let v1 = directories(Some("cpu")).into_iter().filter_map(|dir| {
        quota(
            &read(&dir, "cpu.cfs_quota_us")?,
            &read(&dir, "cpu.cfs_period_us")?,
        )
    });
    v2.chain(v1).reduce(f64::min)
}

/// The tightest memory limit.
pub fn memory_limit_bytes() -> Option<u64> {
    let v2 = directories(None)
        .into_iter()
        .filter_map(|dir| read(&dir, "memory.max"));
    let v1 = directories(Some("memory"))
        .into_iter()
        .filter_map(|dir| read(&dir, "memory.limit_in_bytes"));
    v2.chain(v1)
        .filter_map(|text| text.parse().ok())
        .filter(|limit| *limit < NO_LIMIT)
        .min()
}

fn read(directory: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(directory.join(name)).ok()?;
    Some(text.trim().to_owned())
}

fn quota_v2(text: &str) -> Option<f64> {
    let (quota_us, period_us) = text.split_once(' ')?;
    quota(quota_us, period_us)
}

/// "max" and -1 mean no quota.
fn quota(quota_us: &str, period_us: &str) -> Option<f64> {
    let (quota, period): (f64, f64) = (quota_us.parse().ok()?, period_us.parse().ok()?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

/// Our own cgroup's directory and those above it, for a v1 controller or (None) for v2.
fn directories(controller: Option<&str>) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let (Some(mount), Some(path)) = (
        find_mount(&mounts, controller),
        find_path(&groups, controller),
    ) else {
        return Vec::new();
    };
    upwards(&mount, path)
}

#[derive(Debug, PartialEq)]
struct Mount {
    /// Which cgroup is seen at the mount point.
    root: String,
    point: PathBuf,
}

/// The hierarchy's line of `/proc/self/mountinfo`: `36 35 0:31 ROOT POINT options - TYPE source
/// options`.
fn find_mount(mountinfo: &str, controller: Option<&str>) -> Option<Mount> {
    mountinfo.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.nth(1)?);
        let ours = match controller {
            None => kind == "cgroup2",
            Some(name) => kind == "cgroup" && options.split(',').any(|option| option == name),
        };
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?, left.next()?);
        ours.then(|| Mount {
            root: root.into(),
            point: point.into(),
        })
    })
}

/// Our path in the hierarchy, from `/proc/self/cgroup`: `4:cpu,cpuacct:/path`, or `0::/path` for
/// v2.
fn find_path<'a>(groups: &'a str, controller: Option<&str>) -> Option<&'a str> {
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let ours = match controller {
            None => number == "0",
            Some(name) => controllers.split(',').any(|listed| listed == name),
        };
        ours.then_some(path)
    })
}

/// From our cgroup up to the mount point. Without a view of our own cgroup, the mount point alone.
fn upwards(mount: &Mount, path: &str) -> Vec<PathBuf> {
    let below = Path::new(path)
        .strip_prefix(&mount.root)
        .unwrap_or(Path::new(""));
    let outside = below.components().any(|part| part.as_os_str() == "..");
    let below = if outside { Path::new("") } else { below };
    below
        .ancestors()
        .map(|part| mount.point.join(part))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
30 23 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
33 30 0:30 /docker/abc /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
34 30 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
broken line";
    const GROUPS: &str = "5:cpu,cpuacct:/docker/abc/inner\n4:memory:/a/b\n0::/../x\n";

    fn paths_of(controller: Option<&str>) -> Vec<PathBuf> {
        let mount = find_mount(MOUNTS, controller).expect("mount");
        upwards(&mount, find_path(GROUPS, controller).expect("path"))
    }

    #[test]
    fn directories_go_up_to_the_mount_point() {
        let memory = [
            "/sys/fs/cgroup/memory/a/b",
            "/sys/fs/cgroup/memory/a",
            "/sys/fs/cgroup/memory/",
        ];
        assert_eq!(paths_of(Some("memory")), memory.map(PathBuf::from));
    }

    #[test]
    fn a_bound_subtree_is_entered_at_its_root() {
        let cpu = [
            "/sys/fs/cgroup/cpu,cpuacct/inner",
            "/sys/fs/cgroup/cpu,cpuacct/",
        ];
        assert_eq!(paths_of(Some("cpu")), cpu.map(PathBuf::from));
    }

    #[test]
    fn a_path_outside_of_the_namespace_is_not_followed() {
        assert_eq!(paths_of(None), [PathBuf::from("/sys/fs/cgroup/unified/")]);
        assert_eq!(find_mount(MOUNTS, Some("pids")), None);
    }

    #[test]
    fn quotas_are_in_cpus() {
        assert_eq!(quota_v2("150000 100000"), Some(1.5));
        assert_eq!(quota_v2("max 100000"), None);
        assert_eq!(quota("-1", "100000"), None);
        assert_eq!(quota("x", ""), None);
    }
}
