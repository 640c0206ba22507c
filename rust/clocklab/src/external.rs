//! Clocks of other devices, that may run by an oscillator of their own: PTP hardware clocks and the
//! HPET.

use std::fs::File;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Absent, Error};

mod hpet;
mod ptp;

use hpet::Hpet;
use ptp::Ptp;

/// What sort of clock it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A clock of the kernel's PTP subsystem.
    Ptp,
    /// The high precision event timer of the chipset.
    Hpet,
}

/// A clock beside the processor's counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct External {
    /// Its sort.
    pub kind: Kind,
    pub device: String,
    /// What its driver calls it.
    pub name: String,
    /// Whether its oscillator is another one than the counter's; none where that cannot be known.
    pub independent: Option<bool>,
    pub why: String,
    /// Clocks that were looked for and would not do, with the reason.
    pub passed_over: Vec<String>,
}

pub enum Device {
    Ptp(Ptp),
    Hpet(Hpet),
}

impl Device {
    /// In ticks of [`Device::ns_per_tick`], never wrapping if read every minute.
    pub fn read(&mut self) -> Result<u64, Error> {
        match self {
            Self::Ptp(ptp) => ptp
                .read()
                .map_err(|error| Error::system("read the PTP clock", error)),
            Self::Hpet(hpet) => Ok(hpet.read()),
        }
    }

    pub fn ns_per_tick(&self) -> f64 {
        match self {
            Self::Ptp(_) => 1.0,
            Self::Hpet(hpet) => hpet.ns_per_tick(),
        }
    }
}

/// What matters of the machine; another one in tests.
pub struct Surroundings<'a> {
    pub dev: &'a Path,
    pub sys: &'a Path,
    pub virtual_machine: bool,
    /// The kernel's clock source, if RVEC reads the kernel's clock.
    pub rvec_by: Option<&'a str>,
}

/// The best external clock that there is: an independent one rather than one of which nobody knows,
/// and that rather than one that is not. Else what was looked for and why it did not do.
pub fn find(surroundings: &Surroundings) -> Result<(External, Device), Absent> {
    let (mut present, mut why) = (Vec::new(), Vec::new());
    let ptps = ptp::devices(surroundings.dev);
    if ptps.is_empty() {
        why.push(format!(
            "{}/ptp*: there is none",
            surroundings.dev.display()
        ));
    }
    let candidates = ptps.into_iter().map(|path| ptp::find(surroundings, &path));
    for candidate in candidates.chain([hpet::find(surroundings)]) {
        match candidate {
            Ok(clock) => present.push(clock),
            Err(reason) => why.push(reason),
        }
    }
    let rank = |external: &External| match external.independent {
        Some(true) => 0,
        None => 1,
        Some(false) => 2,
    };
    let best = present
        .into_iter()
        .min_by_key(|(external, _)| rank(external));
    match best {
        Some((external, device)) => {
            let passed_over = why;
            Ok((
                External {
                    passed_over,
                    ..external
                },
                device,
            ))
        }
        None => Err(Absent::new("independent clock", why.join("; "))),
    }
}

/// Long enough for every clock that is worth its name.
const PAUSE: Duration = Duration::from_millis(2);

/// Refuses a clock that does not go on: some emulated cards have one.
fn going(path: &Path, device: &mut Device) -> Result<(), String> {
    let named = |error: Error| format!("{}: {error}", path.display());
    let before = device.read().map_err(named)?;
    thread::sleep(PAUSE);
    if device.read().map_err(named)? > before {
        return Ok(());
    }
    Err(format!("{}: stands still", path.display()))
}

/// Opens a device for reading, or says why not.
fn open(path: &Path) -> Result<File, String> {
    File::open(path).map_err(|error| refused(path, &error))
}

fn refused(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("{}: there is none", path.display()),
        _ => format!("{}: {error}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    /// A place of its own, removed in the end.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("clocklab-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("directory");
            Self(path)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    impl Place {
        fn surroundings(&self) -> Surroundings<'_> {
            Surroundings {
                dev: &self.0,
                sys: &self.0,
                virtual_machine: false,
                rvec_by: None,
            }
        }
    }

    #[test]
    fn what_is_not_there_is_named() {
        let place = Place::new("none");
        let absent = find(&place.surroundings()).err().expect("absent");
        assert!(
            absent.why.contains("/ptp*: there is none"),
            "{}",
            absent.why
        );
        assert!(
            absent.why.contains("/hpet: there is none"),
            "{}",
            absent.why
        );
    }

    #[test]
    fn a_file_is_no_clock() {
        let place = Place::new("files");
        for name in ["ptp0", "hpet"] {
            fs::write(place.0.join(name), [0; 8192]).expect("file");
        }
        let absent = find(&place.surroundings()).err().expect("absent");
        assert!(absent.why.contains("ptp0: "), "{}", absent.why);
        // A period of zero is none.
        assert!(absent.why.contains("hpet: not a timer"), "{}", absent.why);
    }

    #[test]
    fn a_timer_that_stands_still_is_refused() {
        let place = Place::new("still");
        let mut registers = vec![0; 8192];
        registers[..8].copy_from_slice(&(10_000_000_u64 << 32 | 1 << 13).to_le_bytes());
        fs::write(place.0.join("hpet"), registers).expect("file");
        let absent = find(&place.surroundings()).err().expect("absent");
        assert!(absent.why.contains("hpet: stands still"), "{}", absent.why);
    }

    #[test]
    fn this_machines_clock_goes_on() {
        let surroundings = Surroundings {
            dev: Path::new("/dev"),
            sys: Path::new("/sys"),
            virtual_machine: true,
            rvec_by: None,
        };
        match find(&surroundings) {
            Ok((external, mut device)) => {
                let first = device.read().expect("read");
                std::thread::sleep(PAUSE);
                assert!(device.read().expect("read") > first, "{external:?}");
            }
            Err(absent) => eprintln!("absent: {}", absent.why),
        }
    }
}
