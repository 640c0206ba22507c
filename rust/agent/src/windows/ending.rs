//! The end of all that is below the agent, and of the agent.

use std::time::{Duration, Instant};

use windows_sys::Win32::System::Threading::ExitProcess;

use super::job;

/// What is killed is gone within milliseconds, unless it is stuck in the kernel.
pub const PATIENCE: Duration = Duration::from_secs(5);
pub const PAUSE: Duration = Duration::from_millis(2);

/// Kills every program, then exits. The channel stays open until nothing is left: a controller that
/// reads end of file knows that all is gone.
pub fn end(code: i32) -> ! {
    // What does not end in time ends with the agent's handles.
    let began = Instant::now();
    job::kill_all();
    while !job::all_gone() && began.elapsed() < PATIENCE {
        std::thread::sleep(PAUSE);
        // Again: who was in the making has its job since.
        job::kill_all();
    }
    // SAFETY: no destructor matters any more, and other threads may hold any lock.
    unsafe { ExitProcess(code.cast_unsigned()) }
}
