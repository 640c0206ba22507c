//! vmclock: a page that the hypervisor shares with its guest, whose disruption marker changes when
//! the guest was moved or restored (`include/uapi/linux/vmclock-abi.h`).

use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::sys;

pub const PATH: &str = "/dev/vmclock0";
/// "VCLK".
const MAGIC: u32 = 0x4b4c_4356;
/// The part of the page that we read, which is as long as the structure of version 1.
const LENGTH: usize = 112;
const SEQUENCE: usize = 12;
const MARKER: usize = 16;
const FLAGS: usize = 24;
const GENERATION: usize = 104;
/// `VMCLOCK_FLAG_VM_GEN_COUNTER_PRESENT`.
const HAS_GENERATION: u64 = 1 << 8;
/// An update takes the hypervisor a few instructions.
const TRIES: u32 = 1_000_000;

/// The page, mapped read-only.
#[derive(Debug)]
pub struct VmClock {
    page: NonNull<u8>,
}

// SAFETY: the page is only ever read, by atomic loads.
unsafe impl Send for VmClock {}
// SAFETY: as above.
unsafe impl Sync for VmClock {}

/// What changes when the machine was moved, and never comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    disruption: u64,
    generation: u64,
}

impl VmClock {
    /// Maps the page.
    ///
    /// # Errors
    /// When there is no such file, it may not be read (root's, on most systems) or mapped, or is
    /// something else.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let page = sys::map(&file, LENGTH)?;
        let clock = Self { page };
        if clock.word(0) == MAGIC && clock.word(4) as usize >= LENGTH {
            Ok(clock)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidData, "not a vmclock"))
        }
    }

    /// The marker now; none while the hypervisor never ends its update.
    #[must_use]
    pub fn marker(&self) -> Option<Marker> {
        for _ in 0..TRIES {
            let before = self.word(SEQUENCE);
            fence(Ordering::Acquire);
            let disruption = self.long(MARKER);
            let has_generation = self.long(FLAGS) & HAS_GENERATION != 0;
            let generation = if has_generation {
                self.long(GENERATION)
            } else {
                0
            };
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.word(SEQUENCE) == before {
                return Some(Marker {
                    disruption,
                    generation,
                });
            }
            core::hint::spin_loop();
        }
        None
    }

    fn word(&self, at: usize) -> u32 {
        debug_assert!(at + 4 <= LENGTH && at.is_multiple_of(4));
        // SAFETY: within the page and aligned.
        let word = unsafe { AtomicU32::from_ptr(self.page.as_ptr().add(at).cast()) };
        u32::from_le(word.load(Ordering::Relaxed))
    }

    fn long(&self, at: usize) -> u64 {
        debug_assert!(at + 8 <= LENGTH && at.is_multiple_of(8));
        // SAFETY: within the page and aligned.
        let long = unsafe { AtomicU64::from_ptr(self.page.as_ptr().add(at).cast()) };
        u64::from_le(long.load(Ordering::Relaxed))
    }
}

impl Drop for VmClock {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nobody uses any more.
        unsafe { sys::unmap(self.page, LENGTH) };
    }
}

#[cfg(all(test, unix))]
pub mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use std::path::PathBuf;

    /// A page as a hypervisor would show it; to be removed by whoever made it.
    pub fn page(name: &str) -> (PathBuf, File) {
        let path = std::env::temp_dir().join(std::format!("{name}-{}", std::process::id()));
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.open(&path).expect("open");
        let mut bytes = [0; 4096];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&4096_u32.to_le_bytes());
        file.write_all_at(&bytes, 0).expect("write");
        (path, file)
    }

    pub fn disrupt(file: &File) {
        file.write_all_at(&7_u64.to_le_bytes(), MARKER as u64)
            .expect("write");
    }

    #[test]
    fn a_move_is_noticed() {
        let (path, file) = page("vmclock-move");
        let clock = VmClock::open(&path).expect("open");
        let before = clock.marker().expect("marker");
        assert_eq!(clock.marker(), Some(before));
        // A generation that the flags do not announce is noise.
        file.write_all_at(&3_u64.to_le_bytes(), GENERATION as u64)
            .expect("write");
        assert_eq!(clock.marker(), Some(before));
        disrupt(&file);
        let moved = clock.marker().expect("marker");
        assert_ne!(moved, before);
        file.write_all_at(&HAS_GENERATION.to_le_bytes(), FLAGS as u64)
            .expect("write");
        assert_ne!(clock.marker(), Some(moved));
        file.write_all_at(&1_u32.to_le_bytes(), SEQUENCE as u64)
            .expect("write");
        assert_eq!(clock.marker(), None);
        std::fs::remove_file(path).expect("remove");
    }

    #[test]
    fn something_else_is_refused() {
        let (path, file) = page("vmclock-else");
        file.write_all_at(b"VCLX", 0).expect("write");
        let error = VmClock::open(&path).expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        std::fs::remove_file(&path).expect("remove");
        assert!(VmClock::open(&path).is_err());
    }
}
