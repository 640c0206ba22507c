//! What an instance is, as it can be seen from inside.

use std::ffi::CStr;
use std::fs;

use serde::Serialize;

use crate::{cgroup, sample};

#[derive(Debug, Serialize)]
pub struct Facts {
    pub hostname: String,
    pub kernel: String,
    pub machine: String,
    pub os: Option<String>,
    pub uid: u32,
    pub pid: u32,
    pub cpus_online: usize,
    pub cpus_allowed: Vec<usize>,
    pub cpu_model: Option<String>,
    pub cpu_quota: Option<f64>,
    pub memory_total_bytes: Option<u64>,
    pub memory_limit_bytes: Option<u64>,
    pub clocksource: Option<String>,
    pub hypervisor: Option<String>,
    pub init: bool,
}

impl Facts {
    pub fn gather() -> Self {
        let [hostname, kernel, machine] = names();
        let allowed = line_of("/proc/self/status", "Cpus_allowed_list:");
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            hostname,
            kernel,
            machine,
            os: line_of("/etc/os-release", "PRETTY_NAME=")
                .map(|name| name.trim_matches('"').into()),
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

/// Who says to be below us. On x86 the processor tells; elsewhere the firmware may.
#[cfg(target_arch = "x86_64")]
fn hypervisor() -> Option<String> {
    use std::arch::x86_64::__cpuid;
    let present = __cpuid(1).ecx >> 31 == 1;
    let leaf = present.then(|| __cpuid(0x4000_0000))?;
    let bytes = [leaf.ebx, leaf.ecx, leaf.edx]
        .map(u32::to_le_bytes)
        .concat();
    Some(hypervisor_name(&String::from_utf8_lossy(&bytes)))
}

#[cfg(not(target_arch = "x86_64"))]
fn hypervisor() -> Option<String> {
    whole("/sys/hypervisor/type").or_else(|| {
        let vendor = whole("/sys/class/dmi/id/sys_vendor")?;
        (vendor == "QEMU").then(|| "qemu".to_owned())
    })
}

#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "CPUID is x86"))]
fn hypervisor_name(signature: &str) -> String {
    let signature = signature.trim_matches(['\0', ' ']);
    match signature {
        "KVMKVMKVM" => "kvm",
        "TCGTCGTCGTCG" => "qemu-tcg",
        "XenVMMXenVMM" => "xen",
        "VMwareVMware" => "vmware",
        "Microsoft Hv" => "hyperv",
        other => other,
    }
    .to_owned()
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

    #[test]
    fn signatures_become_names() {
        assert_eq!(hypervisor_name("KVMKVMKVM\0\0\0"), "kvm");
        assert_eq!(hypervisor_name("TCGTCGTCGTCG"), "qemu-tcg");
        assert_eq!(hypervisor_name("bhyve bhyve "), "bhyve bhyve");
    }

    #[test]
    fn this_machine_has_facts() {
        let facts = Facts::gather();
        assert!(!facts.hostname.is_empty() && facts.kernel.contains('.'));
        assert!(facts.cpus_online >= facts.cpus_allowed.len().min(1));
        assert!(facts.memory_total_bytes > Some(0) && !facts.init);
    }
}
