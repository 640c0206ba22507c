//! A controller for tests. It has its own idea of the frames, so that a mistake cannot be made
//! twice.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

pub use serde_json::{Value, json};

pub const AGENT: &str = env!("CARGO_BIN_EXE_ullage-agent");
pub const MAGIC: &[u8] = b"ULLAGE-AGENT 2\n";
pub const TOKEN: &str = "000102030405060708090a0b0c0d0e0f";
const PATIENCE: Duration = Duration::from_secs(60);
/// A path of this system's at which there is nothing.
pub const MISSING: &str = if cfg!(windows) {
    r"C:\no\such\file"
} else {
    "/no/such/file"
};

/// The arguments of a program that does one thing: `examples/actor.rs`.
pub fn actor(words: &[&str]) -> Value {
    let name = format!("examples/actor{}", std::env::consts::EXE_SUFFIX);
    let path = std::path::Path::new(AGENT).with_file_name(name);
    let path = path.to_str().expect("UTF-8").to_owned();
    json!([&[path.as_str()], words].concat())
}

/// One frame from the agent.
#[derive(Debug)]
pub enum Event {
    Json(Value),
    Raw { kind: u8, id: u32, bytes: Vec<u8> },
    Clock(Vec<u8>),
    End,
}

pub struct Agent {
    pub process: Option<Child>,
    pub to: Option<Box<dyn Write + Send>>,
    events: Receiver<Event>,
}

impl Agent {
    pub fn serve() -> Self {
        Self::start(["serve"])
    }

    pub fn start<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Self {
        Self::start_by(Command::new(AGENT).args(args))
    }

    /// By a command that becomes the agent.
    pub fn start_by(command: &mut Command) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the agent starts");
        let to = process.stdin.take().expect("stdin");
        let mut from = process.stdout.take().expect("stdout");
        let mut magic = [0; 15];
        from.read_exact(&mut magic).expect("the magic line");
        assert_eq!(magic, MAGIC);
        Self {
            process: Some(process),
            to: Some(Box::new(to)),
            events: listen(from),
        }
    }

    /// Speaks to an agent that somebody else has started, after its magic line.
    pub fn on(to: File, from: File) -> Self {
        Self {
            process: None,
            to: Some(Box::new(to)),
            events: listen(from),
        }
    }

    pub fn send(&mut self, value: &Value) {
        self.send_frame(0, value.to_string().as_bytes());
    }

    pub fn send_data(&mut self, id: u32, bytes: &[u8]) {
        self.send_frame(3, &[&id.to_be_bytes(), bytes].concat());
    }

    fn send_frame(&mut self, kind: u8, body: &[u8]) {
        self.send_bytes(&frame(kind, body));
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let to = self.to.as_mut().expect("open");
        to.write_all(bytes)
            .and_then(|()| to.flush())
            .expect("the agent reads");
    }

    pub fn next(&self) -> Event {
        self.events.recv_timeout(PATIENCE).expect("a frame in time")
    }

    /// The next frame, or None when there is none for a while.
    pub fn next_within(&self, patience: Duration) -> Option<Event> {
        match self.events.recv_timeout(patience) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Event::End),
        }
    }

    /// The next JSON frame that does not just give credit.
    pub fn answer(&self) -> Value {
        loop {
            match self.next() {
                Event::Json(value) if value["op"] == "credit" => {}
                Event::Json(value) => return value,
                other => panic!("an answer is wanted, not {other:?}"),
            }
        }
    }

    pub fn ask(&mut self, request: &Value) -> Value {
        self.send(request);
        self.answer()
    }

    /// The error code of the next answer.
    pub fn code(&self) -> String {
        let answer = self.answer();
        assert_eq!(answer["op"], "error", "{answer}");
        answer["code"].as_str().expect("a code").to_owned()
    }

    /// Runs a spawn to its end: stdout, stderr, `started` and `exit`.
    pub fn run(&mut self, request: &Value) -> Run {
        self.send(request);
        let mut run = Run::default();
        loop {
            match self.next() {
                Event::Json(value) if value["op"] == "started" => run.started = value,
                Event::Json(value) => {
                    run.exit = value;
                    return run;
                }
                Event::Raw { kind, bytes, .. } => {
                    self.send(&json!({"op": "credit", "bytes": bytes.len() + 4}));
                    if kind == 1 {
                        &mut run.stdout
                    } else {
                        &mut run.stderr
                    }
                    .extend(bytes);
                }
                other => panic!("a frame of a program is wanted, not {other:?}"),
            }
        }
    }

    pub fn shell(&mut self, id: u32, script: &str) -> Run {
        self.run(&json!({"op": "spawn", "id": id, "argv": ["sh", "-c", script]}))
    }

    pub fn hello(&mut self) -> Value {
        self.ask(&json!({"op": "hello", "id": 1, "version": 2, "token": TOKEN}))
    }

    pub fn ns(&mut self) -> u64 {
        let sample = self.ask(&json!({"op": "sample", "id": 2}));
        sample["ns"].as_u64().expect("ns")
    }

    /// Waits until the agent's output is closed.
    pub fn wait_for_end(&self) {
        while !matches!(self.next(), Event::End) {}
    }

    pub fn exit_code(&mut self) -> Option<i32> {
        self.process
            .as_mut()
            .expect("ours")
            .wait()
            .expect("wait")
            .code()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.to = None;
        if let Some(process) = &mut self.process {
            let _ = process.wait();
        }
    }
}

