//! Starts a program: everything is prepared before the fork, the child (`exec.rs`) does the rest.
//!
//! What the child has to report, its start instant or which step failed, goes through a shared
//! page: writing to a pipe would wake us and, on a single CPU, push the child aside just before its
//! start. A close-on-exec pipe breaks when the program really runs.

use std::ffi::{CString, c_char};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use libc::pid_t;

use crate::channel::Channel;
use crate::protocol::{Code, Failure, Spawn, User};
use crate::system::exec::{Child, Page};
use crate::system::output::Output;
use crate::system::sys;

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A program with all that the child needs, so that it need not allocate.
pub struct Prepared {
    program: CString,
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
    nofile: Option<u64>,
    user: Option<User>,
    at_ns: Option<u64>,
}

/// A forked child on its way to its program.
pub struct Forked {
    start: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    page: Page,
}

impl Forked {
    /// Waits until the program runs; when that was, or why it does not.
    pub fn started(&self, name: &str) -> Result<u64, String> {
        // Breaks when the program runs, or when the child gave up before it.
        let _ = sys::read(&self.start, &mut [0]);
        self.page.outcome(name)
    }

    /// What it prints, to be carried.
    pub fn output(self, id: u32, channel: Arc<Channel>) -> Output {
        Output {
            id,
            channel,
            stdout: self.stdout,
            stderr: self.stderr,
        }
    }
}

impl Prepared {
    pub fn new(spawn: &Spawn) -> Result<Self, Failure> {
        let name = spawn.argv.first();
        let name = name.ok_or_else(|| bad_field("argv: it is empty"))?;
        let argv = spawn.argv.iter().map(|word| c_string("argv", word));
        let argv = argv.collect::<Result<_, _>>()?;
        let pairs = environment(spawn)?;
        let env = pairs
            .iter()
            .map(|(key, value)| c_string("env", &format!("{key}={value}")));
        let env = env.collect::<Result<_, _>>()?;
        let cwd = c_string("cwd", spawn.cwd.as_deref().unwrap_or("/"))?;
        let program = c_string("argv", &find_program(name, &pairs)?)?;
        let nofile = spawn.limits.as_ref().and_then(|limits| limits.nofile);
        Ok(Self {
            program,
            argv,
            env,
            cwd,
            nofile,
            user: spawn.user.clone(),
            at_ns: spawn.at_ns,
        })
    }

    /// Why there is no child.
    pub fn refused(&self, error: &io::Error) -> Failure {
        let name = self.program.to_string_lossy();
        Failure::new(
            Code::ExecFailed,
            format!("{name}: cannot fork: {}", sys::text(error)),
        )
    }

    /// Forks. Must be called from a thread that lives as long as the agent, since the death signal
    /// fires when the forking *thread* ends.
    pub fn fork(&self) -> io::Result<(pid_t, Forked)> {
        let (stdout, child_stdout) = sys::pipe()?;
        let (stderr, child_stderr) = sys::pipe()?;
        let (start, child_start) = sys::pipe()?;
        let stdin = sys::no_input()?;
        sys::set_nonblocking(&stdout)?;
        sys::set_nonblocking(&stderr)?;
        let page = Page::new()?;
        let (argv, env) = (pointers(&self.argv), pointers(&self.env));
        let child = Child {
            program: &self.program,
            argv: &argv,
            env: &env,
            cwd: &self.cwd,
            nofile: self.nofile,
            user: self.user.as_ref(),
            at_ns: self.at_ns,
            fds: [&stdin, &child_stdout, &child_stderr, &child_start].map(AsRawFd::as_raw_fd),
            parent: std::process::id().cast_signed(),
            report: page.report(),
        };
        // SAFETY: the child calls nothing but async-signal-safe functions.
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
    // SAFETY: cannot fail and touches no memory.
    let root = unsafe { libc::geteuid() } == 0;
    let home = if root && Path::new("/root").is_dir() {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn spawn(argv: &[&str], env: &[(&str, &str)]) -> Spawn {
        let env = env
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect();
        Spawn {
            argv: argv.iter().map(|word| (*word).into()).collect(),
            env,
            ..Spawn::default()
        }
    }

    fn code(spawn: &Spawn) -> Option<Code> {
        Prepared::new(spawn).err().map(|failure| failure.code)
    }

    #[test]
    fn programs_are_looked_up_in_their_own_path() {
        let Ok(prepared) = Prepared::new(&spawn(&["sh", "-c", "x"], &[])) else {
            panic!("there is a sh")
        };
        assert!(prepared.program.to_bytes().ends_with(b"/sh"));
        assert_eq!(prepared.argv.len(), 3);
        assert_eq!(
            code(&spawn(&["sh"], &[("PATH", "/empty:")])),
            Some(Code::ExecFailed)
        );
        assert_eq!(code(&spawn(&["/given/with/slash"], &[])), None);
    }

    #[test]
    fn what_is_given_replaces_the_minimal_environment() {
        let pairs = environment(&spawn(&[], &[("LANG", "de"), ("X", "1=2")])).expect("env");
        assert_eq!(pairs.iter().filter(|(key, _)| key == "LANG").count(), 1);
        assert!(pairs.contains(&("LANG".into(), "de".into())));
        assert!(pairs.contains(&("X".into(), "1=2".into())));
    }

    #[test]
    fn what_libc_cannot_say_is_refused() {
        for wrong in [
            spawn(&[], &[]),
            spawn(&["a\0b"], &[]),
            spawn(&["true"], &[("A=B", "c")]),
            spawn(&["true"], &[("", "c")]),
            spawn(&["true"], &[("A", "\0")]),
        ] {
            assert_eq!(code(&wrong), Some(Code::BadField), "{wrong:?}");
        }
    }
}
