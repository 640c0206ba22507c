//! The child between fork and exec.
//!
//! The agent has threads, so only async-signal-safe calls are allowed here: no allocation, no lock,
//! no panic. The child waits for its start instant by itself; nobody has to wake it.

use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use libc::pid_t;

use crate::protocol::User;
use crate::system::sys;
use crate::time;

/// A first sleep ends so long before the instant, or half way to it, and shows how late this machine
/// wakes up.
const REHEARSAL_NS: u64 = 10_000_000;
/// The child spins for a few times what the rehearsal was late, within these bounds: tens of
/// microseconds on hardware, a millisecond or two where the processor is emulated.
const LEAST_SPIN_NS: u64 = 50_000;
const MOST_SPIN_NS: u64 = 4_000_000;
/// `CLOCK_MONOTONIC` is off our clock by less than one part in this: the kernel slews by 500 ppm at
/// most for the frequency, and as much for an offset (adjtimex(2), adjtime(3)).
const SLEWED: u64 = 500;
/// Where the start pipe lives in the child; everything above is closed.
const START_FD: c_int = 3;

/// What a child says about its start.
#[derive(Default)]
#[repr(C)]
pub struct Report {
    start_ns: AtomicU64,
    step: AtomicU32,
    errno: AtomicI32,
}

/// A step on the way to the program that can fail.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Step {
    Setup = 1,
    Limit = 2,
    Cwd = 3,
    Exec = 4,
    User = 5,
}

/// A page that parent and child share.
pub struct Page(*mut Report);

// SAFETY: the report consists of atomics.
unsafe impl Send for Page {}

impl Page {
    pub fn new() -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let size = size_of::<Report>();
        // SAFETY: a fresh anonymous mapping, zeroed by the kernel, which is a valid report.
        let page = unsafe { libc::mmap(ptr::null_mut(), size, protection, flags, -1, 0) };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(page.cast()))
    }

    pub fn report(&self) -> &Report {
        // SAFETY: mapped as long as `self` lives.
        unsafe { &*self.0 }
    }

    /// When the program started, or why it did not. To be asked when the start pipe has broken.
    pub fn outcome(&self, name: &str) -> Result<u64, String> {
        let report = self.report();
        let errno = report.errno.load(Ordering::Acquire);
        let start_ns = report.start_ns.load(Ordering::Acquire);
        let step = match report.step.load(Ordering::Acquire) {
            0 if start_ns == 0 => return Err(format!("{name}: it was killed before its start")),
            0 => return Ok(start_ns),
            step if step == Step::Limit as u32 => "limits: nofile",
            step if step == Step::Cwd as u32 => "cwd",
            step if step == Step::Exec as u32 => "exec",
            step if step == Step::User as u32 => "user",
            _ => "setting up",
        };
        let error = io::Error::from_raw_os_error(errno);
        Err(format!("{name}: {step}: {}", sys::text(&error)))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by us with this size.
        unsafe { libc::munmap(self.0.cast(), size_of::<Report>()) };
    }
}

/// The child between fork and exec. Nothing here may allocate, lock or panic.
pub struct Child<'a> {
    pub program: &'a CStr,
    /// Ended by a null pointer, as `env` is.
    pub argv: &'a [*const c_char],
    pub env: &'a [*const c_char],
    pub cwd: &'a CStr,
    pub nofile: Option<u64>,
    pub user: Option<&'a User>,
    pub at_ns: Option<u64>,
    /// What becomes 0, 1 and 2, and the start pipe.
    pub fds: [RawFd; 4],
    pub parent: pid_t,
    pub report: &'a Report,
}

