//! PTP clocks: of network cards, or of a hypervisor.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use super::{Device, External, Kind, Surroundings, going, open, refused};
use crate::probe::nanoseconds;

/// An open PTP clock, read as a dynamic POSIX clock.
pub struct Ptp {
    clock: libc::clockid_t,
    /// The clock lives as long as the device is open.
    _file: File,
}

impl Ptp {
    fn new(file: File) -> Self {
        // `FD_TO_CLOCKID` of the kernel's tools/testing/selftests/ptp/testptp.c.
        let clock = (!file.as_raw_fd() << 3) | 3;
        Self { clock, _file: file }
    }

    /// Nanoseconds of whatever epoch the clock has.
    pub fn read(&self) -> io::Result<u64> {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `now` is a valid timespec.
        if unsafe { libc::clock_gettime(self.clock, &raw mut now) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(nanoseconds(now))
    }
}

/// `ptp0`, `ptp1` … in order.
pub fn devices(dev: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dev) else {
        return Vec::new();
    };
    let numbered = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix("ptp"));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(numbered)
        .collect();
    paths.sort();
    paths
}

/// The clock, if it can be read and goes on.
pub fn find(surroundings: &Surroundings, path: &Path) -> Result<(External, Device), String> {
    let mut device = Device::Ptp(Ptp::new(open(path)?));
    going(path, &mut device)?;
    let number = path.file_name().unwrap_or_default();
    let file = surroundings
        .sys
        .join("class/ptp")
        .join(number)
        .join("clock_name");
    let name = fs::read_to_string(&file).map_err(|error| refused(&file, &error))?;
    let name = name.trim();
    let (independent, why) = independence(name, surroundings.virtual_machine);
    let external = External {
        kind: Kind::Ptp,
        device: path.display().to_string(),
        name: name.into(),
        independent,
        why: why.into(),
        passed_over: Vec::new(),
    };
    Ok((external, device))
}

/// By the driver's name for the clock (`drivers/ptp` in Linux): those of hypervisors hand out the
/// host's time, which the host keeps by the same counter.
fn independence(name: &str, virtual_machine: bool) -> (Option<bool>, &'static str) {
    const OF_THE_HOST: [&str; 4] = ["kvm", "vmclock", "hyperv", "vmw"];
    let lower = name.to_lowercase();
    if OF_THE_HOST.iter().any(|host| lower.contains(host)) {
        return (
            Some(false),
            "the host's clock, which the host keeps by the counter that we read too",
        );
    }
    if lower.contains("mock") {
        return (Some(false), "made by the kernel from CLOCK_MONOTONIC_RAW");
    }
    if virtual_machine {
        return (
            None,
            "of a device that is passed through, or made by the hypervisor from the host's clock: \
             from inside there is no telling",
        );
    }
    (
        Some(true),
        "a clock of a device with an oscillator of its own; if a daemon disciplines it, its rate is \
         that of the daemon's source",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hypervisors_clock_is_not_independent() {
        for name in [
            "KVM virtual PTP",
            "vmclock",
            "hyperv",
            "ptp_vmw",
            "Mock PTP",
        ] {
            assert_eq!(independence(name, true).0, Some(false), "{name}");
        }
        assert_eq!(independence("52:54:00:12:34:56", true).0, None);
        assert_eq!(independence("ixgbe", false).0, Some(true));
    }
}
