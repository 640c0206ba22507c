//! The supervisor: the agent's parent process, which does nothing but wait for the agent's death.
//!
//! A parent-death signal reaches the agent's direct children only. Their children, however they
//! have detached themselves, come to the nearest subreaper: to the worker while it lives, to the
//! supervisor after. So whichever of the two is killed, the other one cleans up. The supervisor
//! holds the output channel open until nothing is left: a controller that reads end of file knows
//! that all is gone.

use std::io;
use std::os::fd::OwnedFd;

use libc::{c_int, pid_t};

use super::{descendants, sys};
use crate::shutdown;

/// Splits into supervisor and worker. Returns in the worker, with the line that breaks when the
/// supervisor dies.
pub fn split() -> io::Result<OwnedFd> {
    sys::become_subreaper()?;
    let (line, far_end) = sys::pipe()?;
    let watched = watched_signals();
    // SAFETY: one thread only, so the child may go on as if nothing had happened.
    let worker = unsafe {
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        sys::check(libc::sigprocmask(
            libc::SIG_BLOCK,
            &raw const watched,
            std::ptr::null_mut(),
        ))?;
        sys::check(libc::fork())?
    };
    if worker > 0 {
        drop(line);
        keep(worker, far_end, &watched);
    }
    drop(far_end);
    // SAFETY: the set is valid.
    sys::check(unsafe {
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const watched, std::ptr::null_mut())
    })?;
    sys::become_subreaper()?;
    Ok(line)
}

/// In the worker: ends everything when the supervisor dies.
pub fn watch(line: OwnedFd) -> io::Result<()> {
    sys::start_thread("supervised", move || {
        let _ = sys::read(&line, &mut [0]);
        shutdown::end(1, Some("the supervisor died"));
    })
}

/// Ctrl-C is not among them: in a terminal it reaches the whole job, and tearing down is the
/// controller's.
fn watched_signals() -> libc::sigset_t {
    // SAFETY: sigemptyset makes the set valid.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGCHLD, libc::SIGTERM, libc::SIGHUP] {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    }
}

fn keep(worker: pid_t, line: OwnedFd, watched: &libc::sigset_t) -> ! {
    // The name by which it is known on hosts: no more than 15 bytes fit.
    // SAFETY: a NUL-terminated name.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"ullage-keeper".as_ptr()) };
    // The controller's end must see the worker alone reading.
    let _ = sys::detach_stdin();
    let code = loop {
        // SAFETY: the set is valid, and no details are asked for.
        let signal = unsafe { libc::sigwaitinfo(watched, std::ptr::null_mut()) };
        if matches!(signal, libc::SIGTERM | libc::SIGHUP) {
            let _ = sys::kill(worker, libc::SIGKILL);
        }
        if let Some(status) = reap_until(worker) {
            break exit_code(status);
        }
    };
    descendants::kill_all(None, || {
        reap_until(0);
    });
    drop(line);
    std::process::exit(code);
}

/// Reaps whoever has ended; the status of `sought` when it is among them.
fn reap_until(sought: pid_t) -> Option<c_int> {
    loop {
        let mut status = 0;
        // SAFETY: the status is ours.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
        if pid <= 0 {
            return None;
        }
        if pid == sought {
            return Some(status);
        }
    }
}

fn exit_code(status: c_int) -> i32 {
    if libc::WIFEXITED(status) {
        return libc::WEXITSTATUS(status);
    }
    let signal = libc::WTERMSIG(status);
    ullage_common::say(&format!(
        "ullage-agent: the worker was killed by signal {signal}"
    ));
    128 + signal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_become_exit_codes() {
        assert_eq!(exit_code(3 << 8), 3);
        assert_eq!(exit_code(libc::SIGKILL), 137);
    }
}
