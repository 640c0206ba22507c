"""Settings of a run in the words of its plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.experiments.elastic.elastic_made import (
    SyntheticEnvironment,
    SyntheticRun,
    make,
    resolved,
)
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.folder import Capacity, ElasticResolved
from ullage.experiments.elastic.plan import words
from ullage.experiments.elastic.report import provenance

RUN = resolved(
    SyntheticRun(
        environments={"lxc": SyntheticEnvironment()}, patience_s=0.5, rate_hz=1.2, viewers=6
    ),
    "r",
)


def changed(**fields: Any) -> ElasticResolved:
    return RUN.model_copy(update=fields)


def test_times_are_the_users() -> None:
    assert words.patience(RUN) == "30 s"
    assert words.patience(changed(patience_s=0.0)).startswith("none")
    assert words.video(RUN.video, RUN.time_scale) == {
        "length": "6 min",
        "bitrate": "800 kbit/s",
        "kind": "bytes",
        "sent": "as it plays",
    }
    faster = RUN.video.model_copy(update={"sent_bps": 880_000.0})
    assert words.video(faster, RUN.time_scale)["sent"] == "880 kbit/s"
    assert "at 800 kbit/s, sent at 880 kbit/s" in provenance._video(changed(video=faster))
    assert "sent" not in provenance._video(RUN) and "sent_bps" not in RUN.video.model_dump()


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0 s"),
        (0.25, "250 ms"),
        (1.4, "1.4 s"),
        (90, "1 min 30 s"),
        (90.5, "90.5 s"),
        (5400, "1 h 30 min"),
        (5410, "5410 s"),
        (200.00000000000003, "3 min 20 s"),
    ],
)
def test_a_time_is_exact(seconds: float, expected: str) -> None:
    assert words.duration(seconds) == expected


ARRIVALS = [
    ({"kind": "poisson", "rate_hz": 1.2, "count": 6}, "poisson, rate 0.02/s, 6 viewers"),
    ({"kind": "uniform", "rate_hz": 6, "duration_s": 2.0}, "uniform, rate 0.1/s, lasting 2 min"),
    (
        {"kind": "flash-crowd", "rate_hz": 6, "count": 1, "peak_hz": 60, "at_s": 1, "decay_s": 0.5},
        "flash-crowd, rate 0.1/s, 1 viewer, peak 1/s, at 1 min, decay 30 s",
    ),
    ({"kind": "trace", "path": "trace.txt", "sha256": "a1" * 32}, "trace, sha256 a1a1a1a1a1a1"),
    ({"kind": "poisson", "rate_hz": "many", "more": 1}, "poisson, rate_hz many, more 1"),
]


@pytest.mark.parametrize(("arrivals", "expected"), ARRIVALS)
def test_arrivals_have_the_names_of_the_plan(arrivals: dict[str, Any], expected: str) -> None:
    assert words.arrivals(changed(arrivals=arrivals)) == expected


def test_machines_are_told_without_braces() -> None:
    assert words.resources({"cpus": 1.0, "memory": 256 << 20}) == "1 CPU, 256MiB"
    assert words.resources({"cpus": 0.5, "memory": None, "more": 1}) == "0.5 CPUs, more 1"
    assert words.generators(None) == "this host"
    machines = {"number": 2, "label": "crun", "resources": {"cpus": 2}}
    options = {"rootless": True, "disk": {"size": 5, "cache": None}}
    expected = "2 × crun, 2 CPUs, rootless yes, disk size 5"
    assert words.generators(machines | {"options": options}) == expected


def test_policy_and_nodes_are_told_field_by_field() -> None:
    assert words.policy({"name": "elastic-movie"}) == "elastic-movie"
    assert words.policy({"name": "hysteresis", "up": 2}) == "hysteresis, up 2"
    machine = {"room": 3, "max_nodes": 6, "waiting_room": None, "placement": "fullest"}
    assert words.nodes(machine) == {"max": "6", "placement": "fullest"}


def test_the_provenance_of_the_page_tells_the_same(tmp_path: Path) -> None:
    plan = SyntheticRun(
        environments={"lxc": SyntheticEnvironment(max_nodes=4)}, repetitions=1, viewers=3
    )
    run = ElasticRun.open(make(tmp_path, plan))
    run.resolved.budgets["allocate"] = {"tries": 3, "limit": 120.0}
    facts = dict(provenance.pairs(run))
    assert facts["arrivals"] == "poisson, rate 0.0666667/s, 3 viewers"
    assert facts["patience"] == "1 min (1 s of real time)"
    assert facts["video"].startswith("6 min (6 s of real time), 585.9KiB at 800 kbit/s, bytes")
    assert facts["time scale"].startswith("×60")
    assert facts["budgets"] == "allocate tries 3, allocate limit 120.0"
    (row,) = provenance.environments(run).rows
    assert row[4].text.startswith("max 4, min 0, allocation one_at_a_time")


def test_rooms_that_differ_are_named_with_where_they_come_from() -> None:
    two = resolved(SyntheticRun(), "r")
    assert (words.rooms(two), words.capacities(two)) == ("5", "")
    capacity = Capacity(run="s", environment="vm", viewers=3, trials=6, lowest=2, highest=4)
    own = two.settings["qemu"].model_copy(update={"room": 3, "capacity": capacity})
    settings = {**two.settings, "qemu": own}
    measured = two.model_copy(update={"settings": settings})
    assert words.rooms(measured) == "lxc 5, qemu 3"
    assert words.capacities(measured) == "; qemu's is the median of 6 trials of vm in s, 2 to 4"
    assert (measured.room_of("lxc"), measured.room_of("qemu")) == (5, 3)