#[derive(Debug, Default)]
pub struct Run {
    pub started: Value,
    pub exit: Value,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Run {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("UTF-8")
    }
}

pub fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len())
        .expect("a short body")
        .to_be_bytes();
    [&[0xA1, 0x55, kind, 0][..], &length, body].concat()
}

fn listen(mut from: impl Read + Send + 'static) -> Receiver<Event> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        while let Ok(event) = read_event(&mut from) {
            if sender.send(event).is_err() {
                return;
            }
        }
        let _ = sender.send(Event::End);
    });
    receiver
}

pub fn read_event(from: &mut impl Read) -> io::Result<Event> {
    let mut header = [0; 8];
    from.read_exact(&mut header[..2])?;
    while header[..2] == MAGIC[..2] {
        from.read_exact(&mut [0; 13])?;
        from.read_exact(&mut header[..2])?;
    }
    from.read_exact(&mut header[2..])?;
    assert_eq!(header[..2], [0xA1, 0x55], "the agent's frames have a mark");
    assert_eq!(header[3], 0);
    let length = u32::from_be_bytes([header[4], header[5], header[6], header[7]]) as usize;
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    if header[2] == 0 {
        assert!(length <= 64 << 10);
        return Ok(Event::Json(serde_json::from_slice(&body).expect("JSON")));
    }
    if header[2] == 4 {
        return Ok(Event::Clock(body));
    }
    assert!(length <= 1 << 20);
    let bytes = body.split_off(4);
    let id = u32::from_be_bytes(body.try_into().expect("an id"));
    Ok(Event::Raw {
        kind: header[2],
        id,
        bytes,
    })
}

/// Is there such a process that has not ended?
#[cfg(windows)]
pub fn alive(pid: i32) -> bool {
    use windows_sys::Win32::Foundation::{CloseHandle, WAIT_TIMEOUT};
    use windows_sys::Win32::System::Threading::{
        OpenProcess, PROCESS_SYNCHRONIZE, WaitForSingleObject,
    };
    // SAFETY: touches no memory, and the handle is closed once.
    unsafe {
        let process = OpenProcess(PROCESS_SYNCHRONIZE, 0, pid.cast_unsigned());
        if process.is_null() {
            return false;
        }
        let state = WaitForSingleObject(process, 0);
        CloseHandle(process);
        state == WAIT_TIMEOUT
    }
}

/// Is there such a process, and is it more than a zombie?
#[cfg(unix)]
pub fn alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ")
        .next()
        .is_some_and(|state| !state.is_empty() && !state.starts_with(['Z', 'X']))
}

pub fn gone_within(pids: &[i32], patience: Duration) -> bool {
    let began = Instant::now();
    while pids.iter().any(|pid| alive(*pid)) {
        if began.elapsed() > patience {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

/// A directory of this test's own.
pub fn scratch(name: &str) -> std::path::PathBuf {
    // The compiler's host may have other paths than the tests'.
    let base = if cfg!(windows) {
        std::env::temp_dir()
    } else {
        env!("CARGO_TARGET_TMPDIR").into()
    };
    let path = base.join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a scratch directory");
    path
}
