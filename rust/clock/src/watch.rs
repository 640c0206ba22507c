//! Notices what no counter tells of itself: suspension, live migration, the kernel's loss of trust.

use std::borrow::ToOwned;
use std::fs;
use std::path::{Path, PathBuf};

use crate::vmclock::{self, Marker, VmClock};
use crate::{Reasons, sys};

const SOURCES: &str = "/sys/devices/system/clocksource/clocksource0";

/// What was the case at the start.
#[derive(Debug)]
pub struct Watch {
    asleep: Interval,
    vmclock: Option<(VmClock, Option<Marker>)>,
    sources: PathBuf,
    trusted: bool,
}

/// How long the machine has been suspended: the difference of two clocks, which the kernel
/// changes by nothing else, so it only is uncertain by the time between the readings.
#[derive(Clone, Copy, Debug)]
struct Interval {
    lowest: i128,
    highest: i128,
}

impl Interval {
    fn now() -> Self {
        let before = i128::from(sys::awake_ns());
        let boot = i128::from(sys::boot_ns());
        let after = i128::from(sys::awake_ns());
        Self {
            lowest: boot - after,
            highest: boot - before,
        }
    }

    /// Both cannot be about the same length; rounding of either clock is not counted.
    fn differs(self, other: Self) -> bool {
        self.lowest > other.highest + 2 || other.lowest > self.highest + 2
    }
}

impl Watch {
    /// Begins to watch this machine.
    #[must_use]
    pub fn new() -> Self {
        Self::with(Path::new(vmclock::PATH), Path::new(SOURCES))
    }

    /// With other files than the kernel's, for tests.
    fn with(vmclock: &Path, sources: &Path) -> Self {
        let vmclock = VmClock::open(vmclock).ok().map(|clock| {
            let marker = clock.marker();
            (clock, marker)
        });
        let mut watch = Self {
            asleep: Interval::now(),
            vmclock,
            sources: sources.to_owned(),
            trusted: false,
        };
        watch.trusted = watch.offered() == Some(true);
        watch
    }

    /// Whether live migrations will be noticed.
    #[must_use]
    pub fn sees_moves(&self) -> bool {
        self.vmclock.is_some()
    }

    /// Whether the kernel does not offer the counter as a clock source although it has others to
    /// offer: it takes a counter that it found unstable off the list. (That another one is in use
    /// says little: virtual machines prefer their hypervisor's.)
    #[must_use]
    pub fn distrusted(&self) -> bool {
        self.offered() == Some(false)
    }

    /// Whether the kernel keeps time by the counter.
    #[must_use]
    pub fn in_use(&self) -> bool {
        self.listed("current_clocksource") == Some(true)
    }

    /// What has happened since the start. A few microseconds: for every second or so, not for every
    /// reading.
    #[must_use]
    pub fn check(&self) -> Reasons {
        self.glance() | Reasons::DISTRUSTED.when(self.trusted && self.distrusted())
    }

    /// The part of [`Watch::check`] that opens no file: as much as four readings of a clock.
    #[must_use]
    pub fn glance(&self) -> Reasons {
        let moved = self
            .vmclock
            .as_ref()
            .is_some_and(|(clock, marker)| clock.marker() != *marker);
        Reasons::SUSPENDED.when(self.asleep.differs(Interval::now())) | Reasons::MOVED.when(moved)
    }

    /// Begins again: what has happened is known now.
    pub fn renew(&mut self) {
        self.asleep = Interval::now();
        if let Some((clock, marker)) = &mut self.vmclock {
            *marker = clock.marker();
        }
    }

    /// As if the machine had just slept.
    #[cfg(test)]
    pub fn sleep(&mut self) {
        self.asleep.lowest -= 5_000_000_000;
        self.asleep.highest -= 5_000_000_000;
    }

    fn offered(&self) -> Option<bool> {
        self.listed("available_clocksource")
    }

    fn listed(&self, file: &str) -> Option<bool> {
        const NAME: &str = if cfg!(target_arch = "aarch64") {
            "arch_sys_counter"
        } else {
            "tsc"
        };
        let text = fs::read_to_string(self.sources.join(file)).ok()?;
        let mut names = text.split_whitespace().peekable();
        names.peek()?;
        Some(names.any(|name| name == NAME))
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(unix)]
    use crate::vmclock::tests::{disrupt, page};

    #[test]
    fn a_quiet_machine_stays_quiet() {
        let watch = Watch::new();
        for _ in 0..1000 {
            assert_eq!(watch.check(), Reasons::NONE);
        }
    }

    #[test]
    fn sleep_is_noticed() {
        let mut watch = Watch::new();
        watch.sleep();
        assert_eq!(watch.check(), Reasons::SUSPENDED);
        watch.renew();
        assert_eq!(watch.check(), Reasons::NONE);
    }

    #[test]
    #[cfg(unix)]
    fn a_move_is_noticed() {
        let (path, file) = page("watch-move");
        let mut watch = Watch::with(&path, Path::new(SOURCES));
        assert!(watch.sees_moves());
        assert_eq!(watch.check(), Reasons::NONE);
        disrupt(&file);
        assert_eq!(watch.check(), Reasons::MOVED);
        watch.renew();
        assert_eq!(watch.check(), Reasons::NONE);
        fs::remove_file(path).expect("remove");
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_kernels_loss_of_trust_is_noticed() {
        let name = std::format!("clocksource-{}", std::process::id());
        let sources = std::env::temp_dir().join(name);
        fs::create_dir_all(&sources).expect("mkdir");
        let list = sources.join("available_clocksource");
        fs::write(&list, "tsc hpet acpi_pm \n").expect("write");
        fs::write(sources.join("current_clocksource"), "hpet\n").expect("write");
        let watch = Watch::with(Path::new("/nonexistent"), &sources);
        assert!(!watch.sees_moves() && !watch.in_use() && !watch.distrusted());
        assert_eq!(watch.check(), Reasons::NONE);
        fs::write(&list, "hpet acpi_pm \n").expect("write");
        assert_eq!(watch.check(), Reasons::DISTRUSTED);
        fs::remove_dir_all(&sources).expect("remove");
        // Nothing to read says nothing.
        assert!(!watch.distrusted());
    }
}
