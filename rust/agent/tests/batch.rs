//! Batch files as programs: cmd.exe runs them, and what they are given is quoted for it.
#![cfg(windows)]

mod common;

use std::fs;
use std::path::PathBuf;

use common::{Agent, actor, json, scratch};

/// Hands on its arguments, and ends with 7.
fn batch(name: &str) -> PathBuf {
    let path = scratch("batch files").join(name);
    let program = actor(&[]);
    let program = program[0].as_str().expect("a path");
    let text = format!("@\"{program}\" arguments %*\r\n@exit /b 7\r\n");
    fs::write(&path, text).expect("written");
    path
}

#[test]
fn a_batch_file_gets_what_it_is_given_and_its_end_is_told() {
    let mut agent = Agent::serve();
    let words = [
        "a b",
        r"C:\dir\",
        "^&|<>",
        "\"quoted\"",
        "é",
        "& exit 99",
        "!x!",
    ];
    for name in ["one.bat", "two.CMD"] {
        let mut argv = vec![json!(batch(name))];
        argv.extend(words.map(|word| json!(word)));
        let run = agent.run(&json!({"op": "spawn", "id": 4, "argv": argv}));
        assert_eq!(run.text(), words.join("\n"));
        assert_eq!(run.exit["status"], 7);
    }
}

#[test]
fn what_a_batch_file_would_read_anew_is_refused() {
    let mut agent = Agent::serve();
    let path = batch("one.bat");
    for word in ["%PATH%", "100%", "a\nb", "a\r"] {
        for odd in ["", ".", " "] {
            let program = format!("{}{odd}", path.display());
            let request = json!({"op": "spawn", "id": 4, "argv": [program, word]});
            let answer = agent.ask(&request);
            assert_eq!(answer["code"], "bad-field", "{answer}");
            let message = answer["message"].as_str().expect("a message");
            assert!(message.contains("batch file"), "{message}");
        }
    }
    let argv = actor(&["arguments", "%PATH%"]);
    let run = agent.run(&json!({"op": "spawn", "id": 4, "argv": argv}));
    assert_eq!(run.text(), "%PATH%", "programs get it as it is");
}
