//! Hands a guest over to systemd, with a unit for the agent in /run: the image stays as it is.

use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::init::{AGENT, failed};

const UNITS: &str = "/run/systemd/system";
const UNIT: &str = "ullage-agent.service";
const TARGET: &str = "multi-user.target.wants";
const SYSTEMD: [&str; 2] = ["/sbin/init", "/lib/systemd/systemd"];

/// Becomes systemd; returns only with the reason why not.
pub fn to_systemd() -> Result<Infallible, String> {
    write_unit(Path::new(UNITS))
        .map_err(|error| failed("write", &format!("{UNITS}/{UNIT}"), &error))?;
    let mut reasons = Vec::new();
    for program in SYSTEMD {
        reasons.push(failed(
            "execute",
            program,
            &Command::new(program).env_clear().exec(),
        ));
    }
    Err(reasons.join("; "))
}

fn unit() -> String {
    format!(
        "[Unit]\n\
         Description=ullage's agent\n\
         \n\
         [Service]\n\
         Type=simple\n\
         ExecStart={AGENT} serve --device auto\n\
         Restart=no\n\
         StandardError=journal+console\n\
         LimitNOFILE=524288\n\
         TasksMax=infinity\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n"
    )
}

fn write_unit(directory: &Path) -> std::io::Result<()> {
    let wants = directory.join(TARGET);
    fs::create_dir_all(&wants)?;
    fs::write(directory.join(UNIT), unit())?;
    symlink(Path::new("..").join(UNIT), wants.join(UNIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_wanted_by_multi_user() {
        let directory = std::env::temp_dir().join(format!("ullage-units-{}", std::process::id()));
        write_unit(&directory).expect("unit");
        let wanted = fs::read_to_string(directory.join(TARGET).join(UNIT)).expect("link");
        assert!(wanted.contains("ExecStart=/run/ullage/agent serve --device auto\n"));
        assert!(wanted.contains("\nRestart=no\n"));
    }
}
