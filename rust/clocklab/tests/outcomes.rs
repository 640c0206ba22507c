//! Every outcome as JSON, with every kind of value that may stand in it: what `ullage clock` reads,
//! whose own test reads the same file. A machine has only some of them.

use std::fs;
use std::path::Path;

use ullage_clocklab::{
    Absent, Bin, External, Histogram, Interval, Kind, Machine, Probe, Summary, cost, ecp, loops,
    scaling, strict,
};

const READ_BY_PYTHON: &str = "../../tests/experiments/clock/data/outcomes.json";

#[test]
fn what_python_reads_is_what_this_writes() {
    let outcomes = serde_json::json!({
        "ecp": [whole_ecp(), ecp::Outcome { machine: bare_machine(), ..bare_ecp() }],
        "strict": [whole_strict(), bare_strict()],
        "cost": [cost()],
        "loops": loops(),
        "scaling": [scaling()],
    });
    let text = serde_json::to_string_pretty(&outcomes).expect("json") + "\n";
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join(READ_BY_PYTHON);
    let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outcomes.json");
    fs::write(&written, &text).expect("written");
    assert!(
        fs::read_to_string(&kept).unwrap_or_default() == text,
        "an outcome has changed: cp {} {}",
        written.display(),
        kept.display()
    );
}

fn machine() -> Machine {
    Machine {
        clocksource: Some("tsc".into()),
        reasons: vec!["virtual".into()],
        ..bare_machine()
    }
}

fn bare_machine() -> Machine {
    Machine {
        architecture: "x86_64".into(),
        clocksource: None,
        virtual_machine: true,
        cpus: vec![0, 1],
        promise: "strict".into(),
        reasons: Vec::new(),
    }
}

fn absent() -> Vec<Absent> {
    vec![Absent {
        what: "rdtscp".into(),
        why: "this processor has no rdtscp".into(),
    }]
}

fn summary() -> Summary {
    Summary {
        count: 1,
        min_ns: -1.5,
        p01_ns: 1.0,
        p25_ns: 1.0,
        p50_ns: 1.0,
        p75_ns: 1.0,
        p99_ns: 1.0,
        p999_ns: 1.0,
        max_ns: 1.0,
        mean_ns: 1.0,
        sd_ns: 0.0,
    }
}

fn interval() -> Interval {
    Interval {
        median: 2.0,
        low: 1.0,
        high: 3.0,
        confidence: 0.95,
    }
}

fn whole_ecp() -> ecp::Outcome {
    let placements = [
        ecp::Placement::Pinned,
        ecp::Placement::MovesItself,
        ecp::Placement::IsMoved,
    ];
    ecp::Outcome {
        placements: placements.map(placed).into(),
        absent: absent(),
        ..bare_ecp()
    }
}

fn bare_ecp() -> ecp::Outcome {
    ecp::Outcome {
        machine: machine(),
        additions: 15,
        work: "add".into(),
        iterations: 1,
        runs: 1,
        placements: Vec::new(),
        absent: Vec::new(),
    }
}

fn placed(placement: ecp::Placement) -> ecp::Placed {
    let elapsed = |clock: Probe| ecp::Elapsed {
        clock,
        how: "rdtsc".into(),
        durations: Some(summary()),
        with_move: (placement == ecp::Placement::MovesItself).then(summary),
        zero: 0,
        backward: 0,
        steps: 1,
        equal_steps: 0,
        backward_steps: 0,
        migrations: 0,
    };
    let mut clocks: Vec<_> = Probe::ALL.map(elapsed).into();
    clocks[0].durations = None;
    ecp::Placed {
        placement,
        moves: 0,
        clocks,
    }
}

fn whole_strict() -> strict::Outcome {
    let alone = strict::Alone {
        threads: 2,
        reads: 2,
        ordered: 1,
        backward: 0,
        equal: 0,
        moves: 1,
        migrations: 1,
        kernel_migrations: Some(1),
        elapsed_ns: 1,
        capped: false,
    };
    strict::Outcome {
        alone: Some(alone),
        across: Probe::ALL.map(across).into(),
        promised_ns: Some(1),
        absent: absent(),
        ..bare_strict()
    }
}

fn bare_strict() -> strict::Outcome {
    strict::Outcome {
        machine: machine(),
        alone: None,
        across: Vec::new(),
        promised_ns: None,
        absent: Vec::new(),
    }
}

fn across(clock: Probe) -> strict::Across {
    strict::Across {
        clock,
        how: "rdtsc".into(),
        cores: 2,
        comparisons: 1,
        repeated: 0,
        backward: 0,
        equal: 0,
        worst_ticks: 0,
        worst_ns: 0,
        capped: true,
    }
}

fn cost() -> cost::Outcome {
    let ratios = Probe::ALL.map(|over| cost::Ratio {
        over,
        ratio: interval(),
    });
    let costs = Probe::ALL.map(|clock| cost::Cost {
        clock,
        how: "rdtsc".into(),
        ns: interval(),
        ratios: Vec::new(),
    });
    let mut clocks: Vec<_> = costs.into();
    clocks[0].ratios = ratios.into();
    cost::Outcome {
        machine: machine(),
        rounds: 6,
        reads: 1,
        clocks,
        absent: absent(),
        capped: true,
    }
}

/// Without an external clock, and with one of either kind, of which all, nothing or the contrary
/// is known, alone or chosen among others.
fn loops() -> Vec<loops::Outcome> {
    let externals = [Kind::Ptp, Kind::Hpet].into_iter().flat_map(|kind| {
        [Some(true), Some(false), None].map(|independent| Some(external(kind, independent)))
    });
    [None].into_iter().chain(externals).map(looped).collect()
}

fn external(kind: Kind, independent: Option<bool>) -> External {
    let other = "/dev/ptp*: there is none".to_owned();
    External {
        kind,
        device: "/dev/hpet".into(),
        name: "hpet".into(),
        independent,
        why: "the chipset's".into(),
        passed_over: independent.map(|_| other).into_iter().collect(),
    }
}

fn looped(external: Option<External>) -> loops::Outcome {
    let apart = loops::Apart {
        ppb: -1.0,
        bound_ppb: 1.0,
        over_ns: 1.0,
    };
    let timing = loops::Loop {
        instructions: 10,
        rvec: timed(),
        raw: timed(),
        external: external.as_ref().map(|_| timed()),
    };
    loops::Outcome {
        machine: machine(),
        external_apart: external.as_ref().map(|_| apart),
        raw_is: "clock source tsc".into(),
        raw_apart: external.as_ref().map(|_| apart),
        loops: vec![timing],
        absent: absent(),
        capped: false,
        external,
    }
}

fn timed() -> loops::Timed {
    let bin = Bin {
        from_ns: 1.0,
        to_ns: 10.0,
        count: 1,
    };
    loops::Timed {
        durations: summary(),
        histogram: Histogram {
            per_decade: 1,
            under: 0,
            bins: vec![bin],
        },
        first_ns: vec![1.0],
    }
}

fn scaling() -> scaling::Outcome {
    let mut topologies = scaling::Topology::usual();
    topologies.push(scaling::Topology::TwoLevel { groups: Some(2) });
    let point = |topology| scaling::Point {
        topology,
        nodes: 2,
        depth: 1,
        total_ns: interval(),
        messages: interval(),
        busiest_messages: interval(),
        bound_ns: interval(),
    };
    scaling::Outcome {
        points: topologies.into_iter().map(point).collect(),
        capped: false,
    }
}
