//! Finds the device that leads to the controller. In a small guest there is no udev that would make
//! `/dev/virtio-ports/NAME`, so the name of a virtio-serial port is looked up in /sys.

use std::fs;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const NAME: &str = "ullage.agent";
const PORTS: &str = "/sys/class/virtio-ports";

/// The port's device, waiting for it to appear.
pub fn wait_for(patience: Duration) -> Result<PathBuf, String> {
    let began = Instant::now();
    loop {
        if let Some(device) = find(Path::new(PORTS)) {
            return Ok(device);
        }
        if began.elapsed() > patience {
            return Err(format!(
                "no virtio-serial port is named {NAME} (looked in {PORTS})"
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The same device, once it can be opened: Xen's consoles have their files before they are there.
pub fn wait_until_open(device: PathBuf, patience: Duration) -> PathBuf {
    let began = Instant::now();
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOCTTY);
    while options.open(&device).is_err() && began.elapsed() < patience {
        std::thread::sleep(Duration::from_millis(20));
    }
    device
}

fn find(ports: &Path) -> Option<PathBuf> {
    let named = |port: &fs::DirEntry| {
        fs::read_to_string(port.path().join("name")).is_ok_and(|name| name.trim() == NAME)
    };
    let port = fs::read_dir(ports).ok()?.flatten().find(named)?;
    let device = Path::new("/dev").join(port.file_name());
    device.exists().then_some(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT_S: Duration = Duration::from_secs(30);

    #[test]
    fn only_the_named_port_counts() {
        let ports = std::env::temp_dir().join(format!("ullage-ports-{}", std::process::id()));
        for (port, name) in [("vport0p1", "org.qemu.guest_agent.0"), ("null", NAME)] {
            fs::create_dir_all(ports.join(port)).expect("directory");
            fs::write(ports.join(port).join("name"), format!("{name}\n")).expect("name");
        }
        assert_eq!(find(&ports), Some(PathBuf::from("/dev/null")));
        assert_eq!(find(Path::new("/no/such/directory")), None);
    }

    #[test]
    fn a_device_that_never_opens_is_left_to_who_opens_it() {
        let never = PathBuf::from("/no/such/device");
        let none = Duration::ZERO;
        assert_eq!(wait_until_open(never.clone(), none), never);
        let null = PathBuf::from("/dev/null");
        assert_eq!(wait_until_open(null.clone(), PORT_S), null);
    }
}
