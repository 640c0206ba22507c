//! What the kernel counts: `/proc/stat`, `meminfo`, `pressure`, `loadavg`.

use std::collections::BTreeMap;
use std::fs;

use crate::sample::{Counts, Pressure};

/// The columns of the first line of `/proc/stat`.
const CPU_KINDS: [&str; 10] = [
    "user",
    "nice",
    "system",
    "idle",
    "iowait",
    "irq",
    "softirq",
    "steal",
    "guest",
    "guest_nice",
];
const MEMORY_KINDS: [&str; 12] = [
    "MemTotal",
    "MemFree",
    "MemAvailable",
    "Buffers",
    "Cached",
    "SwapTotal",
    "SwapFree",
    "Dirty",
    "Writeback",
    "AnonPages",
    "Shmem",
    "Slab",
];
const PRESSURES: [&str; 3] = ["cpu", "io", "memory"];

pub fn counts() -> Counts {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let pressure = |name: &'static str| {
        let text = fs::read_to_string(format!("/proc/pressure/{name}")).ok()?;
        Some((name, pressure(&text)))
    };
    Counts {
        cpu: cpu(&read("/proc/stat")),
        memory: memory(&read("/proc/meminfo")),
        pressure: PRESSURES.into_iter().filter_map(pressure).collect(),
        loadavg: loadavg(&read("/proc/loadavg")),
    }
}

fn cpu(stat: &str) -> BTreeMap<&'static str, u64> {
    let numbers = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .skip(1);
    let mut kinds: BTreeMap<_, _> = CPU_KINDS
        .into_iter()
        .zip(numbers.map_while(|number| number.parse().ok()))
        .collect();
    // SAFETY: no memory is involved.
    let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    kinds.insert("hz", u64::try_from(hz).unwrap_or(100));
    kinds
}

/// The bytes of one line of `/proc/meminfo`, `MemTotal:   24684096 kB`.
pub fn memory_bytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

fn memory(meminfo: &str) -> BTreeMap<&'static str, u64> {
    MEMORY_KINDS
        .into_iter()
        .filter_map(|name| Some((name, memory_bytes(meminfo, name)?)))
        .collect()
}

/// Lines such as `some avg10=0.00 avg60=0.12 avg300=0.05 total=12345`.
fn pressure(text: &str) -> BTreeMap<String, Pressure> {
    let line = |line: &str| {
        let (scope, figures) = line.split_once(' ')?;
        let mut pressure = Pressure::default();
        for (key, value) in figures
            .split(' ')
            .filter_map(|figure| figure.split_once('='))
        {
            match key {
                "avg10" => pressure.avg10 = value.parse().ok()?,
                "avg60" => pressure.avg60 = value.parse().ok()?,
                "avg300" => pressure.avg300 = value.parse().ok()?,
                "total" => pressure.total_us = value.parse().ok()?,
                _ => {}
            }
        }
        Some((scope.to_owned(), pressure))
    };
    text.lines().filter_map(line).collect()
}

fn loadavg(text: &str) -> Vec<f64> {
    text.split(' ')
        .take(3)
        .map_while(|number| number.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_kinds_get_their_columns() {
        let kinds = cpu("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2\n");
        assert_eq!(kinds["user"], 1);
        assert_eq!(kinds["steal"], 8);
        assert_eq!(kinds["guest_nice"], 10);
        assert_eq!(kinds["hz"], 100);
        assert_eq!(cpu("").len(), 1);
    }

    #[test]
    fn memory_is_in_bytes_and_absent_lines_are_absent() {
        let memory = memory("MemTotal:  13 kB\nMemFree: 7 kB\nHugePages_Total: 3\n");
        assert_eq!(memory.get("MemTotal"), Some(&(13 * 1024)));
        assert_eq!(memory.get("Slab"), None);
    }

    #[test]
    fn pressure_lines_are_read() {
        let pressure =
            pressure("some avg10=1.50 avg60=0.25 avg300=0.00 total=23\nfull avg10=x total=1\n");
        let some = Pressure {
            avg10: 1.5,
            avg60: 0.25,
            avg300: 0.0,
            total_us: 23,
        };
        assert_eq!(pressure, BTreeMap::from([("some".to_owned(), some)]));
    }
}
