//! Programs as every system runs them: their start, their output, their end.

mod common;

use std::time::{Duration, Instant};

use common::{Agent, Event, actor, json};

/// What an agent may send before it is given more.
const CREDIT: usize = 1 << 20;
/// No output for so long where credit is left: there is none.
const QUIET: Duration = Duration::from_millis(700);

#[test]
fn a_program_runs_and_its_end_is_told() {
    let mut agent = Agent::serve();
    let run = agent.run(&json!({"op": "spawn", "id": 4, "argv": actor(&["both"])}));
    assert_eq!(
        (run.text(), run.stderr.trim_ascii_end()),
        ("hi\n", &b"oops"[..])
    );
    assert_eq!(
        (&run.exit["status"], &run.exit["signal"]),
        (&json!(3), &json!(null))
    );
    assert_eq!(run.started["start_ns"], run.exit["start_ns"]);
    assert!(run.exit["end_ns"].as_u64() > run.exit["start_ns"].as_u64());
    let usage = run.exit["rusage"].as_object().expect("rusage");
    assert!(
        usage.values().all(serde_json::Value::is_u64),
        "what is not counted is absent: {usage:?}"
    );
}

#[test]
fn exit_codes_are_told_whole() {
    let mut agent = Agent::serve();
    // Linux has eight bits of them.
    let codes: &[u64] = if cfg!(windows) {
        &[0, 255, 3_221_225_477]
    } else {
        &[0, 255]
    };
    for code in codes {
        let word = i32::from_ne_bytes(u32::try_from(*code).expect("32 bits").to_ne_bytes());
        let argv = actor(&["exit", &word.to_string()]);
        let run = agent.run(&json!({"op": "spawn", "id": 4, "argv": argv}));
        assert_eq!(run.exit["status"], *code);
    }
}

#[test]
fn arguments_environment_and_directory_arrive() {
    let mut agent = Agent::serve();
    let odd = [
        "a b",
        "",
        "\"quoted\"",
        r"C:\dir\",
        r#"a\\"b"#,
        "é ü 漢",
        "%PATH%",
        "^&|<>",
    ];
    let mut words = vec!["arguments"];
    words.extend(odd);
    let run = agent.run(&json!({"op": "spawn", "id": 4, "argv": actor(&words)}));
    assert_eq!(run.text(), odd.join("\n"));
    let argv = actor(&["variable", "COLOUR"]);
    let env = json!({"COLOUR": "dark blue"});
    let run = agent.run(&json!({"op": "spawn", "id": 4, "argv": argv, "env": env}));
    assert_eq!(run.text(), "dark blue");
    let directory = common::scratch("directory");
    let argv = actor(&["directory"]);
    let run = agent.run(&json!({"op": "spawn", "id": 4, "argv": argv, "cwd": directory}));
    assert_eq!(
        run.text().to_lowercase(),
        directory.display().to_string().to_lowercase()
    );
}

#[test]
fn what_keeps_a_program_from_starting_is_named() {
    let mut agent = Agent::serve();
    let absent = common::scratch("absent").join("program");
    let answer = agent.ask(&json!({"op": "spawn", "id": 4, "argv": [absent]}));
    assert_eq!(answer["code"], "exec-failed");
    let message = answer["message"].as_str().expect("a message");
    assert!(message.contains(": exec: "), "{message}");
    let request = json!({"op": "spawn", "id": 4, "argv": actor(&["nothing"]), "cwd": absent});
    let answer = agent.ask(&request);
    let message = answer["message"].as_str().expect("a message");
    assert!(message.contains(": cwd: "), "{message}");
    agent.ns();
}

#[test]
fn a_program_starts_not_before_its_instant() {
    let mut agent = Agent::serve();
    for past in [false, true] {
        let now = agent.ns();
        let at_ns = if past {
            now - 1_000_000_000
        } else {
            now + 300_000_000
        };
        let argv = actor(&["nothing"]);
        let run = agent.run(&json!({"op": "spawn", "id": 4, "argv": argv, "at_ns": at_ns}));
        let late_ns = run.started["late_ns"].as_u64().expect("late");
        assert_eq!(run.started["start_ns"], at_ns + late_ns);
        assert!(late_ns >= if past { 1_000_000_000 } else { 0 });
    }
}

