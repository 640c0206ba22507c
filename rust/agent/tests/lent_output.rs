//! The output of a program that has ended, in the hands of a process that is in no job of the agent's: here
//! the test itself, elsewhere a service.
#![cfg(windows)]

mod common;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::windows::io::FromRawHandle;
use std::ptr;
use std::time::Duration;

use common::{Agent, Event, actor, json, scratch};
use windows_sys::Win32::Foundation::{CloseHandle, DUPLICATE_SAME_ACCESS, DuplicateHandle};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcess, PROCESS_DUP_HANDLE};

const QUIET: Duration = Duration::from_millis(700);

/// A handle of another process, as one of ours.
fn taken(pid: u32, handle: usize) -> File {
    let mut ours = ptr::null_mut();
    // SAFETY: a number that is no handle is an error; what we get is ours alone.
    unsafe {
        let process = OpenProcess(PROCESS_DUP_HANDLE, 0, pid);
        let theirs = ptr::without_provenance_mut(handle);
        let (us, same) = (GetCurrentProcess(), DUPLICATE_SAME_ACCESS);
        let done = DuplicateHandle(process, theirs, us, &raw mut ours, 0, 0, same);
        assert_ne!(done, 0, "{}", io::Error::last_os_error());
        CloseHandle(process);
        File::from_raw_handle(ours)
    }
}

#[test]
fn a_handle_that_outlives_its_program_is_heard_until_the_end_is_told_and_no_longer() {
    let mut agent = Agent::serve();
    let until = scratch("lent").join("until");
    let argv = actor(&["lend", until.to_str().expect("UTF-8")]);
    agent.send(&json!({"op": "spawn", "id": 4, "argv": argv}));
    assert_eq!(agent.answer()["op"], "started");
    let Event::Raw { bytes, .. } = agent.next() else {
        panic!("a process and a handle")
    };
    let text = String::from_utf8(bytes).expect("UTF-8");
    let (pid, handle) = text.trim().split_once(' ').expect("two numbers");
    let mut output = taken(pid.parse().expect("pid"), handle.parse().expect("handle"));
    fs::write(until, "").expect("the program may end");
    output.write_all(b"heard").expect("somebody reads");
    let Event::Raw { bytes, .. } = agent.next() else {
        panic!("output is wanted")
    };
    assert_eq!(bytes, b"heard");
    let exit = agent.answer();
    assert_eq!((&exit["op"], &exit["status"]), (&json!("exit"), &json!(0)));
    // A second for what the program has started, half a one after that was killed.
    assert!(exit["held_ns"].as_u64() >= Some(1_500_000_000), "{exit}");
    let mut refused = || {
        let written = output.write_all(b"unheard");
        assert!(agent.next_within(QUIET).is_none(), "output after the end");
        written.is_err()
    };
    assert!((0..10).any(|_| refused()), "nobody listens any more");
    agent.ns();
}
