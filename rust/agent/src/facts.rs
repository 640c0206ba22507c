//! What an instance is, as it can be seen from inside.

use serde::Serialize;

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

/// Who says to be below us: the processor tells.
#[cfg(target_arch = "x86_64")]
pub fn hypervisor() -> Option<String> {
    use std::arch::x86_64::__cpuid;
    let present = __cpuid(1).ecx >> 31 == 1;
    let leaf = present.then(|| __cpuid(0x4000_0000))?;
    let bytes = [leaf.ebx, leaf.ecx, leaf.edx]
        .map(u32::to_le_bytes)
        .concat();
    Some(hypervisor_name(&String::from_utf8_lossy(&bytes)))
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
    use crate::system::facts::gather;

    #[test]
    fn signatures_become_names() {
        assert_eq!(hypervisor_name("KVMKVMKVM\0\0\0"), "kvm");
        assert_eq!(hypervisor_name("TCGTCGTCGTCG"), "qemu-tcg");
        assert_eq!(hypervisor_name("bhyve bhyve "), "bhyve bhyve");
    }

    #[test]
    fn this_machine_has_facts() {
        let facts = gather();
        assert!(!facts.hostname.is_empty() && facts.kernel.contains('.'));
        assert!(facts.cpus_online >= facts.cpus_allowed.len().min(1));
        assert!(facts.memory_total_bytes > Some(0) && !facts.init);
    }
}
