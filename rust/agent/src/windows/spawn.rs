//! Starts a program: it is made suspended, in a job of its own, and runs from its instant on.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, OwnedHandle};
use std::os::windows::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW, CREATE_SUSPENDED,
};

use super::job::{Job, resume};
use super::output::Output;
use super::{sys, wait};
use crate::channel::Channel;
use crate::protocol::{Code, Failure, Spawn};
use crate::time;

/// What no program here can do without: of the agent's own environment, and no more of it.
const INHERITED: [&str; 13] = [
    "SystemRoot",
    "SystemDrive",
    "windir",
    "ComSpec",
    "PATH",
    "PATHEXT",
    "TEMP",
    "TMP",
    "USERPROFILE",
    "ProgramData",
    "NUMBER_OF_PROCESSORS",
    "PROCESSOR_ARCHITECTURE",
    "OS",
];
/// By this name the controller asks for the agent itself.
const ITSELF: &str = "/proc/self/exe";

/// A program with all that its start needs.
pub struct Prepared {
    name: String,
    program: PathBuf,
    words: Vec<String>,
    env: BTreeMap<OsString, OsString>,
    cwd: PathBuf,
    at_ns: Option<u64>,
}

/// What is waited for.
pub struct Running {
    pub pid: u32,
    pub process: OwnedHandle,
    pub job: Arc<Job>,
}

/// A suspended program on its way to its start.
pub struct Forked {
    child: Child,
    job: Arc<Job>,
    at_ns: Option<u64>,
}

impl Prepared {
    pub fn new(spawn: &Spawn) -> Result<Self, Failure> {
        let (name, words) = spawn
            .argv
            .split_first()
            .ok_or_else(|| bad_field("argv: it is empty"))?;
        if spawn.argv.iter().any(|word| word.contains('\0')) {
            return Err(bad_field("argv: a NUL inside"));
        }
        if batch_file(name) && words.iter().any(|word| word.contains(['%', '\r', '\n'])) {
            let why = "a batch file reads % and ends of lines in its arguments anew";
            return Err(bad_field(&format!("argv: {name}: {why}")));
        }
        if spawn.user.is_some() {
            return Err(bad_field("user: numbers of users are Linux's"));
        }
        if spawn
            .limits
            .as_ref()
            .is_some_and(|limits| limits.nofile.is_some())
        {
            return Err(bad_field("limits: nofile: there is no such limit here"));
        }
        let cwd = directory(spawn.cwd.as_deref().unwrap_or("/"));
        Ok(Self {
            name: name.clone(),
            program: program(name, &cwd)?,
            words: words.to_vec(),
            env: environment(spawn)?,
            cwd,
            at_ns: spawn.at_ns,
        })
    }

    /// Why there is no process.
    pub fn refused(&self, error: &io::Error) -> Failure {
        let step = if self.cwd.is_dir() { "exec" } else { "cwd" };
        let message = format!("{}: {step}: {}", self.name, sys::text(error));
        Failure::new(Code::ExecFailed, message)
    }

    /// Makes the process; not an instruction of it runs before [`Forked::started`].
    pub fn fork(&self) -> io::Result<(Running, Forked)> {
        let job = Job::new()?;
        let mut child = Command::new(&self.program)
            .args(&self.words)
            .env_clear()
            .envs(&self.env)
            .current_dir(&self.cwd)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .creation_flags(CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP | CREATE_NO_WINDOW)
            .spawn()?;
        let held = hold(&child, &job);
        let process = held.inspect_err(|_| drop(child.kill()))?;
        let running = Running {
            pid: child.id(),
            process,
            job: Arc::clone(&job),
        };
        let forked = Forked {
            child,
            job,
            at_ns: self.at_ns,
        };
        Ok((running, forked))
    }
}

/// Puts the process into its job; a handle of it.
fn hold(child: &Child, job: &Job) -> io::Result<OwnedHandle> {
    job.assign(child.as_raw_handle())?;
    child.as_handle().try_clone_to_owned()
}

impl Forked {
    /// Waits for the instant and lets the program run; when that was, or why it does not.
    pub fn started(&self, name: &str) -> Result<u64, String> {
        let failed = |error: io::Error| format!("{name}: exec: {}", sys::text(&error));
        let started = match self.at_ns {
            Some(at_ns) => wait::until(at_ns, self.child.as_raw_handle()).map_err(failed),
            None => Ok(Some(time::now_ns())),
        };
        let start_ns = started.inspect_err(|_| drop(self.job.kill()))?;
        let start_ns = start_ns.ok_or_else(|| format!("{name}: it was killed before its start"))?;
        let resumed = resume(self.child.as_handle()).map_err(failed);
        resumed.inspect_err(|_| drop(self.job.kill()))?;
        Ok(start_ns)
    }

