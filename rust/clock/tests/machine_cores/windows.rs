//! The cores of this thread, by Windows.

use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetCurrentThread, GetProcessAffinityMask, SetThreadAffinityMask,
};

pub fn allowed() -> Vec<usize> {
    let (mut process, mut machine) = (0_usize, 0);
    // SAFETY: writes two masks.
    let done =
        unsafe { GetProcessAffinityMask(GetCurrentProcess(), &raw mut process, &raw mut machine) };
    assert_ne!(done, 0);
    (0..64).filter(|cpu| process >> cpu & 1 == 1).collect()
}

pub fn pin(cpu: usize) {
    // SAFETY: touches no memory.
    assert_ne!(
        unsafe { SetThreadAffinityMask(GetCurrentThread(), 1 << cpu) },
        0
    );
}