impl Child<'_> {
    pub fn run(&self) -> ! {
        // SAFETY: async-signal-safe calls on memory prepared before the fork.
        unsafe {
            self.detach();
            self.take_descriptors();
            self.limit();
            self.become_user();
            if libc::chdir(self.cwd.as_ptr()) < 0 {
                self.fail(Step::Cwd);
            }
            self.sleep();
            // The first write to the page costs microseconds; not at the instant, please.
            self.report.start_ns.store(0, Ordering::Release);
            self.report.start_ns.store(self.spin(), Ordering::Release);
            libc::execve(self.program.as_ptr(), self.argv.as_ptr(), self.env.as_ptr());
        }
        self.fail(Step::Exec)
    }

    /// A session of its own, death with the agent, and signals as a login would have them.
    unsafe fn detach(&self) {
        unsafe {
            libc::setsid();
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() != self.parent {
                libc::_exit(127);
            }
            // Past libc, which keeps two signals to itself, and whose posix_spawn ignores them.
            let default = [0u64; 4];
            for signal in 1..=64 {
                let (new, old) = (default.as_ptr(), ptr::null_mut::<u64>());
                libc::syscall(libc::SYS_rt_sigaction, signal, new, old, size_of::<u64>());
            }
            let mut none = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
            libc::umask(0o022);
        }
    }

    unsafe fn take_descriptors(&self) {
        let [stdin, stdout, stderr, start] = self.fds;
        unsafe {
            for (from, to) in [(stdin, 0), (stdout, 1), (stderr, 2)] {
                if libc::dup2(from, to) < 0 {
                    self.fail(Step::Setup);
                }
            }
            if start != START_FD && libc::dup3(start, START_FD, libc::O_CLOEXEC) < 0 {
                self.fail(Step::Setup);
            }
            // All of them are close-on-exec; this only keeps a waiting child from holding others'
            // pipes open. Kernels before 5.9 do not know the call, and lose nothing else.
            libc::syscall(libc::SYS_close_range, START_FD + 1, c_int::MAX, 0);
        }
    }

    unsafe fn limit(&self) {
        if let Some(count) = self.nofile {
            let limit = libc::rlimit {
                rlim_cur: count,
                rlim_max: count,
            };
            if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } < 0 {
                self.fail(Step::Limit);
            }
        }
    }

    /// Gives up who we are, for good. Past libc, which would tell its other threads, and waits for
    /// locks that they may have held at the fork.
    unsafe fn become_user(&self) {
        let Some(user) = self.user else {
            return;
        };
        let (uid, gid, groups) = (user.uid, user.gid, &user.groups);
        unsafe {
            if libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) < 0
                || libc::syscall(libc::SYS_setresgid, gid, gid, gid) < 0
                || libc::syscall(libc::SYS_setresuid, uid, uid, uid) < 0
            {
                self.fail(Step::User);
            }
            // The kernel clears it when the user changes.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        }
    }

    /// Sleeps until shortly before the instant.
    unsafe fn sleep(&self) {
        let Some(at_ns) = self.at_ns else {
            return;
        };
        unsafe {
            libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0);
            let late_ns = sleep_until(rehearsal_ns(at_ns, time::now_ns()));
            sleep_until(at_ns.saturating_sub(spin_ns(late_ns)));
            // Back to the default, for the slack is inherited over exec.
            libc::prctl(libc::PR_SET_TIMERSLACK, 0, 0, 0, 0);
        }
    }

    /// Spins until the instant, if there is one: the first reading of the clock that is not before
    /// it.
    fn spin(&self) -> u64 {
        let at_ns = self.at_ns.unwrap_or(0);
        loop {
            let now_ns = time::now_ns();
            if now_ns >= at_ns {
                return now_ns;
            }
        }
    }

    fn fail(&self, step: Step) -> ! {
        // SAFETY: errno of this thread; _exit is async-signal-safe.
        unsafe {
            self.report
                .errno
                .store(*libc::__errno_location(), Ordering::Release);
            self.report.step.store(step as u32, Ordering::Release);
            libc::_exit(127)
        }
    }
}

/// When the first sleep ends: never before now, or a near instant would look like a late awakening,
/// and all who wait for it on one CPU would spin, and keep each other from it.
fn rehearsal_ns(at_ns: u64, now_ns: u64) -> u64 {
    let half_way_ns = now_ns.saturating_add(at_ns.saturating_sub(now_ns) / 2);
    at_ns.saturating_sub(REHEARSAL_NS).max(half_way_ns)
}

/// How long to spin where a sleep of our own was `late_ns` late.
fn spin_ns(late_ns: u64) -> u64 {
    late_ns.saturating_mul(3).clamp(LEAST_SPIN_NS, MOST_SPIN_NS)
}

/// Sleeps until an instant of our clock; returns how late that was. The kernel's timers go by
/// `CLOCK_MONOTONIC`, which may be slewed: a long sleep is cut in legs, each a little too short.
unsafe fn sleep_until(instant_ns: u64) -> u64 {
    loop {
        // In this order, so that an interruption in between makes the sleep too short, not too long.
        let mono_ns = sys::mono_ns();
        let now_ns = time::now_ns();
        let left_ns = instant_ns.saturating_sub(now_ns);
        if left_ns == 0 {
            return now_ns - instant_ns;
        }
        let short_ns = left_ns / SLEWED;
        let until_ns = mono_ns.saturating_add(left_ns - short_ns);
        // SAFETY: the caller's.
        unsafe { sleep_until_mono(until_ns) };
        if short_ns < LEAST_SPIN_NS {
            return sys::mono_ns().saturating_sub(until_ns);
        }
    }
}

/// Signals are no reason to wake up.
unsafe fn sleep_until_mono(instant_ns: u64) {
    let until = libc::timespec {
        tv_sec: (instant_ns / 1_000_000_000).cast_signed(),
        tv_nsec: (instant_ns % 1_000_000_000).cast_signed(),
    };
    let (clock, flags) = (libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME);
    // SAFETY: `until` is valid, and an absolute sleep has no remainder.
    let sleep =
        || unsafe { libc::clock_nanosleep(clock, flags, &raw const until, ptr::null_mut()) };
    while sleep() == libc::EINTR {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rehearsal_is_never_in_the_past() {
        let ms = 1_000_000;
        assert_eq!(rehearsal_ns(100 * ms, 0), 90 * ms);
        assert_eq!(rehearsal_ns(100 * ms, 96 * ms), 98 * ms);
        assert_eq!(rehearsal_ns(100 * ms, 101 * ms), 101 * ms);
    }

    #[test]
    fn the_spin_follows_the_rehearsal() {
        assert_eq!(spin_ns(0), LEAST_SPIN_NS);
        assert_eq!(spin_ns(100_000), 300_000);
        assert_eq!(spin_ns(u64::MAX), MOST_SPIN_NS);
    }

    #[test]
    fn a_page_tells_what_happened() {
        let page = Page::new().expect("page");
        assert_eq!(
            page.outcome("x"),
            Err("x: it was killed before its start".into())
        );
        page.report().start_ns.store(13, Ordering::Release);
        assert_eq!(page.outcome("x"), Ok(13));
        page.report().errno.store(libc::ENOENT, Ordering::Release);
        page.report()
            .step
            .store(Step::Exec as u32, Ordering::Release);
        assert_eq!(
            page.outcome("x"),
            Err("x: exec: No such file or directory".into())
        );
    }
}
