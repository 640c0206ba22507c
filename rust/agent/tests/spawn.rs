//! Programs: their start, their output, their end.
#![cfg(unix)]

mod common;

use std::time::{Duration, Instant};

use common::{Agent, Event, json};

/// What an agent may send before it is given more.
const CREDIT: usize = 1 << 20;

/// How long to wait for more output: silence means something only where the credit is used up.
fn while_credit_lasts(held: usize) -> Duration {
    Duration::from_millis(if held > CREDIT - 8 { 300 } else { 30_000 })
}

#[test]
fn output_and_exit_status() {
    let mut agent = Agent::serve();
    let run = agent.shell(4, "echo hi; echo oops >&2; exit 3");
    assert_eq!(
        (run.text(), run.stderr.as_slice()),
        ("hi\n", &b"oops\n"[..])
    );
    assert_eq!(
        (&run.exit["op"], &run.exit["status"]),
        (&json!("exit"), &json!(3))
    );
    assert_eq!(
        (&run.exit["signal"], &run.exit["timed_out"]),
        (&json!(null), &json!(false))
    );
    assert_eq!(run.started["start_ns"], run.exit["start_ns"]);
    assert!(run.exit["end_ns"].as_u64() > run.exit["start_ns"].as_u64());
    assert_eq!(run.started["late_ns"], 0);
    assert_eq!(
        run.exit["rusage"].as_object().map(serde_json::Map::len),
        Some(9)
    );
    assert!(run.exit["rusage"]["max_rss_bytes"].as_u64() > Some(100_000));
}

#[test]
fn a_program_starts_clean() {
    let mut agent = Agent::serve();
    let script = "cat; pwd; umask; env | sort; ls /proc/self/fd; \
        ulimit -n; ps -o sid= -p $$; echo $$";
    let request = json!({"op": "spawn", "id": 4, "argv": ["sh", "-c", script], "cwd": "/usr",
        "env": {"COLOUR": "blue", "LANG": "C"}, "limits": {"nofile": 77}, "stdin": "null"});
    let run = agent.run(&request);
    let lines: Vec<_> = run.text().lines().map(str::trim).collect();
    assert_eq!(lines[..2], ["/usr", "0022"]);
    let env: Vec<_> = lines.iter().filter(|line| line.contains('=')).collect();
    assert_eq!(env[0], &"COLOUR=blue");
    assert!(env.contains(&&"LANG=C") && env.contains(&&"LC_ALL=C.UTF-8"));
    assert!(
        env.iter().any(|pair| pair.starts_with("HOME=/"))
            && env.iter().any(|pair| pair.starts_with("PATH=/"))
    );
    assert_eq!(env.len(), 6, "and PWD, which sh makes: {env:?}");
    let end = &lines[lines.len() - 7..];
    assert_eq!(
        end[..4],
        ["0", "1", "2", "3"],
        "no more descriptors than ls's own: {lines:?}"
    );
    assert_eq!(end[4], "77");
    assert_eq!(end[5], end[6], "a session of its own");
    let argv = json!(["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"]);
    let run = agent.run(&json!({"op": "spawn", "id": 4, "argv": argv}));
    let nothing = "0000000000000000";
    assert_eq!(
        run.text(),
        format!("SigBlk:\t{nothing}\nSigIgn:\t{nothing}\n")
    );
}

#[test]
fn what_keeps_a_program_from_starting_is_named() {
    let mut agent = Agent::serve();
    let cases = [
        (
            json!({"argv": ["/no/such/program"]}),
            "/no/such/program: exec: No such file or directory",
        ),
        (
            json!({"argv": ["/etc/passwd"]}),
            "/etc/passwd: exec: Permission denied",
        ),
        (
            json!({"argv": ["true"], "cwd": "/no/such/dir"}),
            "true: cwd: No such file or directory",
        ),
        (
            json!({"argv": ["true"], "env": {"PATH": "/empty"}}),
            "exec true: not found in PATH=/empty",
        ),
    ];
    for (mut request, message) in cases {
        request["op"] = json!("spawn");
        request["id"] = json!(4);
        let answer = agent.ask(&request);
        assert_eq!(
            (&answer["code"], &answer["message"]),
            (&json!("exec-failed"), &json!(message))
        );
    }
}

