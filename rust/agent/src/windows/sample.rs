//! What Windows counts: the time of all processors, and memory.

use std::collections::BTreeMap;

use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::Threading::GetSystemTimes;

use super::facts::memory;
use crate::sample::Counts;

/// Times are told in units of 100 ns.
const HERTZ: u64 = 10_000_000;

pub fn counts() -> Counts {
    Counts {
        cpu: cpu(),
        memory: memory().map_or_else(BTreeMap::new, |memory| {
            BTreeMap::from([
                ("MemTotal", memory.ullTotalPhys),
                ("MemAvailable", memory.ullAvailPhys),
            ])
        }),
        pressure: BTreeMap::new(),
        loadavg: Vec::new(),
    }
}

/// By Linux's names. Windows counts idle time as the kernel's too.
fn cpu() -> BTreeMap<&'static str, u64> {
    let nothing = FILETIME {
        dwLowDateTime: 0,
        dwHighDateTime: 0,
    };
    let (mut idle, mut kernel, mut user) = (nothing, nothing, nothing);
    // SAFETY: writes three times.
    let done = unsafe { GetSystemTimes(&raw mut idle, &raw mut kernel, &raw mut user) };
    if done == 0 {
        return BTreeMap::new();
    }
    let [idle, kernel, user] = [idle, kernel, user]
        .map(|time| u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime));
    BTreeMap::from([
        ("user", user),
        ("system", kernel.saturating_sub(idle)),
        ("idle", idle),
        ("hz", HERTZ),
    ])
}
