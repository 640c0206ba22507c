//! The command line: what the agent is to be.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::exit;
use std::time::Duration;

use super::{attach, ends, enter, hide, init, link, pause, port, supervisor, sys, workspace};
use crate::{channel, serve, shutdown};

const USAGE: &str = "\
usage: ullage-agent serve [--device PATH|auto]
       ullage-agent enter [--cgroup DIR]... [--cpus LIST] [--netns PATH] [--hostname NAME]
                          [--root DIR] [--bind SRC:DST[:ro]]... [--tmpfs DST]...
       ullage-agent hide DIR PROGRAM [ARGUMENT]...
       ullage-agent link NAME ADDRESS PREFIX [GATEWAY]
       ullage-agent workspace DIR [UID GID]
       ullage-agent attach SOCKET
       ullage-agent pause
       ullage-agent --version";

/// How long a guest waits for the device.
const PORT_PATIENCE: Duration = Duration::from_secs(30);

/// What the command line asks for.
#[derive(Debug, PartialEq)]
enum Command {
    Serve(Serve),
    Enter(enter::Place),
    Hide(hide::Hidden),
    Link(link::Link),
    Workspace(workspace::Workspace),
    Attach(attach::Attach),
    Pause,
    Version,
}

#[derive(Debug, Default, PartialEq)]
struct Serve {
    device: Option<PathBuf>,
    /// We are a guest's PID 1: no supervisor, and the end switches the guest off. Said by our own
    /// `init` only.
    guest: bool,
}

pub fn run() {
    use_one_arena();
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_default();
    if std::process::id() == 1 && program == "/init" {
        init::run();
    }
    let result = match parse(args.collect()) {
        Ok(Command::Serve(options)) => serve(options),
        Ok(Command::Enter(place)) => place.go().and_then(|()| serve(Serve::default())),
        Ok(Command::Hide(hidden)) => end(&hidden.run()),
        Ok(Command::Link(link)) => end(&link.go()),
        Ok(Command::Workspace(place)) => end(&place.make()),
        Ok(Command::Attach(attach)) => end(&attach.go()),
        Ok(Command::Pause) => pause::pause(),
        Ok(Command::Version) => {
            let version = concat!("ullage-agent ", env!("CARGO_PKG_VERSION"));
            exit(ullage_common::print(version).is_err().into());
        }
        Err(message) => {
            ullage_common::say(&format!("ullage-agent: {message}\n{USAGE}"));
            exit(2);
        }
    };
    if let Err(message) = result {
        shutdown::end(1, Some(&message));
    }
}

/// The end of a command that does one thing and speaks to nobody.
fn end(result: &Result<(), String>) -> ! {
    if let Err(message) = result {
        ullage_common::say(&format!("ullage-agent: {message}"));
    }
    exit(result.is_err().into());
}

fn parse(args: Vec<OsString>) -> Result<Command, String> {
    let mut args = args.into_iter();
    let command = args.next().ok_or("a command is wanted")?;
    match command.to_str() {
        Some("serve") => parse_serve(args).map(Command::Serve),
        Some("enter") => enter::parse(args).map(Command::Enter),
        Some("hide") => hide::parse(args).map(Command::Hide),
        Some("link") => link::parse(args).map(Command::Link),
        Some("workspace") => workspace::parse(args).map(Command::Workspace),
        Some("attach") => attach::parse(args).map(Command::Attach),
        Some("pause") => Ok(Command::Pause),
        Some("--version") => Ok(Command::Version),
        _ => Err(format!("{}: no such command", command.to_string_lossy())),
    }
}

fn parse_serve(mut args: impl Iterator<Item = OsString>) -> Result<Serve, String> {
    let mut serve = Serve::default();
    while let Some(flag) = args.next() {
        match flag.to_str() {
            Some("--device") => {
                serve.device = Some(args.next().ok_or("serve: --device needs a value")?.into());
            }
            Some("--guest") => serve.guest = true,
            _ => {
                return Err(format!(
                    "serve: {} is no flag of serve",
                    flag.to_string_lossy()
                ));
            }
        }
    }
    Ok(serve)
}

/// Serves until the end; the return value is why it could not begin.
fn serve(options: Serve) -> Result<(), String> {
    if options.guest {
        init::become_guest();
    }
    let line = if options.guest {
        None
    } else {
        Some(supervisor::split().map_err(|e| cannot("fork", &e))?)
    };
    let device = match options.device {
        Some(path) if path.as_os_str() == "auto" => Some(port::wait_for(PORT_PATIENCE)?),
        Some(path) if options.guest => Some(port::wait_until_open(path, PORT_PATIENCE)),
        other => other,
    };
    let (input, output) = match &device {
        Some(path) => {
            ends::device(path).map_err(|e| cannot(&format!("open {}", path.display()), &e))?
        }
        None => ends::stdio().map_err(|e| cannot("use stdin and stdout", &e))?,
    };
    if let Some(line) = line {
        supervisor::watch(line).map_err(|e| cannot("start a thread", &e))?;
    }
    let (channel, input) = channel::open(input, output);
    serve::serve(&channel, input)
}

fn cannot(action: &str, error: &std::io::Error) -> String {
    format!("cannot {action}: {}", sys::text(error))
}

/// One heap for all threads: ours are many and idle, and a heap for each would cost memory of the
/// instance.
fn use_one_arena() {
    #[cfg(target_env = "gnu")]
    // SAFETY: before any other thread.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Command, String> {
        parse(args.iter().map(OsString::from).collect())
    }

    #[test]
    fn commands_are_read() {
        assert_eq!(parsed(&["serve"]), Ok(Command::Serve(Serve::default())));
        let device = Some(PathBuf::from("/dev/vport0p1"));
        let serve = Serve {
            device,
            guest: false,
        };
        assert_eq!(
            parsed(&["serve", "--device", "/dev/vport0p1"]),
            Ok(Command::Serve(serve))
        );
        assert_eq!(parsed(&["pause"]), Ok(Command::Pause));
        assert_eq!(parsed(&["--version"]), Ok(Command::Version));
    }

    #[test]
    fn wrong_ones_are_named() {
        assert_eq!(parsed(&["dance"]), Err("dance: no such command".into()));
        assert_eq!(
            parsed(&["serve", "--device"]),
            Err("serve: --device needs a value".into())
        );
        assert!(parsed(&[]).is_err() && parsed(&["serve", "fast"]).is_err());
    }
}
