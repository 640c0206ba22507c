//! Starts a program: everything is prepared before the fork, and the child waits for its instant by itself.
//!
//! The agent has threads, so between fork and exec only async-signal-safe calls are allowed: no allocation, no
//! lock. What the child has to report (its start instant, or which step failed) goes through a shared page,
//! since writing to a pipe would wake us and, on a single CPU, push the child aside just before its start. A
//! close-on-exec pipe breaks when the program really runs.

use std::ffi::{CString, c_char, c_int};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use libc::pid_t;

use crate::protocol::{Code, Failure, Spawn};
use crate::sys;

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// A first sleep ends so long before the instant, and shows how late this machine wakes up.
const REHEARSAL_NS: u64 = 10_000_000;
/// The child spins for a few times what the rehearsal was late, within these bounds: tens of microseconds on
/// hardware, a millisecond or two where the processor is emulated.
const LEAST_SPIN_NS: u64 = 50_000;
const MOST_SPIN_NS: u64 = 4_000_000;
/// Where the start pipe lives in the child; everything above is closed.
const START_FD: c_int = 3;

/// A program with all that the child needs, so that it need not allocate.
pub struct Prepared {
    program: CString,
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
    nofile: Option<u64>,
    at_ns: Option<u64>,
}

/// A forked child on its way to its program.
pub struct Forked {
    pub start: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    pub page: Page,
}

impl Prepared {
    pub fn new(spawn: &Spawn) -> Result<Self, Failure> {
        let name = spawn
            .argv
            .first()
            .ok_or_else(|| bad_field("argv: it is empty"))?;
        let env = environment(spawn)?;
        let program = find_program(name, &env)?;
        let pairs = env
            .iter()
            .map(|(key, value)| c_string("env", &format!("{key}={value}")));
        Ok(Self {
            program: c_string("argv", &program)?,
            argv: spawn
                .argv
                .iter()
                .map(|word| c_string("argv", word))
                .collect::<Result<_, _>>()?,
            env: pairs.collect::<Result<_, _>>()?,
            cwd: c_string("cwd", spawn.cwd.as_deref().unwrap_or("/"))?,
            nofile: spawn.limits.as_ref().and_then(|limits| limits.nofile),
            at_ns: spawn.at_ns,
        })
    }

    /// Forks; `fork` is told what to run in the child. Must be called from a thread that lives as long as the
    /// agent, since the death signal fires when the forking *thread* ends.
    pub fn fork(&self) -> io::Result<(pid_t, Forked)> {
        let (stdout, child_stdout) = sys::pipe()?;
        let (stderr, child_stderr) = sys::pipe()?;
        let (start, child_start) = sys::pipe()?;
        let null = fs::File::open("/dev/null")
            .map_or_else(|_| sys::pipe().map(|ends| ends.0), |file| Ok(file.into()))?;
        sys::set_nonblocking(&stdout)?;
        sys::set_nonblocking(&stderr)?;
        let page = Page::new()?;
        let argv = pointers(&self.argv);
        let env = pointers(&self.env);
        let child = Child {
            prepared: self,
            argv: &argv,
            env: &env,
            fds: [
                null.as_raw_fd(),
                child_stdout.as_raw_fd(),
                child_stderr.as_raw_fd(),
                child_start.as_raw_fd(),
            ],
            parent: std::process::id().cast_signed(),
            report: page.report(),
        };
        // SAFETY: the child calls nothing but async-signal-safe functions, see `Child::run`.
        let pid = unsafe { sys::check(libc::fork())? };
        if pid == 0 {
            child.run();
        }
        Ok((
            pid,
            Forked {
                start,
                stdout,
                stderr,
                page,
            },
        ))
    }
}

fn bad_field(message: &str) -> Failure {
    Failure::new(Code::BadField, format!("spawn: {message}"))
}

fn c_string(field: &str, text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|_| bad_field(&format!("{field}: a NUL inside")))
}

/// The minimal environment and what the request adds.
fn environment(spawn: &Spawn) -> Result<Vec<(String, String)>, Failure> {
    let home = if Path::new("/root").is_dir() {
        "/root"
    } else {
        "/"
    };
    let minimal = [
        ("PATH", DEFAULT_PATH),
        ("HOME", home),
        ("LANG", "C.UTF-8"),
        ("LC_ALL", "C.UTF-8"),
    ];
    let kept = minimal
        .into_iter()
        .filter(|(key, _)| !spawn.env.contains_key(*key));
    let mut env: Vec<(String, String)> = kept
        .map(|(key, value)| (key.into(), value.into()))
        .collect();
    for (key, value) in &spawn.env {
        if key.is_empty() || key.contains('=') {
            return Err(bad_field(&format!("env: {key:?} is no name")));
        }
        env.push((key.clone(), value.clone()));
    }
    Ok(env)
}

