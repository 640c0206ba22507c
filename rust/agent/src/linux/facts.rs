//! What an instance is: names of the kernel, files of `/proc` and `/sys`.

use std::ffi::CStr;
use std::fs;

use super::{cgroup, sample};
use crate::facts::Facts;

pub fn gather() -> Facts {
    let [hostname, kernel, machine] = names();
    let allowed = line_of("/proc/self/status", "Cpus_allowed_list:");
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    Facts {
        hostname,
        kernel,
        machine,
        os: line_of("/etc/os-release", "PRETTY_NAME=").map(|name| name.trim_matches('"').into()),
        // SAFETY: cannot fail and touches no memory.
        uid: unsafe { libc::geteuid() },
        pid: std::process::id(),
        cpus_online: cpus_online(),
        cpus_allowed: cpu_list(&allowed.unwrap_or_default()),
        cpu_model: line_of("/proc/cpuinfo", "model name\t:"),
        cpu_quota: cgroup::cpu_quota(),
        memory_total_bytes: sample::memory_bytes(&meminfo, "MemTotal"),
        memory_limit_bytes: cgroup::memory_limit_bytes(),
        clocksource: whole("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        hypervisor: hypervisor(),
        init: std::process::id() == 1,
    }
}

/// Host name, kernel release and machine.
fn names() -> [String; 3] {
    // SAFETY: utsname is arrays of characters that the kernel fills in and terminates.
    let name = unsafe {
        let mut name: libc::utsname = std::mem::zeroed();
        libc::uname(&raw mut name);
        name
    };
    [&name.nodename, &name.release, &name.machine].map(|field| {
        // SAFETY: terminated, see above.
        unsafe { CStr::from_ptr(field.as_ptr()) }
            .to_string_lossy()
            .into_owned()
    })
}

fn cpus_online() -> usize {
    // SAFETY: no memory is involved.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(count).unwrap_or(0)
}

/// What follows `prefix` in the first line of the file that begins with it.
fn line_of(path: &str, prefix: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(prefix))?;
    Some(value.trim().to_owned())
}

fn whole(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The kernel's notation, `0-2,5`.
pub fn cpu_list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (last < MOST_CPUS).then_some(first..=last)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// No Linux has more; keeps a nonsense range from filling the memory.
const MOST_CPUS: usize = 1 << 16;

#[cfg(target_arch = "x86_64")]
use crate::facts::hypervisor;

/// No instruction tells; the firmware may.
#[cfg(not(target_arch = "x86_64"))]
fn hypervisor() -> Option<String> {
    whole("/sys/hypervisor/type").or_else(|| {
        let vendor = whole("/sys/class/dmi/id/sys_vendor")?;
        (vendor == "QEMU").then(|| "qemu".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_read() {
        assert_eq!(cpu_list("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(cpu_list(" 7\n"), [7]);
        assert!(cpu_list("").is_empty());
        assert!(cpu_list("x,3-,0-99999999999").is_empty());
    }
}
