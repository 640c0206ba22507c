//! A container's PID 1: reaps what comes to it and waits to be told to end.

use libc::c_int;

/// Ends with SIGTERM or SIGINT.
pub fn pause() -> ! {
    // SAFETY: sigemptyset makes the set valid; wait needs no details.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGCHLD] {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        loop {
            let mut signal: c_int = 0;
            libc::sigwait(&raw const set, &raw mut signal);
            while libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) > 0 {}
            if signal == libc::SIGTERM || signal == libc::SIGINT {
                std::process::exit(0);
            }
        }
    }
}
