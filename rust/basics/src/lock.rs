//! The lock that programs get from this system, whose price is part of what `threads` and `mutex` measure:
//! sysbench's mutex of POSIX threads, on Windows a slim lock (`SRWLOCK`), as there are no POSIX threads. Rust's
//! own lock is its own work on both, and so no part of either system.

#[cfg(unix)]
mod system {
    use std::cell::UnsafeCell;

    pub struct Lock(UnsafeCell<libc::pthread_mutex_t>);

    // SAFETY: a mutex is there to be used by many threads; it stays where it is.
    unsafe impl Sync for Lock {}

    impl Default for Lock {
        fn default() -> Self {
            Self(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
        }
    }

    impl Lock {
        pub fn hold<T>(&self, work: impl FnOnce() -> T) -> T {
            // SAFETY: it is initialised, and who holds it gives it back here: a panic ends the program.
            unsafe { libc::pthread_mutex_lock(self.0.get()) };
            let result = work();
            // SAFETY: as above.
            unsafe { libc::pthread_mutex_unlock(self.0.get()) };
            result
        }
    }
}

#[cfg(windows)]
mod system {
    use std::cell::UnsafeCell;

    use windows_sys::Win32::System::Threading::{
        AcquireSRWLockExclusive, ReleaseSRWLockExclusive, SRWLOCK, SRWLOCK_INIT,
    };

    pub struct Lock(UnsafeCell<SRWLOCK>);

    // SAFETY: a lock is there to be used by many threads; it stays where it is.
    unsafe impl Sync for Lock {}

    impl Default for Lock {
        fn default() -> Self {
            Self(UnsafeCell::new(SRWLOCK_INIT))
        }
    }

    impl Lock {
        pub fn hold<T>(&self, work: impl FnOnce() -> T) -> T {
            // SAFETY: it is initialised, and who holds it gives it back here: a panic ends the program.
            unsafe { AcquireSRWLockExclusive(self.0.get()) };
            let result = work();
            // SAFETY: as above.
            unsafe { ReleaseSRWLockExclusive(self.0.get()) };
            result
        }
    }
}

pub use system::Lock;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn one_holds_it_at_a_time() {
        let (lock, count) = (Lock::default(), AtomicU32::new(0));
        let add = || {
            for _ in 0..1000 {
                lock.hold(|| {
                    let before = count.load(Ordering::Relaxed);
                    std::thread::yield_now();
                    count.store(before + 1, Ordering::Relaxed);
                });
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(add);
            scope.spawn(add);
        });
        assert_eq!(count.into_inner(), 2000);
    }
}
