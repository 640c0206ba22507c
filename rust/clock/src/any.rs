//! The counter that was decided for.

use std::sync::Mutex;

use crate::{Counter, Pair, Raw, Reasons, Sample, Watch};

#[cfg(target_arch = "aarch64")]
pub type Native = crate::Cntvct;
#[cfg(target_arch = "x86_64")]
pub type Native = crate::Tsc;
/// No counter of its own.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub type Native = Raw;

#[derive(Debug)]
pub struct Any {
    /// None for the kernel's clock.
    native: Option<Native>,
    /// Says each thing once. Tried, never waited for: whoever has it looks for all.
    watch: Mutex<Watch>,
}

impl Any {
    pub fn new(native: Option<Native>) -> Self {
        Self {
            native,
            watch: Mutex::new(Watch::new()),
        }
    }

    #[cfg(test)]
    pub fn watch(&self) -> std::sync::MutexGuard<'_, Watch> {
        self.watch.lock().expect("nobody panicked")
    }
}

impl Counter for Any {
    #[inline]
    fn read(&self) -> Sample {
        match &self.native {
            Some(counter) => counter.read(),
            None => Raw.read(),
        }
    }

    #[inline]
    fn read_ordered(&self) -> Sample {
        match &self.native {
            Some(counter) => counter.read_ordered(),
            None => Raw.read_ordered(),
        }
    }

    fn bridge_ns(&self) -> u64 {
        Raw::ns()
    }

    fn paired(&self) -> bool {
        self.native.as_ref().is_none_or(Counter::paired)
    }

    fn pair(&self) -> Pair {
        match &self.native {
            Some(counter) => counter.pair(),
            None => Raw.pair(),
        }
    }

    fn news(&self) -> Reasons {
        let Ok(mut watch) = self.watch.try_lock() else {
            return Reasons::NONE;
        };
        let news = watch.glance();
        if !news.is_empty() {
            watch.renew();
        }
        news
    }
}
