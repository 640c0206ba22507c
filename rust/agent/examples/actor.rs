//! A program for the agent's tests that does one thing, the same on every system.

use std::io::{self, Write};
use std::process::{Command, Stdio, exit};
use std::time::Duration;
use std::{env, thread};

fn main() -> io::Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["nothing"] => Ok(()),
        ["both"] => {
            eprintln!("oops");
            put(b"hi\n")?;
            exit(3)
        }
        ["exit", code] => exit(number(code)),
        ["sleep"] => loop {
            thread::sleep(Duration::from_secs(60));
        },
        ["flood", bytes] => flood(number(bytes)),
        ["directory"] => put(env::current_dir()?.display().to_string().as_bytes()),
        ["variable", name] => put(env::var(name).unwrap_or_default().as_bytes()),
        ["arguments", rest @ ..] => put(rest.join("\n").as_bytes()),
        ["utf16"] => put(&"é\r\n"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect::<Vec<_>>()),
        ["bytes"] => put(&(0..=u8::MAX).collect::<Vec<_>>()),
        ["hold"] => leave(&mut other("sleep", Stdio::inherit())?),
        ["hold-and-count"] => leave(&mut other("count", Stdio::inherit())?),
        ["leave"] => leave(apart(&mut other("sleep", Stdio::null())?)),
        #[cfg(windows)]
        ["lend", until] => lend(until.as_ref()),
        ["count"] => count(),
        ["breed"] => breed(),
        #[cfg(windows)]
        ["error-mode"] => put(format!("{:#x}", error_mode()).as_bytes()),
        #[cfg(windows)]
        ["pipes"] => put(pipes().to_string().as_bytes()),
        _ => exit(99),
    }
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| exit(98))
}

fn put(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

fn flood(mut left: usize) -> io::Result<()> {
    let line = b"ullage-agent\n".repeat(1000);
    while left > 0 {
        let part = &line[..left.min(line.len())];
        put(part)?;
        left -= part.len();
    }
    Ok(())
}

fn other(word: &str, output: Stdio) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.arg(word).stdin(Stdio::null());
    command.stdout(output).stderr(Stdio::null());
    Ok(command)
}

/// On Windows a program inherits every handle that may be inherited, whatever it is given as output,
/// and its console, where there is one.
#[cfg(windows)]
fn apart(command: &mut Command) -> &mut Command {
    use std::os::windows::io::{AsRawHandle, RawHandle};
    use std::os::windows::process::CommandExt;
    const INHERIT: u32 = 1;
    const DETACHED_PROCESS: u32 = 8;
    unsafe extern "system" {
        fn SetHandleInformation(handle: RawHandle, mask: u32, flags: u32) -> i32;
    }
    for handle in [io::stdout().as_raw_handle(), io::stderr().as_raw_handle()] {
        // SAFETY: a handle that stays open.
        unsafe { SetHandleInformation(handle, INHERIT, 0) };
    }
    command.creation_flags(DETACHED_PROCESS)
}

#[cfg(unix)]
fn apart(command: &mut Command) -> &mut Command {
    command
}

/// Ends, and leaves a program behind.
fn leave(command: &mut Command) -> io::Result<()> {
    let child = command.spawn()?;
    put(format!("{}\n", child.id()).as_bytes())
}

/// Says which handle its output is, so that another process can take it, and ends when the file is there.
#[cfg(windows)]
fn lend(until: &std::path::Path) -> io::Result<()> {
    use std::os::windows::io::AsRawHandle;
    let handle = io::stdout().as_raw_handle().addr();
    put(format!("{} {handle}\n", std::process::id()).as_bytes())?;
    while !until.exists() {
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// A line every 10 ms, for ever.
fn count() -> io::Result<()> {
    loop {
        put(b"tick\n")?;
        thread::sleep(Duration::from_millis(10));
    }
}

/// Programs that end at once, one after the other, each of which says so.
fn breed() -> io::Result<()> {
    loop {
        let mut command = Command::new(env::current_exe()?);
        command.args(["arguments", "born"]).stdin(Stdio::null());
        let _ = command.stderr(Stdio::null()).status()?;
    }
}

#[cfg(windows)]
fn error_mode() -> u32 {
    unsafe extern "system" {
        fn GetErrorMode() -> u32;
    }
    // SAFETY: only asks.
    unsafe { GetErrorMode() }
}

/// How many handles of pipes it has: handles are small multiples of four.
#[cfg(windows)]
fn pipes() -> usize {
    use std::os::windows::io::RawHandle;
    const PIPE: u32 = 3;
    unsafe extern "system" {
        fn GetFileType(handle: RawHandle) -> u32;
    }
    let handles = (4..4096).step_by(4).map(std::ptr::without_provenance_mut);
    // SAFETY: only asks, and a number that is no handle is an error.
    handles
        .filter(|handle| unsafe { GetFileType(*handle) } == PIPE)
        .count()
}
