//! The HPET, through the kernel's mapping of its registers (IA-PC HPET Specification 1.0a, 2.3).

use std::num::NonZero;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::{Device, External, Kind, Surroundings, going, open};

/// General capabilities: the period in fs in the upper half, bit 13 for a counter of 64 bits.
const CAPABILITIES: usize = 0x000;
const WIDE: u64 = 1 << 13;
const COUNTER: usize = 0x0f0;
/// The registers take 1 KiB; the kernel maps pages (`drivers/char/hpet.c`).
const LENGTH: NonZero<usize> = NonZero::new(4096).expect("not zero");
/// No more is allowed (2.3.4): 100 ns.
const LONGEST_FS: u64 = 100_000_000;

pub struct Hpet {
    registers: NonNull<core::ffi::c_void>,
    period_fs: u64,
    wide: bool,
    last: u64,
}

impl Hpet {
    fn register(&self, offset: usize) -> u64 {
        // SAFETY: inside of the mapping, aligned, and reads have no side effect.
        unsafe {
            self.registers
                .byte_add(offset)
                .cast::<u64>()
                .read_volatile()
        }
    }

    /// Ticks; a counter of 32 bits is carried on.
    pub fn read(&mut self) -> u64 {
        let value = self.register(COUNTER);
        self.last = if self.wide {
            value
        } else {
            carried(self.last, value)
        };
        self.last
    }

    #[expect(clippy::cast_precision_loss, reason = "at most 10^8")]
    pub fn ns_per_tick(&self) -> f64 {
        self.period_fs as f64 * 1e-6
    }
}

impl Drop for Hpet {
    fn drop(&mut self) {
        // SAFETY: ours, of this length, and nothing points into it.
        let _ = unsafe { munmap(self.registers, LENGTH.get()) };
    }
}

/// The next value that ends in these 32 bits.
fn carried(last: u64, value: u64) -> u64 {
    let low = value & 0xffff_ffff;
    last + (low.wrapping_sub(last) & 0xffff_ffff)
}

/// The timer, if the kernel lets us map it.
pub fn find(surroundings: &Surroundings) -> Result<(External, Device), String> {
    let path = surroundings.dev.join("hpet");
    let file = open(&path)?;
    // SAFETY: a new mapping, read only.
    let registers = unsafe {
        mmap(
            None,
            LENGTH,
            ProtFlags::PROT_READ,
            MapFlags::MAP_SHARED,
            &file,
            0,
        )
    };
    let registers = registers.map_err(|error| format!("{}: {error}", path.display()))?;
    let mut hpet = Hpet {
        registers,
        period_fs: 0,
        wide: true,
        last: 0,
    };
    let capabilities = hpet.register(CAPABILITIES);
    hpet.period_fs = capabilities >> 32;
    hpet.wide = capabilities & WIDE != 0;
    if hpet.period_fs == 0 || hpet.period_fs > LONGEST_FS {
        return Err(format!("{}: not a timer", path.display()));
    }
    let mut device = Device::Hpet(hpet);
    going(&path, &mut device)?;
    let (independent, why) = independence(surroundings);
    let external = External {
        kind: Kind::Hpet,
        device: path.display().to_string(),
        name: "hpet".into(),
        independent,
        why: why.into(),
        passed_over: Vec::new(),
    };
    Ok((external, device))
}

fn independence(surroundings: &Surroundings) -> (Option<bool>, &'static str) {
    if surroundings.rvec_by == Some("hpet") {
        return (
            Some(false),
            "the kernel keeps time by it, and RVEC reads the kernel's clock here",
        );
    }
    if surroundings.virtual_machine {
        return (Some(false), "the hypervisor's, made from the host's clock");
    }
    (
        None,
        "the chipset's; its crystal may be the one of the processor's counter, which no software can \
         see",
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_rvec_stands_on_is_no_witness() {
        let surroundings = |virtual_machine, rvec_by| Surroundings {
            dev: Path::new("/dev"),
            sys: Path::new("/sys"),
            virtual_machine,
            rvec_by,
        };
        assert_eq!(
            independence(&surroundings(false, Some("hpet"))).0,
            Some(false)
        );
        assert_eq!(independence(&surroundings(true, None)).0, Some(false));
        assert_eq!(independence(&surroundings(false, Some("acpi_pm"))).0, None);
    }

    proptest! {
        #[test]
        fn a_narrow_counter_is_carried_on(start in 0_u64..1 << 40, steps in prop::collection::vec(0_u64..1 << 32, 1..50)) {
            let (mut truth, mut last) = (start, start);
            for step in steps {
                truth += step;
                last = carried(last, truth & 0xffff_ffff);
                prop_assert_eq!(last, truth);
            }
        }
    }
}
