//! The cores of this thread, by Linux.

pub fn allowed() -> Vec<usize> {
    // SAFETY: an array of bits, as long as we say.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(
            libc::sched_getaffinity(0, size_of_val(&set), &raw mut set),
            0
        );
        (0..1024)
            .filter(|cpu| libc::CPU_ISSET(*cpu, &set))
            .collect()
    }
}

pub fn pin(cpu: usize) {
    // SAFETY: as above.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(
            libc::sched_setaffinity(0, size_of_val(&set), &raw const set),
            0
        );
    }
}
