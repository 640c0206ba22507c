//! The command line: what the agent is to be.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::exit;

use super::{ends, job, sys};
use crate::{channel, serve, shutdown};

const USAGE: &str = "\
usage: ullage-agent serve [--device PATH]
       ullage-agent workspace DIR
       ullage-agent --version";

/// What the command line asks for.
#[derive(Debug, PartialEq)]
enum Command {
    /// On stdin and stdout, or on a device: `\\\\.\\Global\\ullage.agent`.
    Serve(Option<PathBuf>),
    /// A directory for a program. Its owner is whoever the agent runs as.
    Workspace(PathBuf),
    Version,
}

pub fn run() {
    let served = match parse(std::env::args_os().skip(1)) {
        Ok(Command::Serve(device)) => serve(device.as_deref()),
        Ok(Command::Workspace(path)) => make(&path),
        Ok(Command::Version) => {
            let version = concat!("ullage-agent ", env!("CARGO_PKG_VERSION"));
            exit(ullage_common::print(version).is_err().into());
        }
        Err(message) => {
            ullage_common::say(&format!("ullage-agent: {message}\n{USAGE}"));
            exit(2);
        }
    };
    if let Err(message) = served {
        shutdown::end(1, Some(&message));
    }
}

fn parse(mut args: impl Iterator<Item = OsString>) -> Result<Command, String> {
    let command = args.next().ok_or("a command is wanted")?;
    match command.to_str() {
        Some("serve") => parse_serve(args),
        Some("workspace") => match (args.next(), args.next()) {
            (Some(path), None) => Ok(Command::Workspace(path.into())),
            _ => Err("workspace: DIR is wanted".into()),
        },
        Some("--version") => Ok(Command::Version),
        _ => Err(format!("{}: no such command", command.to_string_lossy())),
    }
}

fn parse_serve(mut args: impl Iterator<Item = OsString>) -> Result<Command, String> {
    let mut device = None;
    while let Some(flag) = args.next() {
        if flag != "--device" {
            let flag = flag.to_string_lossy();
            return Err(format!("serve: {flag} is no flag of serve"));
        }
        device = Some(args.next().ok_or("serve: --device needs a value")?.into());
    }
    Ok(Command::Serve(device))
}

/// The end of a command that does one thing and speaks to nobody.
fn make(path: &Path) -> ! {
    let made = std::fs::create_dir_all(path);
    if let Err(error) = &made {
        let (path, why) = (path.display(), sys::text(error));
        ullage_common::say(&format!("ullage-agent: workspace {path}: {why}"));
    }
    exit(made.is_err().into());
}

/// Serves until the end; the return value is why it could not begin.
fn serve(device: Option<&Path>) -> Result<(), String> {
    sys::show_no_dialogs();
    if let Err(error) = job::enclose() {
        let why = sys::text(&error);
        ullage_common::say(&format!("ullage-agent: no job of its own: {why}"));
    }
    let (receiver, sender) = match device {
        Some(path) => ends::device(path)
            .map_err(|error| format!("cannot open {}: {}", path.display(), sys::text(&error)))?,
        None => ends::stdio()
            .map_err(|error| format!("cannot use stdin and stdout: {}", sys::text(&error)))?,
    };
    let (channel, input) = channel::open(receiver, sender);
    serve::serve(&channel, input)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Command, String> {
        parse(args.iter().map(OsString::from))
    }

    #[test]
    fn commands_are_read() {
        assert_eq!(parsed(&["serve"]), Ok(Command::Serve(None)));
        let port = r"\\.\Global\ullage.agent";
        let device = Some(PathBuf::from(port));
        assert_eq!(
            parsed(&["serve", "--device", port]),
            Ok(Command::Serve(device))
        );
        let place = Command::Workspace(PathBuf::from(r"C:\data\x"));
        assert_eq!(parsed(&["workspace", r"C:\data\x"]), Ok(place));
        assert!(parsed(&["workspace", r"C:\data\x", "33", "34"]).is_err());
        assert_eq!(parsed(&["--version"]), Ok(Command::Version));
    }

    #[test]
    fn wrong_ones_are_named() {
        assert_eq!(parsed(&["pause"]), Err("pause: no such command".into()));
        let missing = Err("serve: --device needs a value".into());
        assert_eq!(parsed(&["serve", "--device"]), missing);
        assert!(parsed(&[]).is_err() && parsed(&["serve", "fast"]).is_err());
    }
}
