//! A set of cores, without an allocator.

use core::fmt;

/// No Linux on our targets numbers cores higher.
const MOST: usize = 8192;

/// Cores, by the kernel's number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CpuSet([u64; MOST / 64]);

impl CpuSet {
    /// No core.
    pub const EMPTY: Self = Self([0; MOST / 64]);

    /// Adds a core; a number that no kernel gives is left out.
    pub fn add(&mut self, cpu: u32) {
        if let Some(word) = self.0.get_mut(cpu as usize / 64) {
            *word |= 1 << (cpu % 64);
        }
    }

    /// Whether the core is in the set.
    #[must_use]
    pub fn has(&self, cpu: u32) -> bool {
        let word = self.0.get(cpu as usize / 64);
        word.is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    /// How many cores there are in it.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set()
            .entries((0..).take(MOST).filter(|cpu| self.has(*cpu)))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_kept() {
        let mut set = CpuSet::EMPTY;
        set.add(0);
        set.add(64);
        set.add(8191);
        set.add(u32::MAX);
        assert!(set.has(0) && set.has(64) && set.has(8191));
        assert!(!set.has(1) && !set.has(8192) && !set.has(u32::MAX));
        assert_eq!(set.count(), 3);
        assert_eq!(std::format!("{set:?}"), "{0, 64, 8191}");
    }
}
