//! The agent is killed at whatever instant: nobody of its programs stays. On Windows, where no supervisor
//! sees it.
#![cfg(windows)]

mod common;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use common::{Agent, Event, actor, json, scratch};
use windows_sys::Win32::Foundation::{CloseHandle, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
};
use windows_sys::Win32::System::Threading::{OpenProcess, PROCESS_TERMINATE, TerminateProcess};

const SOON: Duration = Duration::from_secs(10);

/// The program of the tests by a name that no other test's has.
fn named(name: &str) -> PathBuf {
    let place = scratch(name).join(format!("{name}-{}.exe", std::process::id()));
    let program = actor(&[]);
    fs::copy(program[0].as_str().expect("a path"), &place).expect("a copy");
    place
}

/// Who runs this program.
fn pids(program: &Path) -> Vec<u32> {
    let name = program.file_name().expect("a name").to_string_lossy();
    let mut pids = Vec::new();
    // SAFETY: zeros are a valid entry, as long as we say; the handle is closed once.
    unsafe {
        let snapshot = CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0);
        assert_ne!(snapshot, INVALID_HANDLE_VALUE);
        let mut entry: PROCESSENTRY32W = std::mem::zeroed();
        entry.dwSize = u32::try_from(size_of_val(&entry)).expect("a size");
        let mut more = Process32FirstW(snapshot, &raw mut entry);
        while more != 0 {
            let end = entry.szExeFile.iter().position(|unit| *unit == 0);
            let file = String::from_utf16_lossy(&entry.szExeFile[..end.unwrap_or(0)]);
            if file.eq_ignore_ascii_case(&name) {
                pids.push(entry.th32ProcessID);
            }
            more = Process32NextW(snapshot, &raw mut entry);
        }
        CloseHandle(snapshot);
    }
    pids
}

/// Who is still there is ended: it holds the output of this test, and who reads that would wait for ever.
fn left(program: &Path) -> usize {
    let began = Instant::now();
    while !pids(program).is_empty() && began.elapsed() < SOON {
        thread::sleep(Duration::from_millis(5));
    }
    let left = pids(program);
    for pid in &left {
        // SAFETY: touches no memory, and the handle is closed once.
        unsafe {
            let process = OpenProcess(PROCESS_TERMINATE, 0, *pid);
            TerminateProcess(process, 1);
            CloseHandle(process);
        }
    }
    left.len()
}

fn kill(mut agent: Agent) {
    let process = agent.process.as_mut().expect("ours");
    process.kill().expect("killed");
    process.wait().expect("ended");
}

/// The instants go over the making of the next programs: they are there, and not in their jobs yet.
#[test]
fn a_program_in_the_making_goes_too() {
    let program = named("making");
    for round in 0..8 {
        let mut agent = Agent::serve();
        for id in 4..7 {
            agent.send(&json!({"op": "spawn", "id": id, "argv": [program, "sleep"]}));
        }
        assert_eq!(agent.answer()["op"], "started");
        thread::sleep(Duration::from_millis(4 * round));
        kill(agent);
        assert_eq!(left(&program), 0, "round {round}");
    }
}

/// It starts another at once and has ended: who is left has no parent.
#[test]
fn what_a_program_bred_at_once_goes_too() {
    let program = named("bred");
    for id in 4..6 {
        let mut agent = Agent::serve();
        agent.send(&json!({"op": "spawn", "id": id, "argv": [program, "leave"]}));
        while !matches!(agent.next(), Event::Json(answer) if answer["op"] == "exit") {}
        assert_eq!(pids(&program).len(), 1);
        kill(agent);
        assert_eq!(left(&program), 0);
    }
}
