//! What an instance is, as Windows tells it.

use std::ptr;

use windows_sys::Win32::System::Registry::{HKEY_LOCAL_MACHINE, RRF_RT_REG_SZ, RegGetValueW};
use windows_sys::Win32::System::SystemInformation::{
    ComputerNamePhysicalDnsHostname, GetComputerNameExW, GlobalMemoryStatusEx, MEMORYSTATUSEX,
    OSVERSIONINFOW,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessAffinityMask};
use windows_sys::core::{PCWSTR, w};

use super::sys;
use crate::facts::{Facts, hypervisor};

const PROCESSOR: PCWSTR = w!(r"HARDWARE\DESCRIPTION\System\CentralProcessor\0");
const VERSION: PCWSTR = w!(r"SOFTWARE\Microsoft\Windows NT\CurrentVersion");
/// The first build of Windows 11.
const WINDOWS_11: u32 = 22_000;

#[link(name = "ntdll")]
unsafe extern "system" {
    /// Tells the version as it is, where others tell what a program's manifest lets them.
    fn RtlGetVersion(version: *mut OSVERSIONINFOW) -> i32;
}

pub fn gather() -> Facts {
    let (allowed, version) = (cpus(), version());
    Facts {
        hostname: hostname(),
        kernel: numbers(&version),
        machine: std::env::consts::ARCH.into(),
        os: Some(system_name(version.dwBuildNumber)),
        // What is asked here is who is root, and a service is.
        uid: 0,
        pid: std::process::id(),
        cpus_online: std::thread::available_parallelism().map_or(allowed.len(), usize::from),
        cpus_allowed: allowed,
        cpu_model: registry(PROCESSOR, w!("ProcessorNameString")),
        cpu_quota: None,
        memory_total_bytes: memory().map(|memory| memory.ullTotalPhys),
        memory_limit_bytes: None,
        clocksource: None,
        hypervisor: hypervisor(),
        init: false,
    }
}

/// Wine is not Windows, whatever it says to programs.
fn system_name(build: u32) -> String {
    let name = registry(VERSION, w!("ProductName"));
    match sys::wine() {
        Some(version) => format!("Wine {version} (not Windows)"),
        None => name.map_or_else(|| "Windows".into(), |name| product(&name, build)),
    }
}

/// Windows 11 calls itself "Windows 10" there: only its build tells.
fn product(name: &str, build: u32) -> String {
    match name.strip_prefix("Windows 10") {
        Some(edition) if build >= WINDOWS_11 => format!("Windows 11{edition}"),
        _ => name.into(),
    }
}

fn version() -> OSVERSIONINFOW {
    // SAFETY: zeros are a valid structure that says how long it is.
    unsafe {
        let mut version: OSVERSIONINFOW = std::mem::zeroed();
        version.dwOSVersionInfoSize = u32::try_from(size_of_val(&version)).unwrap_or(0);
        RtlGetVersion(&raw mut version);
        version
    }
}

fn numbers(version: &OSVERSIONINFOW) -> String {
    let [major, minor] = [version.dwMajorVersion, version.dwMinorVersion];
    format!("{major}.{minor}.{}", version.dwBuildNumber)
}

fn hostname() -> String {
    let mut name = [0_u16; 256];
    let mut length = 256;
    // SAFETY: the buffer is as long as we say.
    let done = unsafe {
        GetComputerNameExW(
            ComputerNamePhysicalDnsHostname,
            name.as_mut_ptr(),
            &raw mut length,
        )
    };
    let length = usize::try_from(length).unwrap_or(0);
    let name = name.get(..length).filter(|_| done != 0).unwrap_or_default();
    String::from_utf16_lossy(name)
}

fn cpus() -> Vec<usize> {
    let (mut process, mut machine) = (0, 0);
    // SAFETY: writes two masks.
    unsafe { GetProcessAffinityMask(GetCurrentProcess(), &raw mut process, &raw mut machine) };
    let bits = usize::try_from(usize::BITS).unwrap_or(0);
    (0..bits).filter(|cpu| process >> cpu & 1 == 1).collect()
}

pub fn memory() -> Option<MEMORYSTATUSEX> {
    // SAFETY: zeros are a valid structure that says how long it is.
    let (status, done) = unsafe {
        let mut status: MEMORYSTATUSEX = std::mem::zeroed();
        status.dwLength = u32::try_from(size_of_val(&status)).unwrap_or(0);
        let done = GlobalMemoryStatusEx(&raw mut status);
        (status, done)
    };
    (done != 0).then_some(status)
}

/// A text of the machine's registry.
fn registry(key: PCWSTR, name: PCWSTR) -> Option<String> {
    let mut text = [0_u16; 256];
    let mut bytes = u32::try_from(size_of_val(&text)).unwrap_or(0);
    // SAFETY: the buffer is as long as we say.
    let failed = unsafe {
        RegGetValueW(
            HKEY_LOCAL_MACHINE,
            key,
            name,
            RRF_RT_REG_SZ,
            ptr::null_mut(),
            text.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    let end = text.iter().position(|unit| *unit == 0)?;
    let text = String::from_utf16_lossy(text.get(..end)?);
    let text = text.trim();
    (failed == 0 && !text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_11_is_known_by_its_build() {
        assert_eq!(product("Windows 10 Pro", 22_631), "Windows 11 Pro");
        assert_eq!(product("Windows 10 Pro", 19_045), "Windows 10 Pro");
        let server = "Windows Server 2025 Standard";
        assert_eq!(product(server, 26_100), server);
    }
}