/// How late the best of seven programs started that wait for instants close to each other.
fn least_late_ns(agent: &mut Agent) -> u64 {
    let instants: Vec<_> = (1..=7).map(|n| agent.ns() + n * 60_000_000).collect();
    for (id, at_ns) in (10..).zip(&instants) {
        agent.send(&json!({"op": "spawn", "id": id, "argv": ["true"], "at_ns": at_ns}));
    }
    let (mut late, mut exits) = ([None; 7], 0);
    while exits < instants.len() {
        let answer = agent.answer();
        if answer["op"] == "exit" {
            exits += 1;
            continue;
        }
        assert_eq!(answer["op"], "started", "{answer}");
        // Each is told of by a thread of its own: on a busy machine not in their order.
        let id = usize::try_from(answer["id"].as_u64().expect("id")).expect("small");
        let late_ns = answer["late_ns"].as_u64().expect("late_ns");
        assert_eq!(
            answer["start_ns"],
            instants[id - 10] + late_ns,
            "the waiting ones do not disturb each other"
        );
        assert_eq!(late[id - 10].replace(late_ns), None, "it started twice");
    }
    let late = late.map(|ns| ns.expect("started before its end"));
    late.into_iter().min().expect("seven")
}

#[test]
fn a_program_starts_at_its_instant() {
    let mut agent = Agent::serve();
    // On a busy machine a core is free at none of seven instants, but not for ever.
    assert!(
        (0..30).any(|_| least_late_ns(&mut agent) < 1_000_000),
        "not even the best start was near its instant"
    );
}

#[test]
fn an_instant_in_the_past_starts_at_once_and_says_so() {
    let mut agent = Agent::serve();
    let at_ns = agent.ns() - 1_000_000_000;
    let run = agent.run(&json!({"op": "spawn", "id": 4, "argv": ["true"], "at_ns": at_ns}));
    assert!(run.started["late_ns"].as_u64() >= Some(1_000_000_000));
}

#[test]
fn kill_reaches_the_whole_group() {
    let mut agent = Agent::serve();
    agent.send(&json!({"op": "spawn", "id": 4, "argv": ["sh", "-c", "sleep 100 & echo $!; wait"]}));
    assert_eq!(agent.answer()["op"], "started");
    let Event::Raw { bytes, .. } = agent.next() else {
        panic!("a pid is wanted")
    };
    let sleeper: i32 = String::from_utf8_lossy(&bytes)
        .trim()
        .parse()
        .expect("a pid");
    let wrong = agent.ask(&json!({"op": "kill", "id": 5, "target": 4, "signal": 99}));
    assert_eq!(wrong["code"], "bad-field");
    agent.send(&json!({"op": "kill", "id": 5, "target": 4, "signal": 15}));
    let answers = [agent.answer(), agent.answer()];
    let exit = answers
        .iter()
        .find(|answer| answer["op"] == "exit")
        .expect("exit");
    assert_eq!(
        (&exit["status"], &exit["signal"]),
        (&json!(null), &json!(15))
    );
    assert!(common::gone_within(&[sleeper], Duration::from_secs(5)));
}

#[test]
fn killed_before_its_start() {
    let mut agent = Agent::serve();
    let at_ns = agent.ns() + 3_600_000_000_000;
    agent.send(&json!({"op": "spawn", "id": 4, "argv": ["true"], "at_ns": at_ns}));
    agent.send(&json!({"op": "kill", "id": 5, "target": 4, "signal": 15}));
    let answers = [agent.answer(), agent.answer()];
    let error = answers
        .iter()
        .find(|answer| answer["op"] == "error")
        .expect("error");
    assert_eq!(
        (&error["id"], &error["code"]),
        (&json!(4), &json!("exec-failed"))
    );
    assert_eq!(error["message"], "true: it was killed before its start");
}

#[test]
fn time_is_over() {
    let mut agent = Agent::serve();
    let argv = json!(["sh", "-c", "trap '' TERM; sleep 100 & wait"]);
    let run = agent.run(&json!({"op": "spawn", "id": 4, "argv": argv, "timeout_ns": 130_000_000}));
    assert_eq!(
        (&run.exit["timed_out"], &run.exit["signal"]),
        (&json!(true), &json!(9))
    );
    let ran_ns =
        run.exit["end_ns"].as_u64().expect("end") - run.exit["start_ns"].as_u64().expect("start");
    assert!((130_000_000..2_000_000_000).contains(&ran_ns), "{ran_ns}");
    let quick = agent
        .run(&json!({"op": "spawn", "id": 4, "argv": ["true"], "timeout_ns": 5_000_000_000_u64}));
    assert_eq!(
        (&quick.exit["timed_out"], &quick.exit["status"]),
        (&json!(false), &json!(0))
    );
}

