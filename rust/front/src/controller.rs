//! The controller, who makes and removes nodes: JSON lines on standard input and output. Each has a
//! thread of its own, so that a controller that neither reads nor writes delays no viewer.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use nix::sys::eventfd::EventFd;
use serde::{Deserialize, Serialize};
use ullage_common::say;
use ullage_elastic::NodeId;

/// Bytes of a line, at most.
const LONGEST: u64 = 65_536;
const LONGEST_URL: usize = 2048;

#[derive(Debug, PartialEq, Eq)]
pub enum Report {
    /// The node streams, at this place.
    Ready(NodeId, Place),
    /// It is no more, and why.
    Failed(NodeId, String),
    Released(NodeId),
    Quit,
    /// A line that says nothing of that, and why it does not.
    Nonsense(String),
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Host and port.
    pub address: String,
    /// Where viewers are sent.
    pub url: String,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "one of `ready` with `address` and `url`, `failed` with `why`, `released`, `quit` is wanted"
)]
enum Message {
    Ready {
        ready: NodeId,
        address: String,
        url: String,
    },
    Failed {
        failed: NodeId,
        #[serde(default)]
        why: String,
    },
    Released {
        released: NodeId,
    },
    Quit {
        quit: bool,
    },
}

fn report_of(line: &str) -> Report {
    read(line).unwrap_or_else(Report::Nonsense)
}

fn read(line: &str) -> Result<Report, String> {
    match serde_json::from_str(line).map_err(|error| error.to_string())? {
        Message::Ready {
            ready,
            address,
            url,
        } => {
            check(&url)?;
            Ok(Report::Ready(ready, Place { address, url }))
        }
        Message::Failed { failed, why } => Ok(Report::Failed(failed, why)),
        Message::Released { released } => Ok(Report::Released(released)),
        Message::Quit { quit: true } => Ok(Report::Quit),
        Message::Quit { quit: false } => Err("quit: true is wanted".into()),
    }
}

/// It becomes a header of answers: nothing may end that header early.
fn check(url: &str) -> Result<(), String> {
    let web = url.starts_with("http://") || url.starts_with("https://");
    if web && url.len() <= LONGEST_URL && url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    Err(format!(
        "url: http:// or https:// and at most {LONGEST_URL} printable characters are wanted"
    ))
}

/// The controller's end of the front.
pub struct Controller {
    heard: Receiver<Report>,
    orders: Sender<Vec<u8>>,
    writer: thread::JoinHandle<()>,
}

impl Controller {
    /// Begins to listen; `wake` is notified of each thing that is told.
    pub fn start(wake: Arc<EventFd>) -> Self {
        let (tell, heard) = channel();
        let (orders, lines) = channel();
        thread::spawn(move || listen(io::stdin(), &tell, &wake));
        let writer = thread::spawn(move || speak(&lines));
        Self {
            heard,
            orders,
            writer,
        }
    }

    /// What was told since; none: nothing.
    pub fn next(&self) -> Option<Report> {
        self.heard.try_recv().ok()
    }

    pub fn say(&self, line: &impl Serialize) {
        let mut text = serde_json::to_vec(line).expect("these can be written");
        text.push(b'\n');
        // Gone when nobody reads standard output any more; that has been said.
        let _ = self.orders.send(text);
    }

    /// Waits until what was said is written, unless nobody reads it.
    pub fn end(self, patience: std::time::Duration) {
        drop(self.orders);
        let deadline = std::time::Instant::now() + patience;
        while !self.writer.is_finished() && std::time::Instant::now() < deadline {
            thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

fn listen(from: impl Read, tell: &Sender<Report>, wake: &EventFd) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut from).take(LONGEST).read_until(b'\n', &mut line);
        let gone = !matches!(read, Ok(length) if length > 0);
        let cut = !gone && line.len() as u64 == LONGEST && line.last() != Some(&b'\n');
        let report = if gone {
            Report::Gone
        } else if cut {
            let _ = skip(&mut from);
            Report::Nonsense(format!("a line has more than {LONGEST} bytes"))
        } else {
            match std::str::from_utf8(&line) {
                Ok(text) if text.trim().is_empty() => continue,
                Ok(text) => report_of(text),
                Err(error) => Report::Nonsense(error.to_string()),
            }
        };
        if tell.send(report).is_err() || wake.write(1).is_err() || gone {
            return;
        }
    }
}

