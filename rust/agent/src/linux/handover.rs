//! Hands a guest over to systemd, with a unit for the agent in /run: the image stays as it is.

use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::system::sys;

const UNITS: &str = "/run/systemd/system";
const UNIT: &str = "ullage-agent.service";
const TARGET: &str = "multi-user.target.wants";
const SYSTEMD: [&str; 2] = ["/sbin/init", "/lib/systemd/systemd"];

/// Becomes systemd, which starts that agent; returns only with the reason why not.
pub fn to_systemd(agent: &str) -> Result<Infallible, String> {
    write_unit(Path::new(UNITS), agent)
        .map_err(|error| sys::failed("init: cannot write", format!("{UNITS}/{UNIT}"), &error))?;
    let mut reasons = Vec::new();
    for program in SYSTEMD {
        reasons.push(sys::failed(
            "init: cannot execute",
            program,
            &Command::new(program).env_clear().exec(),
        ));
    }
    Err(reasons.join("; "))
}

fn unit(agent: &str) -> String {
    format!(
        "[Unit]\n\
         Description=ullage's agent\n\
         \n\
         [Service]\n\
         Type=simple\n\
         ExecStart={agent} serve --device auto\n\
         Restart=no\n\
         StandardError=journal+console\n\
         LimitNOFILE=524288\n\
         TasksMax=infinity\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n"
    )
}

fn write_unit(directory: &Path, agent: &str) -> std::io::Result<()> {
    let wants = directory.join(TARGET);
    fs::create_dir_all(&wants)?;
    fs::write(directory.join(UNIT), unit(agent))?;
    symlink(Path::new("..").join(UNIT), wants.join(UNIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_wanted_by_multi_user() {
        let directory = std::env::temp_dir().join(format!("ullage-units-{}", std::process::id()));
        write_unit(&directory, "/run/ullage/agent").expect("unit");
        let unit = fs::read_to_string(directory.join(TARGET).join(UNIT)).expect("link");
        assert!(unit.contains("ExecStart=/run/ullage/agent serve --device auto\n"));
        assert!(unit.contains("\nRestart=no\n"));
    }
}
