//! `/metrics` for Prometheus, and `/state` for people and programs.

use std::fmt::Write;

use serde::Serialize;
use ullage_elastic::{NodeState, View};

use crate::controller::Place;
use crate::counts::{BOUNDS_S, Counts};
use crate::decisions::Front;
use crate::http::Page;

/// The exposition format's media type.
const METRICS: &str = "text/plain; version=0.0.4";

/// What the front's loop knows.
#[derive(Clone, Copy, Debug)]
pub struct Around {
    pub connections: usize,
    pub controller: bool,
}

impl Page {
    /// Its media type, and the page.
    pub fn write(self, front: &mut Front, around: Around) -> (&'static str, Vec<u8>) {
        match self {
            Self::Metrics => (METRICS, metrics(front, around).into_bytes()),
            Self::State => ("application/json", state(front, around)),
        }
    }
}

fn metrics(front: &Front, around: Around) -> String {
    let mut page = Text(String::with_capacity(4096));
    let Counts {
        requests,
        redirects,
        finished,
        ..
    } = front.counts;
    page.counter("requests", "Requests for the video.", &[("", requests)]);
    page.counter("redirects", "Viewers sent to a node.", &[("", redirects)]);
    page.counter(
        "finished",
        "Viewers that said that they finished.",
        &[("", finished)],
    );
    outcomes(&mut page, &front.counts);
    let view = front.machine.view();
    page.levels(view);
    page.gauge(
        "connections",
        "Open connections.",
        &[("", around.connections as u64)],
    );
    let here = u64::from(around.controller);
    page.gauge(
        "controller",
        "1 while there is a controller.",
        &[("", here)],
    );
    let stuck = u64::from(front.log.stuck());
    page.gauge(
        "log_stuck",
        "1 while the log cannot be written.",
        &[("", stuck)],
    );
    page.gauge(
        "log_bytes",
        "Length of the log.",
        &[("", front.log.bytes())],
    );
    page.waits(&front.counts);
    page.0
}

fn outcomes(page: &mut Text, counts: &Counts) {
    let away = [
        ("{why=\"patience\"}", counts.blocked),
        ("{why=\"waiting_room_full\"}", counts.full),
        ("{why=\"no_nodes\"}", counts.no_nodes),
    ];
    page.counter("turned_away", "Viewers that got no node.", &away);
    page.counter("lost", "Viewers whose node failed.", &[("", counts.lost)]);
    let overstayed = [("", counts.overstayed)];
    page.counter(
        "overstayed",
        "Viewers that never said that they finished.",
        &overstayed,
    );
    page.counter(
        "missed",
        "Viewers that had gone when they were sent to a node.",
        &[("", counts.missed)],
    );
    let nodes = [
        ("{what=\"allocated\"}", counts.allocated),
        ("{what=\"released\"}", counts.released),
        ("{what=\"failed\"}", counts.node_failures),
    ];
    page.counter(
        "node_orders",
        "What the controller was told to do, and nodes that failed.",
        &nodes,
    );
    let trouble = [
        ("{why=\"faulty\"}", counts.faulty),
        ("{why=\"slow\"}", counts.slow),
        ("{why=\"crowded\"}", counts.crowded),
        ("{why=\"unlogged\"}", counts.unlogged),
    ];
    page.counter(
        "refused",
        "Requests that were none, or could not be decided.",
        &trouble,
    );
    page.counter(
        "accepted",
        "Connections accepted.",
        &[("", counts.connections)],
    );
}

struct Text(String);

impl Text {
    fn counter(&mut self, name: &str, help: &str, values: &[(&str, u64)]) {
        self.family(&format!("{name}_total"), "counter", help);
        for (labels, value) in values {
            self.line(&format!("{name}_total{labels}"), value);
        }
    }

    fn gauge(&mut self, name: &str, help: &str, values: &[(&str, u64)]) {
        self.family(name, "gauge", help);
        for (labels, value) in values {
            self.line(&format!("{name}{labels}"), value);
        }
    }

    fn levels(&mut self, view: &View) {
        let viewers = [
            ("{state=\"served\"}", view.served),
            ("{state=\"waiting\"}", view.waiting),
        ];
        self.gauge("viewers", "Viewers now.", &viewers);
        let nodes = [
            ("{state=\"coming\"}", view.coming.into()),
            ("{state=\"ready\"}", view.ready.into()),
            ("{state=\"leaving\"}", view.leaving.into()),
        ];
        self.gauge("nodes", "Nodes now.", &nodes);
        self.gauge(
            "room",
            "Viewers that one node can serve.",
            &[("", view.room.into())],
        );
    }

    fn waits(&mut self, counts: &Counts) {
        let help = "From a viewer's first request to its redirect.";
        self.family("wait_seconds", "histogram", help);
        let mut sum = 0;
        for (bound, count) in BOUNDS_S.iter().zip(counts.waits.within) {
            sum += count;
            self.line(&format!("wait_seconds_bucket{{le=\"{bound}\"}}"), &sum);
        }
        let all: u64 = counts.waits.within.iter().sum();
        self.line("wait_seconds_bucket{le=\"+Inf\"}", &all);
        self.line("wait_seconds_sum", &counts.waits.sum_s);
        self.line("wait_seconds_count", &all);
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP ullage_front_{name} {help}");
        let _ = writeln!(self.0, "# TYPE ullage_front_{name} {kind}");
    }

    fn line(&mut self, name: &str, value: &impl std::fmt::Display) {
        let _ = writeln!(self.0, "ullage_front_{name} {value}");
    }
}

#[derive(Serialize)]
struct State<'a> {
    at_ns: u64,
    controller: bool,
    log_stuck: bool,
    view: &'a View,
    nodes: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    node: u32,
    state: NodeState,
    viewers: u32,
    #[serde(flatten)]
    place: Option<&'a Place>,
}

/// Counts and nodes; viewers are not told by name.
fn state(front: &mut Front, around: Around) -> Vec<u8> {
    let at_ns = front.now();
    let nodes = front.machine.nodes().map(|node| Row {
        node: node.node,
        state: node.state,
        viewers: node.viewers,
        place: front.places.get(&node.node),
    });
    let state = State {
        at_ns,
        controller: around.controller,
        log_stuck: front.log.stuck(),
        view: front.machine.view(),
        nodes: nodes.collect(),
    };
    serde_json::to_vec(&state).expect("a state can be written")
}
