"""The simulator's supply against demand beside the functions that real runs are measured with."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.elastic.elastic_made import SyntheticEnvironment, SyntheticRun, make
from ullage import _elastic
from ullage.experiments.elastic.analysis import elasticity, metrics
from ullage.experiments.elastic.analysis.curves import StepCurve
from ullage.experiments.elastic.analysis.definitions import BY_NAME, ELASTICITY
from ullage.experiments.elastic.analysis.elasticity import Span
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.simulator import twin
from ullage.experiments.elastic.simulator.fields import FIGURES, figures, in_words
from ullage.stats.interval import moments, t_quantile

Json = dict[str, Any]

THEIRS = {
    "accuracy_u": "under_nodes",
    "accuracy_o": "over_nodes",
    "timeshare_u": "under_time",
    "timeshare_o": "over_time",
    "theta_u": "under_part",
    "theta_o": "over_part",
    "instability": "instability",
    "deviation": "deviation",
}
"""As real runs call them → as the simulator does."""


def fixed(seconds: float) -> Json:
    return {"kind": "fixed", "s": seconds}


def drawn(seconds: float) -> Json:
    return {"kind": "exponential", "mean_s": seconds}


def simulated(**changes: Any) -> Json:
    spec: Json = {
        "application": {"room": 4},
        "arrivals": {"kind": "poisson", "rate_hz": 0.3},
        "sessions": 300,
        "watch": fixed(90),
        "patience": fixed(10),
        "allocation": {"rows": [{"stages": [{"name": "TaR", "time": drawn(20)}]}]},
        "release": fixed(5),
        "window_s": 9,
        "records": True,
        "seed": 3,
    }
    outcome: Json = json.loads(_elastic.simulate(json.dumps(spec | changes)))
    return outcome | {"room": (spec | changes)["application"]["room"]}


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


def spans(records: list[Json], begin: str, ends: tuple[str, ...], last: float) -> list[Any]:
    """From `begin` until the first of the ends that there is."""
    spans_of = [
        (record[begin], next((record[end] for end in ends if record[end] is not None), last))
        for record in records
        if record[begin] is not None
    ]
    return [(ns(a), ns(b)) for a, b in spans_of]


def by_hand(outcome: Json) -> tuple[elasticity.Elasticity, float | None, int, Span]:
    """What the real metrics say of the records of a simulation."""
    offered = [
        (ns(record["asked_s"]), ns(record["asked_s"]) + ns(record["watch_s"]))
        for record in outcome["records"]
    ]
    nodes = spans(
        outcome["node_records"], "ready_s", ("release_s", "gone_s"), last=outcome["ended_s"]
    )
    demand, supply = StepCurve.counted(offered).over(outcome["room"]), StepCurve.counted(nodes)
    over = Span(0, max(end for _, end in offered))
    window = ns(outcome["elasticity"]["window_s"])
    mine = elasticity.measure(demand, supply, over, window)
    still, standing = elasticity.standing(demand, over)
    other = elasticity.measure(demand, still, over, window)
    return mine, elasticity.speed_up(mine, other), standing, over


CROWD = {"kind": "surge", "rate_hz": 0.1, "peak_hz": 5, "from_s": 100, "for_s": 40}
TRACE = {"kind": "trace", "at_s": [0, 0, 0, 0, 0, 1, 1.5, 90, 90, 180, 180, 400, 400, 900]}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"application": {"room": 1, "max_nodes": 1}, "patience": fixed(0)},
        {"application": {"room": 1, "max_nodes": 1}, "patience": fixed(36_000)},
        {"application": {"room": 3, "min_nodes": 2}, "policy": {"name": "spare", "nodes": 2}},
        {"application": {"room": 1, "allocation": "one_per_need"}, "arrivals": CROWD},
        {"arrivals": TRACE, "sessions": None, "watch": fixed(90), "duration_s": 5000},
        {"arrivals": TRACE, "sessions": None, "watch": drawn(60), "policy": {"name": "predictor"}},
        {"watch": {"kind": "empirical", "values_s": [0, 30, 400]}, "window_s": 60},
        {"window_s": 0, "watch": drawn(90), "policy": {"name": "hysteresis"}},
        {"failures": {"lifetime": drawn(60), "error": 0.2}, "reconnect": drawn(3)},
        {"failures": {"lifetime": drawn(60), "never_ready": 0.3}, "watch": drawn(200),
         "allocation": {"rows": [{"stages": [{"name": "x", "time": drawn(9)}]}], "gives_up_s": 20}},
        {"application": {"room": 2, "waiting_room": 3, "max_nodes": 5}, "patience": None},
        {"application": {"room": 2, "max_nodes": 0}},
    ],
    ids=str,
)  # fmt: skip
def test_it_says_what_real_runs_would_be_told(changes: Json) -> None:
    outcome = simulated(**changes)
    course = outcome["elasticity"]
    mine, speed_up, standing, over = by_hand(outcome)
    assert course["until_s"] == pytest.approx(over.seconds, rel=1e-12)
    for ours, theirs in THEIRS.items():
        assert course[theirs] == pytest.approx(getattr(mine, ours), rel=1e-9, abs=1e-12), ours
    assert course["jitter_per_minute"] == pytest.approx(60 * mine.jitter, rel=1e-9, abs=1e-12)
    assert course["standing_nodes"] == standing
    assert course["speed_up"] == (speed_up and pytest.approx(speed_up, rel=1e-9))
    assert mine.timeshare_u > 0 and mine.deviation > 0


def test_turning_viewers_away_makes_no_demand_smaller() -> None:
    alone: Json = {"room": 1, "max_nodes": 1}
    blocks = simulated(application=alone, patience=fixed(0))
    waits = simulated(application=alone, patience=fixed(36_000))
    serves = simulated(application={"room": 1, "allocation": "one_per_need"})
    assert blocks["blocked"] > 0.9 and waits["blocked"] == 0
    demands = [demand(outcome) for outcome in (blocks, waits, serves)]
    assert demands == pytest.approx([demands[0]] * 3, rel=1e-9)
    assert blocks["elasticity"]["under_time"] > 0.9
    assert blocks["elasticity"]["under_nodes"] > 5 * serves["elasticity"]["under_nodes"]


def demand(outcome: Json) -> float:
    """Nodes that were demanded, on the average until the last offered viewer would be gone."""
    followed = outcome["elasticity"]
    end = ns(followed["until_s"])
    nodes = spans(outcome["node_records"], "ready_s", ("release_s", "gone_s"), outcome["ended_s"])
    ready = StepCurve.counted(nodes).integral(0, end) / end
    return float(followed["under_nodes"] - followed["over_nodes"] + ready)


def test_where_nobody_comes_nothing_followed() -> None:
    assert simulated(arrivals={"kind": "trace", "at_s": []})["elasticity"] is None


def test_a_twin_follows_demand_as_its_repetition_did(tmp_path: Path) -> None:
    plan = SyntheticRun(
        environments={"qemu": SyntheticEnvironment(tar_s=2.0)}, baseline="qemu", viewers=200
    )
    run = ElasticRun.open(make(tmp_path, plan))
    apart: dict[str, list[float]] = {name: [] for name in (*THEIRS, "jitter")}
    for repetition in run.repetitions:
        measured = metrics.measured(repetition, run.resolved)
        real, spec = measured.figures, twin.specification(repetition, run.resolved)
        assert spec is not None and measured.curves is not None
        outcomes = [
            json.loads(_elastic.simulate(json.dumps({**spec, "seed": n}))) for n in range(5)
        ]
        followed = [outcome["elasticity"] for outcome in outcomes]
        assert {outcome["window_s"] for outcome in followed} == {0.6}
        assert {outcome["standing_nodes"] for outcome in followed} == {measured.standing_nodes}
        demanded = real["demanded_seconds"] / measured.curves.over.seconds
        assert [demand(outcome) for outcome in outcomes] == pytest.approx([demanded] * 5, rel=1e-3)
        for ours, theirs in (THEIRS | {"jitter": "jitter_per_minute"}).items():
            mean = sum(outcome[theirs] for outcome in followed) / len(followed)
            apart[ours].append(mean / (60 if ours == "jitter" else 1) - real[ours])
    for name, differences in apart.items():
        # Which node takes which time is chance.
        m = moments(differences)
        assert abs(m.mean) <= t_quantile(0.995, m.df) * m.error, name


def test_who_lost_his_node_was_served_and_is_affected() -> None:
    """As the viewer of a real run whose stream broke after its first byte."""
    dying: Json = {"failures": {"lifetime": drawn(60)}, "watch": drawn(120)}
    for changes in (dying, dying | {"reconnect": fixed(2)}):
        outcome = simulated(**changes)
        viewers = outcome["viewers"]
        served = viewers["at_once"] + viewers["waited"]
        assert 0 < viewers["affected"] <= viewers["lost"]
        assert outcome["affected"] == viewers["affected"] / served
        assert served == viewers["finished"] + viewers["cut"]
        assert viewers["blocked"] == viewers["requests"] - served - viewers["turned_away"]
    assert viewers["affected"] < viewers["lost"]
    assert simulated()["affected"] == 0
    assert simulated(application={"room": 2, "max_nodes": 0})["affected"] is None


def test_every_metric_of_a_real_run_has_its_figure() -> None:
    real = {definition.name for definition in ELASTICITY}
    assert real == set(THEIRS) | {"jitter", "speed_up"}
    assert real <= {figure.name for figure in FIGURES}


def test_a_figure_with_the_name_of_a_metric_is_that_metric() -> None:
    shared = {figure.name for figure in FIGURES} & set(BY_NAME)
    assert shared == {definition.name for definition in ELASTICITY} | {"nodes_most", "node_seconds"}
    units = {figure.name: figure.unit for figure in FIGURES}
    assert all(units[name] == BY_NAME[name].unit for name in ("jitter", "node_seconds"))
    outcome = simulated()
    followed, told_figures = outcome["elasticity"], figures(outcome)
    assert told_figures["jitter"] == pytest.approx(followed["jitter_per_minute"] / 60) != 0
    assert told_figures["node_seconds"] == outcome["whole"]["node_s"]
    assert told_figures["waited_viewers"] == outcome["wait"]["count"] > 0


def test_jitter_is_shown_by_the_minute_as_that_of_real_runs() -> None:
    assert in_words(-0.005, "nodes/s") == "-0.3 nodes/min"