/// The program's path: as given when it has a slash, else looked up in the child's own PATH.
fn find_program(name: &str, env: &[(String, String)]) -> Result<String, Failure> {
    if name.contains('/') {
        return Ok(name.into());
    }
    let path = env
        .iter()
        .find(|(key, _)| key == "PATH")
        .map_or(DEFAULT_PATH, |(_, value)| value);
    let candidates = path
        .split(':')
        .filter(|dir| !dir.is_empty())
        .map(|dir| format!("{dir}/{name}"));
    let runnable = |file: &String| {
        fs::metadata(file)
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    let missing = || {
        Failure::new(
            Code::ExecFailed,
            format!("exec {name}: not found in PATH={path}"),
        )
    };
    candidates.into_iter().find(runnable).ok_or_else(missing)
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings
        .iter()
        .map(|string| string.as_ptr())
        .chain([ptr::null()])
        .collect()
}

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
}

/// A page that parent and child share.
pub struct Page(*mut Report);

// SAFETY: the report consists of atomics.
unsafe impl Send for Page {}

impl Page {
    fn new() -> io::Result<Self> {
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a fresh anonymous mapping, zeroed by the kernel, which is a valid report.
        let page = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size_of::<Report>(),
                protection,
                flags,
                -1,
                0,
            )
        };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(page.cast()))
    }

    fn report(&self) -> &Report {
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
struct Child<'a> {
    prepared: &'a Prepared,
    argv: &'a [*const c_char],
    env: &'a [*const c_char],
    fds: [c_int; 4],
    parent: pid_t,
    report: &'a Report,
}

impl Child<'_> {
    fn run(&self) -> ! {
        // SAFETY: async-signal-safe calls on memory prepared before the fork.
        unsafe {
            self.detach();
            self.take_descriptors();
            self.limit();
            if libc::chdir(self.prepared.cwd.as_ptr()) < 0 {
                self.fail(Step::Cwd);
            }
            self.sleep();
            // The first write to the page costs microseconds; not at the instant, please.
            self.report.start_ns.store(0, Ordering::Release);
            self.report.start_ns.store(self.spin(), Ordering::Release);
            libc::execve(
                self.prepared.program.as_ptr(),
                self.argv.as_ptr(),
                self.env.as_ptr(),
            );
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
            for signal in 1..=libc::SIGRTMAX() {
                libc::signal(signal, libc::SIG_DFL);
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
            // All of them are close-on-exec; this only keeps a waiting child from holding others' pipes open.
            // Kernels before 5.9 do not know the call, and lose nothing else.
            libc::syscall(libc::SYS_close_range, START_FD + 1, c_int::MAX, 0);
        }
    }

    unsafe fn limit(&self) {
        if let Some(count) = self.prepared.nofile {
            let limit = libc::rlimit {
                rlim_cur: count,
                rlim_max: count,
            };
            if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } < 0 {
                self.fail(Step::Limit);
            }
        }
    }

    /// Sleeps until shortly before the instant.
    unsafe fn sleep(&self) {
        let Some(at_ns) = self.prepared.at_ns else {
            return;
        };
        unsafe {
            libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0);
            let rehearsal_ns = at_ns.saturating_sub(REHEARSAL_NS);
            sleep_until(rehearsal_ns);
            let late_ns = sys::mono_ns().saturating_sub(rehearsal_ns);
            sleep_until(at_ns.saturating_sub(spin_ns(late_ns)));
            // Back to the default, for the slack is inherited over exec.
            libc::prctl(libc::PR_SET_TIMERSLACK, 0, 0, 0, 0);
        }
    }

    /// Spins until the instant, if there is one; the first reading of the clock that is not before it.
    /// Without a PAUSE: in a VM, many of them in a row give the CPU to the host for a while.
    fn spin(&self) -> u64 {
        let at_ns = self.prepared.at_ns.unwrap_or(0);
        loop {
            let now_ns = sys::mono_ns();
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

/// How long to spin where a sleep of our own was `late_ns` late.
fn spin_ns(late_ns: u64) -> u64 {
    late_ns.saturating_mul(3).clamp(LEAST_SPIN_NS, MOST_SPIN_NS)
}

/// Async-signal-safe; signals are no reason to wake up.
unsafe fn sleep_until(instant_ns: u64) {
    let until = libc::timespec {
        tv_sec: (instant_ns / 1_000_000_000).cast_signed(),
        tv_nsec: (instant_ns % 1_000_000_000).cast_signed(),
    };
    let flags = libc::TIMER_ABSTIME;
    // SAFETY: `until` is valid, and an absolute sleep has no remainder.
    while unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            flags,
            &raw const until,
            ptr::null_mut(),
        )
    } == libc::EINTR
    {}
}
