//! What a program used, as far as this system counts it.

use std::os::windows::io::RawHandle;

use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};

use super::job::Job;
use super::sys;
use crate::responses::Usage;

/// Of an ended process (its peak memory) and of its whole job (CPU time). What is not counted is absent:
/// Windows tells no switches and no blocks, and page faults only hard and soft ones together; Wine
/// tells neither CPU time nor memory of a process that has ended (what it answers is the asking
/// process's own).
pub fn of(job: &Job, process: RawHandle) -> Usage {
    if sys::wine().is_some() {
        return Usage::default();
    }
    let accounting = job.accounting().ok();
    let time = |units: i64| u64::try_from(units).ok().map(|units| units * 100);
    let memory = memory(process);
    Usage {
        user_ns: accounting.and_then(|used| time(used.TotalUserTime)),
        system_ns: accounting.and_then(|used| time(used.TotalKernelTime)),
        max_rss_bytes: memory.map(|memory| memory.PeakWorkingSetSize as u64),
        ..Usage::default()
    }
}

fn memory(process: RawHandle) -> Option<PROCESS_MEMORY_COUNTERS> {
    // SAFETY: zeros are a valid structure, as long as we say.
    let (counters, done) = unsafe {
        let mut counters: PROCESS_MEMORY_COUNTERS = std::mem::zeroed();
        let length = u32::try_from(size_of_val(&counters)).unwrap_or(0);
        let done = K32GetProcessMemoryInfo(process, &raw mut counters, length);
        (counters, done)
    };
    (done != 0 && counters.PeakWorkingSetSize > 0).then_some(counters)
}