#[test]
fn killed_before_its_start() {
    let mut agent = Agent::serve();
    let at_ns = agent.ns() + 3_600_000_000_000;
    let argv = actor(&["nothing"]);
    agent.send(&json!({"op": "spawn", "id": 4, "argv": argv, "at_ns": at_ns}));
    agent.send(&json!({"op": "kill", "id": 5, "target": 4, "signal": 15}));
    let answers = [agent.answer(), agent.answer()];
    let error = answers.iter().find(|answer| answer["op"] == "error");
    let error = error.expect("error");
    assert_eq!(
        (&error["id"], &error["code"]),
        (&json!(4), &json!("exec-failed"))
    );
    let message = error["message"].as_str().expect("a message");
    assert!(
        message.ends_with("it was killed before its start"),
        "{message}"
    );
}

#[test]
fn kill_and_the_end_of_its_time_are_told() {
    let mut agent = Agent::serve();
    let argv = actor(&["sleep"]);
    agent.send(&json!({"op": "spawn", "id": 4, "argv": argv}));
    assert_eq!(agent.answer()["op"], "started");
    let wrong = agent.ask(&json!({"op": "kill", "id": 5, "target": 4, "signal": 99}));
    assert_eq!(wrong["code"], "bad-field");
    agent.send(&json!({"op": "kill", "id": 5, "target": 4, "signal": 15}));
    let answers = [agent.answer(), agent.answer()];
    let exit = answers.iter().find(|answer| answer["op"] == "exit");
    let exit = exit.expect("exit");
    assert_eq!(
        (&exit["status"], &exit["signal"]),
        (&json!(null), &json!(15))
    );
    let request = json!({"op": "spawn", "id": 4, "argv": argv, "timeout_ns": 130_000_000});
    let run = agent.run(&request);
    assert_eq!(
        (&run.exit["timed_out"], &run.exit["signal"]),
        (&json!(true), &json!(9))
    );
}

