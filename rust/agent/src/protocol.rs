//! The words of the protocol: requests and error codes, as in `docs/internals/agent-protocol.md`.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ullage_common::hex;

pub const VERSION: u32 = 2;
/// The signal that nobody survives, by Linux's number.
pub const KILL: i32 = 9;
pub const MAGIC: &[u8] = b"ULLAGE-AGENT 2\n";

/// The closed catalogue of what can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    BadMark,
    BadKind,
    TooLong,
    BadJson,
    UnknownOp,
    BadField,
    Version,
    NoSuchId,
    IdInUse,
    ExecFailed,
    Io,
    Credit,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: Code,
    pub message: String,
}

impl Failure {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// An operation on a path that the system refused.
    pub fn io(doing: &str, path: &str, error: &std::io::Error) -> Self {
        Self::new(
            Code::Io,
            format!("{doing} {path}: {}", crate::system::sys::text(error)),
        )
    }
}

/// What the controller asks for.
#[derive(Debug, PartialEq)]
pub enum Request {
    Hello(Hello),
    Spawn(Spawn),
    Kill(Kill),
    Put(Put),
    Get(Get),
    Sample,
    Sweep,
    Bye,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    pub version: u32,
    /// Of the run: requests for the time with another one are not answered.
    #[serde(deserialize_with = "hex::bytes")]
    pub token: [u8; 16],
    /// What time the controller reads, for an agent on the same kernel.
    pub offer: Option<Offer>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// Of the controller's kernel.
    pub boot_id: String,
    /// [`ullage_clock::Line::encode`].
    #[serde(deserialize_with = "hex::bytes")]
    pub line: [u8; ullage_clock::LINE_LENGTH],
    /// How fast the counter goes, where the controller has found that out.
    pub rate: Option<OfferedRate>,
}