    /// What it prints, to be carried.
    pub fn output(mut self, id: u32, channel: Arc<Channel>) -> Output {
        Output {
            id,
            channel,
            stdout: self.child.stdout.take(),
            stderr: self.child.stderr.take(),
        }
    }
}

fn bad_field(message: &str) -> Failure {
    Failure::new(Code::BadField, format!("spawn: {message}"))
}

/// The file, or the name to be looked up in the program's own PATH. Windows would look up `./name` from
/// the agent's directory.
fn program(name: &str, cwd: &Path) -> Result<PathBuf, Failure> {
    if name == ITSELF {
        let failed = |error| Failure::new(Code::ExecFailed, format!("{name}: {error}"));
        return std::env::current_exe().map_err(failed);
    }
    let here = name.strip_prefix("./").or_else(|| name.strip_prefix(r".\"));
    Ok(here.map_or_else(|| name.into(), |rest| cwd.join(rest)))
}

/// What cmd.exe is to run. Windows takes no notice of dots and spaces at the end of a name.
fn batch_file(name: &str) -> bool {
    let ending = Path::new(name.trim_end_matches(['.', ' '])).extension();
    ending.is_some_and(|ending| {
        ending.eq_ignore_ascii_case("bat") || ending.eq_ignore_ascii_case("cmd")
    })
}

/// `/`, where programs begin unless something else is said, is the system's drive.
fn directory(cwd: &str) -> PathBuf {
    if cwd == "/" {
        let drive = std::env::var("SystemDrive").unwrap_or_else(|_| "C:".into());
        PathBuf::from(drive + "\\")
    } else {
        cwd.into()
    }
}

/// The minimal environment and what the request adds.
fn environment(spawn: &Spawn) -> Result<BTreeMap<OsString, OsString>, Failure> {
    let wrong = |key: &str| key.is_empty() || key.contains(['=', '\0']);
    if let Some(key) = spawn.env.keys().find(|key| wrong(key)) {
        return Err(bad_field(&format!("env: {key:?} is no name")));
    }
    if spawn.env.values().any(|value| value.contains('\0')) {
        return Err(bad_field("env: a NUL inside"));
    }
    let given = |name: &&str| !spawn.env.keys().any(|key| key.eq_ignore_ascii_case(name));
    let inherited = INHERITED.iter().copied().filter(given);
    let inherited = inherited.filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
    let added = spawn
        .env
        .iter()
        .map(|(key, value)| (key.into(), value.into()));
    Ok(inherited.chain(added).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Limits, User};

    fn spawn(argv: &[&str], env: &[(&str, &str)]) -> Spawn {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Spawn {
            argv: argv.iter().map(|word| (*word).into()).collect(),
            env: env.iter().map(pair).collect(),
            ..Spawn::default()
        }
    }

    #[test]
    fn what_is_given_replaces_the_minimal_environment() {
        let env = environment(&spawn(&[], &[("path", "C:\\x"), ("X", "1=2")])).expect("env");
        assert!(!env.contains_key(&OsString::from("PATH")));
        assert_eq!(env[&OsString::from("path")], "C:\\x");
        assert_eq!(env[&OsString::from("X")], "1=2");
        assert!(env.contains_key(&OsString::from("SystemRoot")));
    }

    #[test]
    fn a_program_here_is_in_its_own_directory() {
        let place = Path::new(r"C:\data\x");
        assert_eq!(program("./run", place), Ok(place.join("run")));
        assert_eq!(program("run", place), Ok("run".into()));
        assert!(program(ITSELF, place).is_ok_and(|path| path.is_absolute()));
    }

    #[test]
    fn what_windows_cannot_say_is_refused() {
        let user = Some(User::default());
        let limits = Some(Limits { nofile: Some(7) });
        let as_user = Spawn {
            user,
            ..spawn(&["x"], &[])
        };
        let limited = Spawn {
            limits,
            ..spawn(&["x"], &[])
        };
        for wrong in [
            spawn(&[], &[]),
            spawn(&["a\0b"], &[]),
            spawn(&["x"], &[("A=B", "c")]),
            spawn(&["x"], &[("", "c")]),
            spawn(&["x"], &[("A", "\0")]),
            as_user,
            limited,
        ] {
            let code = Prepared::new(&wrong).err().map(|failure| failure.code);
            assert_eq!(code, Some(Code::BadField), "{wrong:?}");
        }
    }
}
