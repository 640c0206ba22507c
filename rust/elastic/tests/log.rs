//! Logs that are not what they should be.

use serde_json::{Value, json};
use ullage_elastic::log::{Line, Record, replay};
use ullage_elastic::{Action, Config};

fn policy() -> Value {
    json!({"name": "elastic-movie"})
}

const BEGIN: &str =
    r#"{"at_ns":5,"format":1,"config":{"room":2},"policy":{"name":"elastic-movie"}}"#;
const REQUEST: &str = r#"{"at_ns":6,"event":"request","client":1}"#;
const WAIT: &str = r#"{"at_ns":6,"action":"wait","client":1}"#;
const ALLOCATE: &str = r#"{"at_ns":6,"action":"allocate","node":0}"#;
const NOTE: &str = r#"{"at_ns":7,"note":{"address":"10.0.0.5:80","node":0}}"#;

fn log(lines: &[&str]) -> String {
    lines.join("\n") + "\n"
}

fn refusal(lines: &[&str]) -> String {
    let error = replay(log(lines).as_bytes(), Config::new(2), &policy());
    error.unwrap_err().to_string()
}

#[test]
fn lines_are_written_as_they_are_read() {
    for text in [REQUEST, WAIT, ALLOCATE, NOTE] {
        let line: Line = serde_json::from_str(text).unwrap();
        let mut written = Vec::new();
        line.write(&mut written).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), log(&[text]));
    }
}

#[test]
fn a_log_cut_in_a_line_lacks_that_and_tells_what_was_to_follow() {
    let whole = log(&[BEGIN, REQUEST, WAIT, NOTE]);
    let torn = format!("{whole}{}", &ALLOCATE[..20]);
    let replayed = replay(torn.as_bytes(), Config::new(2), &policy()).unwrap();
    assert_eq!(replayed.whole, whole.len() as u64);
    assert_eq!(replayed.unwritten, [Action::Allocate { node: 0 }]);
    assert_eq!((replayed.at_ns, replayed.events), (7, 1));
    let note = json!({"node": 0, "address": "10.0.0.5:80"});
    assert_eq!(replayed.notes, [(7, note)]);
    assert_eq!(replayed.machine.view().waiting, 1);
}

#[test]
fn a_fraction_is_the_same_to_its_last_digit() {
    let policy = json!({"name": "hysteresis", "idle_s": 0.956_108_660_272_078_1});
    let begin = BEGIN.replace(r#"{"name":"elastic-movie"}"#, &policy.to_string());
    replay(log(&[&begin]).as_bytes(), Config::new(2), &policy).unwrap();
}

#[test]
fn an_empty_log_is_a_new_machine() {
    let replayed = replay(&b""[..], Config::new(2), &policy()).unwrap();
    assert_eq!((replayed.at_ns, replayed.events, replayed.whole), (0, 0, 0));
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let finished = r#"{"at_ns":6,"event":"finished","client":9}"#;
    let another = r#"{"at_ns":6,"action":"allocate","node":3}"#;
    assert_eq!(
        refusal(&[BEGIN, finished]),
        "line 2: viewer 9 is not served"
    );
    assert!(refusal(&[BEGIN, "{}"]).starts_with("line 2: "));
    assert!(refusal(&[BEGIN, REQUEST, another]).starts_with("line 3: Allocate"));
    assert!(refusal(&[BEGIN, ALLOCATE]).ends_with("does not follow from the event"));
    assert!(refusal(&[BEGIN, REQUEST, REQUEST]).ends_with("should come before this event"));
    let format = BEGIN.replace("\"format\":1", "\"format\":2");
    assert_eq!(
        refusal(&[&format]),
        "line 1: format 2; this program reads 1"
    );
    // Whatever kind of line it is: the driver goes on at the last one's time.
    let note = NOTE.replace("\"at_ns\":7", "\"at_ns\":5");
    let back = "line 5: time goes back, from 6 to 5 ns";
    assert_eq!(refusal(&[BEGIN, REQUEST, WAIT, ALLOCATE, &note]), back);
    assert_eq!(refusal(&[BEGIN, REQUEST, WAIT, ALLOCATE, BEGIN]), back);
    let config = BEGIN.replace("\"room\":2", "\"room\":3");
    assert_eq!(
        refusal(&[&config]),
        "line 1: another configuration or policy"
    );
    let other = replay(&b""[..], Config::new(2), &json!({"name": "no"}));
    assert!(other.unwrap_err().to_string().starts_with("name is \"no\""));
    assert!(matches!(
        serde_json::from_str::<Line>(BEGIN).unwrap().record,
        Record::Begin { format: 1, .. }
    ));
}