/// As [`ullage_clock::Rate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfferedRate {
    pub millihertz: u64,
    pub sigma_ppb: u32,
    pub bound_ppb: u32,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spawn {
    pub argv: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    pub cwd: Option<String>,
    pub at_ns: Option<u64>,
    pub timeout_ns: Option<u64>,
    pub limits: Option<Limits>,
    pub stdin: Option<Stdin>,
    /// Absent: whom the agent runs as.
    pub user: Option<User>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    #[serde(default)]
    pub groups: Vec<u32>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub nofile: Option<u64>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stdin {
    Null,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kill {
    pub target: u32,
    pub signal: i32,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Put {
    pub path: String,
    pub mode: u32,
    pub size: u64,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Get {
    pub path: String,
    pub limit: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Credit {
    bytes: u64,
}

/// A JSON frame of the controller's, understood.
#[derive(Debug, PartialEq)]
pub enum Message {
    Request { id: u32, request: Request },
    Credit(u64),
}

/// A JSON frame that was not understood, with the id to answer to when there is one.
#[derive(Debug, PartialEq)]
pub struct Refusal {
    pub id: Option<u32>,
    pub failure: Failure,
}

/// Reads the body of a JSON frame.
pub fn parse(body: &[u8]) -> Result<Message, Refusal> {
    let bad = |message: String| Refusal {
        id: None,
        failure: Failure::new(Code::BadJson, message),
    };
    let value: Value = serde_json::from_slice(body).map_err(|error| bad(error.to_string()))?;
    let Value::Object(mut fields) = value else {
        return Err(bad("not an object".into()));
    };
    let id = fields.remove("id");
    let op = fields.remove("op");
    let number = id
        .as_ref()
        .and_then(Value::as_u64)
        .and_then(|id| u32::try_from(id).ok());
    let refuse = |failure: Failure| Refusal {
        id: number,
        failure,
    };
    let Some(Value::String(op)) = op else {
        return Err(refuse(Failure::new(
            Code::BadField,
            "op: a string is wanted",
        )));
    };
    let fields = Value::Object(fields);
    if op == "credit" {
        let credit: Credit = fields_of(&op, fields).map_err(refuse)?;
        return Ok(Message::Credit(credit.bytes));
    }
    let request = request(&op, fields).map_err(refuse)?;
    let no_id = || {
        Failure::new(
            Code::BadField,
            format!("{op}: id: an unsigned 32-bit number is wanted"),
        )
    };
    let id = number.ok_or_else(|| refuse(no_id()))?;
    Ok(Message::Request { id, request })
}

/// The one list of what can be asked.
fn request(op: &str, fields: Value) -> Result<Request, Failure> {
    Ok(match op {
        "hello" => Request::Hello(fields_of(op, fields)?),
        "spawn" => Request::Spawn(fields_of(op, fields)?),
        "kill" => Request::Kill(fields_of(op, fields)?),
        "put" => Request::Put(fields_of(op, fields)?),
        "get" => Request::Get(fields_of(op, fields)?),
        "sample" => nothing(op, fields, Request::Sample)?,
        "sweep" => nothing(op, fields, Request::Sweep)?,
        "bye" => nothing(op, fields, Request::Bye)?,
        _ => return Err(Failure::new(Code::UnknownOp, format!("{op}: no such op"))),
    })
}

fn fields_of<T: DeserializeOwned>(op: &str, fields: Value) -> Result<T, Failure> {
    serde_json::from_value(fields)
        .map_err(|error| Failure::new(Code::BadField, format!("{op}: {error}")))
}

fn nothing(op: &str, fields: Value, request: Request) -> Result<Request, Failure> {
    fields_of::<Nothing>(op, fields).map(|_| request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(body: &str) -> (Option<u32>, Code) {
        let refusal = parse(body.as_bytes()).expect_err(body);
        (refusal.id, refusal.failure.code)
    }

    #[test]
    fn requests_are_understood() {
        let sample = parse(br#"{"op":"sample","id":7}"#);
        assert_eq!(
            sample,
            Ok(Message::Request {
                id: 7,
                request: Request::Sample
            })
        );
        let spawn = parse(
            br#"{"op":"spawn","id":1,"argv":["true"],"cwd":null,"limits":{"nofile":64},
                "stdin":"null"}"#,
        );
        let Ok(Message::Request {
            request: Request::Spawn(spawn),
            ..
        }) = spawn
        else {
            panic!("{spawn:?}");
        };
        assert_eq!(spawn.argv, ["true"]);
        assert_eq!(spawn.limits, Some(Limits { nofile: Some(64) }));
        assert_eq!(
            parse(br#"{"op":"credit","bytes":5}"#),
            Ok(Message::Credit(5))
        );
    }

    #[test]
    fn refusals_name_their_code_and_their_id() {
        assert_eq!(refused("{"), (None, Code::BadJson));
        assert_eq!(refused("[]"), (None, Code::BadJson));
        assert_eq!(refused(r#"{"id":3}"#), (Some(3), Code::BadField));
        assert_eq!(
            refused(r#"{"op":"dance","id":3}"#),
            (Some(3), Code::UnknownOp)
        );
        assert_eq!(refused(r#"{"op":"sample"}"#), (None, Code::BadField));
        assert_eq!(
            refused(r#"{"op":"sample","id":-1}"#),
            (None, Code::BadField)
        );
        assert_eq!(
            refused(r#"{"op":"sample","id":4294967296}"#),
            (None, Code::BadField)
        );
        assert_eq!(
            refused(r#"{"op":"sample","id":1,"x":1}"#),
            (Some(1), Code::BadField)
        );
        assert_eq!(
            refused(r#"{"op":"spawn","id":1,"argv":"ls"}"#),
            (Some(1), Code::BadField)
        );
        assert_eq!(
            refused(r#"{"op":"spawn","id":1,"argv":[],"stdin":"tty"}"#),
            (Some(1), Code::BadField)
        );
        assert_eq!(
            refused(r#"{"op":"credit","bytes":-1}"#),
            (None, Code::BadField)
        );
    }

    #[test]
    fn changed_requests_never_panic() {
        let seeds: [&[u8]; 4] = [
            br#"{"op":"spawn","id":1,"argv":["ls"],"env":{"A":"b"},"cwd":"/","stdin":"null","timeout_ns":5}"#,
            br#"{"op":"put","id":2,"path":"/x","mode":420,"size":7}"#,
            br#"{"op":"get","id":3,"path":"/x","limit":100}"#,
            br#"{"op":"credit","bytes":1}"#,
        ];
        ullage_mutate::inputs(&seeds, |body| {
            let _ = parse(body);
        });
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,200}") {
            let _ = parse(text.as_bytes());
        }

        #[test]
        fn no_json_panics(
            op in "(hello|spawn|kill|put|get|sample|sweep|bye|credit|x)",
            id in any::<Option<i64>>(),
            field in "[a-z_]{1,8}",
            number in any::<f64>(),
        ) {
            let body = serde_json::json!({"op": op, "id": id, field: number}).to_string();
            let _ = parse(body.as_bytes());
        }
    }
}
