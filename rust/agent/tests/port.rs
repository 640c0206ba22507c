//! The agent on a port, as Windows has one: here a named pipe, which is one file for both directions too.
#![cfg(windows)]

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::os::windows::io::FromRawHandle;
use std::process::{Command, Stdio};
use std::ptr;

use common::{AGENT, Event, MAGIC, TOKEN, Value, frame, json, read_event};
use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
use windows_sys::Win32::Storage::FileSystem::PIPE_ACCESS_DUPLEX;
use windows_sys::Win32::System::Pipes::{ConnectNamedPipe, CreateNamedPipeW};

/// The other end of a new pipe.
fn pipe(name: &str) -> File {
    let name: Vec<u16> = name.encode_utf16().chain([0]).collect();
    // SAFETY: the name ends with a NUL; the handle is ours.
    unsafe {
        let handle = CreateNamedPipeW(
            name.as_ptr(),
            PIPE_ACCESS_DUPLEX,
            0,
            1,
            1 << 16,
            1 << 16,
            0,
            ptr::null(),
        );
        assert_ne!(handle, INVALID_HANDLE_VALUE);
        File::from_raw_handle(handle)
    }
}

fn wait_for_a_client(file: &File) {
    use std::os::windows::io::AsRawHandle;
    // SAFETY: an open pipe. It fails where the client was first.
    unsafe { ConnectNamedPipe(file.as_raw_handle(), ptr::null_mut()) };
}

#[test]
fn a_port_calls_out_and_carries_both_directions_at_once() {
    let name = format!(r"\\.\pipe\ullage-agent-{}", std::process::id());
    let mut master = pipe(&name);
    let mut process = Command::new(AGENT)
        .args(["serve", "--device", &name])
        .stdin(Stdio::null())
        .spawn()
        .expect("the agent starts");
    wait_for_a_client(&master);
    for _ in 0..3 {
        let mut magic = [0; 15];
        master.read_exact(&mut magic).expect("the magic line");
        assert_eq!(magic, MAGIC);
    }
    // One call after the other at this end, which is a plain handle; the agent waits for us meanwhile.
    let hello = json!({"op": "hello", "id": 1, "version": 2, "token": TOKEN});
    assert_eq!(ask(&mut master, &hello)["op"], "hello");
    for id in 2..20 {
        let answer = ask(&mut master, &json!({"op": "sample", "id": id}));
        assert_eq!(answer["op"], "sample", "{answer}");
    }
    assert_eq!(
        ask(&mut master, &json!({"op": "bye", "id": 20}))["op"],
        "done"
    );
    assert!(process.wait().expect("wait").success());
}

/// The answer, after what the agent has called out meanwhile.
fn ask(master: &mut File, request: &Value) -> Value {
    let bytes = frame(0, request.to_string().as_bytes());
    master.write_all(&bytes).expect("the agent reads");
    loop {
        match read_event(master).expect("a frame") {
            Event::Json(answer) if answer["op"] == "credit" => {}
            Event::Json(answer) => return answer,
            other => panic!("an answer is wanted, not {other:?}"),
        }
    }
}

#[test]
fn a_missing_port_is_named() {
    let output = Command::new(AGENT)
        .args(["serve", "--device", r"\\.\Global\ullage.agent"])
        .output()
        .expect("output");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.starts_with(r"ullage-agent: cannot open \\.\Global\ullage.agent: "),
        "{text}"
    );
}