/// Signals 19 and 18, by Linux's numbers: freeze and thaw.
#[test]
fn what_is_stopped_says_nothing_until_it_goes_on() {
    let mut agent = Agent::serve();
    agent.send(&json!({"op": "spawn", "id": 4, "argv": actor(&["count"])}));
    assert_eq!(agent.answer()["op"], "started");
    assert!(matches!(agent.next(), Event::Raw { .. }));
    agent.send(&json!({"op": "kill", "id": 5, "target": 4, "signal": 19}));
    while !matches!(agent.next(), Event::Json(answer) if answer["op"] == "done") {}
    while agent.next_within(QUIET).is_some() {}
    agent.send(&json!({"op": "kill", "id": 6, "target": 4, "signal": 18}));
    let (mut is_done, mut goes_on) = (false, false);
    while !(is_done && goes_on) {
        match agent.next() {
            Event::Json(answer) => is_done |= answer["op"] == "done",
            Event::Raw { .. } => goes_on = true,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_breeds_is_stopped_with_all_that_it_has_started() {
    let mut agent = Agent::serve();
    agent.send(&json!({"op": "spawn", "id": 4, "argv": actor(&["breed"])}));
    assert_eq!(agent.answer()["op"], "started");
    for id in (5..15).step_by(2) {
        while !matches!(agent.next(), Event::Raw { .. }) {}
        agent.send(&json!({"op": "kill", "id": id, "target": 4, "signal": 19}));
        while !matches!(agent.next(), Event::Json(answer) if answer["op"] == "done") {}
        // What it had written before.
        while agent.next_within(QUIET / 2).is_some() {}
        assert!(agent.next_within(QUIET).is_none(), "somebody runs on");
        agent.send(&json!({"op": "kill", "id": id + 1, "target": 4, "signal": 18}));
        while !matches!(agent.next(), Event::Json(answer) if answer["op"] == "done") {}
    }
}

/// Nor does it start what waits for its instant.
#[test]
fn to_go_on_is_nothing_to_what_was_not_stopped() {
    let mut agent = Agent::serve();
    let at_ns = agent.ns() + 1_500_000_000;
    let argv = actor(&["nothing"]);
    agent.send(&json!({"op": "spawn", "id": 4, "argv": argv, "at_ns": at_ns}));
    let go_on = json!({"op": "kill", "id": 5, "target": 4, "signal": 18});
    assert_eq!(agent.ask(&go_on)["op"], "done");
    // What had ended by then was "killed before its start".
    assert_eq!(agent.answer()["op"], "started");
}

#[test]
fn a_second_stop_is_none_and_one_signal_lets_it_go_on() {
    let mut agent = Agent::serve();
    agent.send(&json!({"op": "spawn", "id": 4, "argv": actor(&["count"])}));
    assert_eq!(agent.answer()["op"], "started");
    for id in [5, 6] {
        agent.send(&json!({"op": "kill", "id": id, "target": 4, "signal": 19}));
        while !matches!(agent.next(), Event::Json(answer) if answer["op"] == "done") {}
    }
    while agent.next_within(QUIET).is_some() {}
    agent.send(&json!({"op": "kill", "id": 7, "target": 4, "signal": 18}));
    while !matches!(agent.next(), Event::Raw { .. }) {}
}

/// It has as many pipes as one that was started without an agent between.
#[test]
#[cfg(windows)]
fn a_program_inherits_nothing_of_the_channel() {
    let argv = actor(&["pipes"]);
    let program = argv[0].as_str().expect("a path");
    let mut alone = std::process::Command::new(program);
    let alone = alone.arg("pipes").output().expect("output").stdout;
    let mut agent = Agent::serve();
    let run = agent.run(&json!({"op": "spawn", "id": 4, "argv": argv}));
    assert_eq!(run.text().as_bytes(), alone);
}

#[test]
fn a_long_output_waits_for_credit_and_arrives_whole() {
    const TOTAL: usize = 8 << 20;
    let mut agent = Agent::serve();
    let argv = actor(&["flood", &TOTAL.to_string()]);
    agent.send(&json!({"op": "spawn", "id": 4, "argv": argv}));
    assert_eq!(agent.answer()["op"], "started");
    let (mut output, mut held) = (Vec::with_capacity(TOTAL), 0);
    while held < CREDIT - 8 {
        let Event::Raw { bytes, .. } = agent.next() else {
            panic!("output is wanted")
        };
        held += bytes.len() + 4;
        output.extend(bytes);
    }
    assert!(
        agent.next_within(QUIET).is_none(),
        "nothing comes without credit"
    );
    loop {
        agent.send(&json!({"op": "credit", "bytes": held}));
        held = 0;
        match agent.next() {
            Event::Raw {
                kind: 1,
                id: 4,
                bytes,
            } => {
                held += bytes.len() + 4;
                output.extend(bytes);
            }
            Event::Json(exit) => break assert_eq!(exit["status"], 0),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(output.len(), TOTAL);
    let expected = b"ullage-agent\n".iter().cycle();
    assert!(
        output
            .iter()
            .zip(expected)
            .all(|(byte, expected)| byte == expected)
    );
}

#[test]
fn who_is_left_behind_with_the_output_is_killed_after_the_grace() {
    let mut agent = Agent::serve();
    let began = Instant::now();
    let run = agent.run(&json!({"op": "spawn", "id": 4, "argv": actor(&["hold"])}));
    assert_eq!(run.exit["status"], 0);
    assert!(began.elapsed() > Duration::from_millis(900));
    assert!(
        run.exit["held_ns"].as_u64() > Some(900_000_000),
        "{}",
        run.exit
    );
    let ran_ns =
        run.exit["end_ns"].as_u64().expect("end") - run.exit["start_ns"].as_u64().expect("start");
    assert!(
        ran_ns < 20_000_000_000,
        "the end is the program's own: {ran_ns}"
    );
}

#[test]
fn what_is_left_behind_says_is_heard_until_the_end_is_told_and_no_longer() {
    let mut agent = Agent::serve();
    let argv = actor(&["hold-and-count"]);
    let run = agent.run(&json!({"op": "spawn", "id": 4, "argv": argv}));
    assert_eq!(run.exit["status"], 0);
    assert!(run.text().contains("tick\ntick\n"), "{}", run.text());
    assert!(agent.next_within(QUIET).is_none());
}

#[test]
fn who_is_left_behind_is_swept() {
    let mut agent = Agent::serve();
    let run = agent.run(&json!({"op": "spawn", "id": 4, "argv": actor(&["leave"])}));
    assert_eq!(run.exit["status"], 0);
    let sweep = json!({"op": "sweep", "id": 5});
    assert_eq!(agent.ask(&sweep)["killed"], 1);
    assert_eq!(agent.ask(&sweep)["killed"], 0);
}

#[test]
fn many_at_once() {
    let mut agent = Agent::serve();
    let at_ns = agent.ns() + 500_000_000;
    for id in 100..112 {
        let argv = actor(&["exit", &(id - 100).to_string()]);
        agent.send(&json!({"op": "spawn", "id": id, "argv": argv, "at_ns": at_ns}));
    }
    let mut exits = 0;
    while exits < 12 {
        let answer = agent.answer();
        if answer["op"] == "exit" {
            assert_eq!(answer["status"], answer["id"].as_u64().expect("id") - 100);
            exits += 1;
        }
    }
}

/// Bytes are handed on as they are: what they mean is the reader's affair.
#[test]
fn output_in_utf16_is_handed_on_byte_by_byte() {
    let mut agent = Agent::serve();
    let run = agent.run(&json!({"op": "spawn", "id": 4, "argv": actor(&["utf16"])}));
    assert_eq!(run.stdout, b"\xE9\0\r\0\n\0");
}

#[test]
fn every_byte_of_a_code_page_is_handed_on() {
    let mut agent = Agent::serve();
    let run = agent.run(&json!({"op": "spawn", "id": 4, "argv": actor(&["bytes"])}));
    assert!(run.stdout.into_iter().eq(0..=u8::MAX));
}

/// What Windows' own programs print is in their console's code page.
#[test]
#[cfg(windows)]
fn a_code_page_comes_as_it_does_without_an_agent() {
    use std::os::windows::process::CommandExt;
    use windows_sys::Win32::System::Threading::CREATE_NO_WINDOW;

    let argv = ["cmd", "/d", "/c", "echo Größe"];
    let mut alone = std::process::Command::new(argv[0]);
    let alone = alone.args(&argv[1..]).creation_flags(CREATE_NO_WINDOW);
    let alone = alone.output().expect("output").stdout;
    let text = std::str::from_utf8(&alone);
    assert!(alone.ends_with(b"\r\n") && text.is_err(), "{alone:?}");
    let run = Agent::serve().run(&json!({"op": "spawn", "id": 4, "argv": argv}));
    assert_eq!(run.stdout, alone);
}

#[test]
fn the_end_of_the_agent_is_the_end_of_its_programs() {
    let mut agent = Agent::serve();
    let pid = sleeping(&mut agent);
    assert!(common::alive(pid));
    agent.to = None;
    agent.wait_for_end();
    assert!(!common::alive(pid), "before the channel closes");
    assert_eq!(agent.exit_code(), Some(0));
}

/// On Windows by `TerminateProcess`: nothing of the agent runs any more.
#[test]
fn so_is_its_violent_end() {
    let mut agent = Agent::serve();
    let pid = sleeping(&mut agent);
    assert!(common::alive(pid));
    let process = agent.process.as_mut().expect("ours");
    process.kill().expect("killed");
    process.wait().expect("ended");
    assert!(common::gone_within(&[pid], Duration::from_secs(10)));
}

/// The process of a program that would stay for long, and writes nothing.
fn sleeping(agent: &mut Agent) -> i32 {
    let started = agent.ask(&json!({"op": "spawn", "id": 4, "argv": actor(&["sleep"])}));
    let pid = started["pid"].as_i64().expect("a pid");
    i32::try_from(pid).expect("32 bits")
}

/// No box with a message waits for somebody who clicks. Wine hands no such mode on.
#[test]
#[cfg(windows)]
fn programs_inherit_how_the_agent_meets_errors() {
    let mut agent = Agent::serve();
    let wine = agent.hello().to_string().contains("Wine");
    let run = agent.run(&json!({"op": "spawn", "id": 4, "argv": actor(&["error-mode"])}));
    assert_eq!(run.text(), if wine { "0x0" } else { "0x8003" });
}