/// To the end of the line.
fn skip(from: &mut impl BufRead) -> io::Result<()> {
    loop {
        let part = from.fill_buf()?;
        let (length, ended) = match part.iter().position(|byte| *byte == b'\n') {
            Some(place) => (place + 1, true),
            None => (part.len(), part.is_empty()),
        };
        from.consume(length);
        if ended {
            return Ok(());
        }
    }
}

fn speak(lines: &Receiver<Vec<u8>>) {
    let mut out = io::stdout();
    for line in lines {
        if let Err(error) = out.write_all(&line).and_then(|()| out.flush()) {
            say(&format!("warning: nobody reads standard output: {error}"));
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn heard(text: &[u8]) -> Vec<Report> {
        let (tell, heard) = channel();
        listen(text, &tell, &EventFd::new().unwrap());
        drop(tell);
        heard.into_iter().collect()
    }

    #[test]
    fn lines_are_read_until_the_end() {
        let place = Place {
            address: "10.0.0.5:80".into(),
            url: "http://10.0.0.5:80/clip.mp4".into(),
        };
        let text = br#"
{"ready":7,"address":"10.0.0.5:80","url":"http://10.0.0.5:80/clip.mp4"}
{"failed":3,"why":"no disk\n"}
{"released":1}
{"quit":true}"#;
        let all = [
            Report::Ready(7, place),
            Report::Failed(3, "no disk\n".into()),
            Report::Released(1),
            Report::Quit,
            Report::Gone,
        ];
        assert_eq!(heard(text), all);
    }

    #[test]
    fn what_says_nothing_is_said_and_does_no_harm() {
        let long = format!("{{\"failed\":1,\"why\":\"{}\"}}\n", "x".repeat(70_000));
        let lines = [
            "{\"ready\":1}\n",
            "{\"ready\":1,\"failed\":1}\n",
            "{\"quit\":false}\n",
            "{}\n",
            "[]\n",
            "{\"ready\":-1,\"address\":\"\",\"url\":\"http://x\"}\n",
            "{\"ready\":1,\"address\":\"\",\"url\":\"http://x\\r\\nSet-Cookie: y\"}\n",
            "{\"ready\":1,\"address\":\"\",\"url\":\"ftp://x\"}\n",
            &long,
        ];
        for line in lines {
            let reports = heard(format!("{line}{{\"released\":1}}\n").as_bytes());
            assert!(
                matches!(&reports[0], Report::Nonsense(why) if !why.is_empty()),
                "{reports:?}"
            );
            assert_eq!(reports[1..], [Report::Released(1), Report::Gone]);
        }
        assert!(matches!(heard(b"\xff\n")[0], Report::Nonsense(_)));
    }

    #[test]
    fn changed_words_end_it_in_order() {
        let seeds: [&[u8]; 2] = [
            b"{\"ready\":1,\"address\":\"10.0.0.2\",\"url\":\"http://10.0.0.2:80/x\"}\n{\"released\":1}\n",
            b"{\"failed\":3,\"reason\":\"x\"}\n",
        ];
        ullage_mutate::inputs(&seeds, |bytes| {
            assert_eq!(heard(bytes).last(), Some(&Report::Gone));
        });
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let reports = heard(&bytes);
            prop_assert_eq!(reports.last(), Some(&Report::Gone));
        }

        #[test]
        fn no_url_ends_its_header(url: String) {
            let line = serde_json::json!({"ready": 1, "address": "", "url": url}).to_string();
            if let Report::Ready(_, place) = report_of(&line) {
                prop_assert!(place.url.bytes().all(|byte| byte.is_ascii_graphic()));
            }
        }
    }
}
