//! The machine: what an outcome must say of where it comes from, and the cores.

use std::fs;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use ullage_clock::Clock;

use crate::Error;

/// Where a figure comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// `x86_64` or `aarch64`.
    pub architecture: String,
    /// The kernel's clock source; none where the kernel does not say.
    pub clocksource: Option<String>,
    /// A hypervisor is below us.
    pub virtual_machine: bool,
    /// The cores that this thread may use.
    pub cpus: Vec<u32>,
    /// What the clock promises here, as a person reads it.
    pub promise: String,
    /// The names of the reasons why it is not more.
    pub reasons: Vec<String>,
}

/// Something that could not be measured here, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absent {
    /// What is missing from the outcome.
    pub what: String,
    /// Why, with what was looked for.
    pub why: String,
}

impl Absent {
    pub(crate) fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            why: why.into(),
        }
    }
}

impl Machine {
    /// This one.
    ///
    /// # Errors
    /// The system does not tell which cores there are.
    pub fn look() -> Result<Self, Error> {
        let clock = Clock::get();
        let reasons = clock.check().iter();
        Ok(Self {
            architecture: std::env::consts::ARCH.into(),
            clocksource: clocksource(),
            virtual_machine: clock.facts().virtual_machine,
            cpus: cpus()?,
            promise: clock.promise().to_string(),
            reasons: reasons.map(|(name, _)| name.into()).collect(),
        })
    }
}

/// The kernel's clock source, where sysfs is.
fn clocksource() -> Option<String> {
    let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let name = fs::read_to_string(file).ok()?;
    Some(name.trim().into())
}

/// The cores that the calling thread may use.
pub fn cpus() -> Result<Vec<u32>, Error> {
    let set = affinity()?;
    let numbers = (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false));
    Ok(numbers.filter_map(|cpu| u32::try_from(cpu).ok()).collect())
}

fn affinity() -> Result<CpuSet, Error> {
    sched_getaffinity(THIS).map_err(|error| Error::system("read the allowed cores", error))
}

const THIS: Pid = Pid::from_raw(0);

/// Puts a thread on one core: returns when it is there, if it runs.
pub fn put(thread: Pid, cpu: u32) -> Result<(), Error> {
    let mut set = CpuSet::new();
    set.set(cpu as usize)
        .and_then(|()| sched_setaffinity(thread, &set))
        .map_err(|error| Error::system(format!("move a thread to core {cpu}"), error))
}

/// As [`put`], of the calling thread.
pub fn go(cpu: u32) -> Result<(), Error> {
    put(THIS, cpu)
}

/// Where the calling thread is; through glibc's restartable sequences or the vDSO.
#[inline]
pub fn current_cpu() -> i32 {
    // SAFETY: touches no memory of ours.
    unsafe { libc::sched_getcpu() }
}

/// Remembers where the calling thread may run, and restores it in the end: who calls a measurement
/// is not to be left on one core.
#[must_use]
pub struct Home(CpuSet);

impl Home {
    pub fn remember() -> Result<Self, Error> {
        affinity().map(Self)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What it was before can only be refused if the cpuset has changed, and then the kernel has
        // chosen already.
        let _ = sched_setaffinity(THIS, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_comes_home() {
        let before = cpus().expect("cpus");
        let last = *before.last().expect("a core");
        let home = Home::remember().expect("home");
        go(last).expect("go");
        assert_eq!(cpus().expect("cpus"), [last]);
        assert_eq!(u32::try_from(current_cpu()), Ok(last));
        drop(home);
        assert_eq!(cpus().expect("cpus"), before);
        assert!(put(THIS, 100_000).is_err());
    }

    #[test]
    fn the_machine_is_described() {
        let machine = Machine::look().expect("machine");
        assert!(machine.promise.contains("strictly increasing"));
        assert!(!machine.cpus.is_empty());
    }
}