#[test]
fn a_long_output_waits_for_credit_and_arrives_whole() {
    const TOTAL: usize = 64 << 20;
    let mut agent = Agent::serve();
    let script = format!("yes ullage-agent | head -c {TOTAL}");
    agent.send(&json!({"op": "spawn", "id": 4, "argv": ["sh", "-c", script]}));
    assert_eq!(agent.answer()["op"], "started");
    let mut output = Vec::with_capacity(TOTAL);
    let mut held = 0;
    while let Some(event) = agent.next_within(while_credit_lasts(held)) {
        let Event::Raw { bytes, .. } = event else {
            panic!("{event:?} came without credit")
        };
        held += bytes.len() + 4;
        output.extend(bytes);
        assert!(held <= CREDIT, "more than the credit came: {held}");
    }
    assert!(held > CREDIT - 8, "the credit was not used up: {held}");
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
            .all(|(line, expected)| line == expected)
    );
}

#[test]
fn a_blocked_output_does_not_block_the_others() {
    let mut agent = Agent::serve();
    let argv = json!(["sh", "-c", "echo $$; exec yes"]);
    agent.send(&json!({"op": "spawn", "id": 4, "argv": argv, "timeout_ns": 5_000_000_000_u64}));
    assert_eq!(agent.answer()["op"], "started");
    let (mut output, mut held) = (Vec::new(), 0);
    while let Some(event) = agent.next_within(while_credit_lasts(held)) {
        let Event::Raw { bytes, .. } = event else {
            panic!("{event:?} came before the time was over")
        };
        held += bytes.len() + 4;
        output.extend(bytes);
    }
    assert!(held > CREDIT - 8, "the credit was not used up: {held}");
    agent.ns();
    let text = String::from_utf8_lossy(&output);
    let pid: i32 = text.lines().next().expect("a line").parse().expect("a pid");
    assert!(
        common::gone_within(&[pid], Duration::from_secs(25)),
        "its time is over although its output is blocked"
    );
    agent.send(&json!({"op": "credit", "bytes": held}));
    loop {
        match agent.next() {
            Event::Raw { bytes, .. } => {
                agent.send(&json!({"op": "credit", "bytes": bytes.len() + 4}));
            }
            Event::Json(exit) => {
                assert_eq!(
                    (&exit["timed_out"], &exit["signal"]),
                    (&json!(true), &json!(9))
                );
                break;
            }
            other => panic!("a frame of a program is wanted, not {other:?}"),
        }
    }
}

#[test]
fn a_detached_grandchild_does_not_hold_up_the_exit() {
    let mut agent = Agent::serve();
    let began = Instant::now();
    let run = agent.shell(4, "setsid sleep 100 & echo last words; exit 5");
    assert_eq!(
        (run.text(), &run.exit["status"]),
        ("last words\n", &json!(5))
    );
    let took = began.elapsed();
    assert!(
        took > Duration::from_millis(900) && took < Duration::from_secs(5),
        "{took:?}"
    );
    let ran_ns =
        run.exit["end_ns"].as_u64().expect("end") - run.exit["start_ns"].as_u64().expect("start");
    assert!(
        ran_ns < 900_000_000,
        "the end is the program's own: {ran_ns}"
    );
    let held_ns = run.exit["held_ns"].as_u64().expect("how long it waited");
    assert!(
        held_ns > 900_000_000 && u128::from(ran_ns + held_ns) < took.as_nanos(),
        "it says how long it waited: {held_ns}"
    );
}

#[test]
fn the_rest_of_the_group_is_killed_when_it_keeps_the_output_open() {
    let mut agent = Agent::serve();
    let run = agent.shell(4, "sleep 100 & echo $!");
    let sleeper: i32 = run.text().trim().parse().expect("a pid");
    assert!(common::gone_within(&[sleeper], Duration::from_secs(5)));
}

#[test]
fn many_at_once() {
    let mut agent = Agent::serve();
    let at_ns = agent.ns() + 200_000_000;
    for id in 100..123 {
        let argv = json!(["sh", "-c", format!("echo {id}; exit {}", id - 100)]);
        agent.send(&json!({"op": "spawn", "id": id, "argv": argv, "at_ns": at_ns}));
    }
    let mut exits = 0;
    while exits < 23 {
        match agent.next() {
            Event::Raw { id, bytes, .. } => assert_eq!(bytes, format!("{id}\n").as_bytes()),
            Event::Json(answer) if answer["op"] == "exit" => {
                assert_eq!(answer["status"], answer["id"].as_u64().expect("id") - 100);
                exits += 1;
            }
            Event::Json(answer) => assert_eq!(answer["op"], "started"),
            other => panic!("a frame of a program is wanted, not {other:?}"),
        }
    }
}
