"""The room of a node, from a run that looked for the largest number of viewers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testing.synthetic import make_run
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.engine import resolved
from ullage.experiments.elastic.plan import schema
from ullage.experiments.elastic.plan.units import Scaled
from ullage.plan import matrix
from ullage.plan import schema as ordinary
from ullage.runs.records import EnvironmentRecord

ELASTIC = """\
name: film
room: {{capacity: {run}{more}}}
resources: {{cpus: 1, memory: 256MiB}}
environments:
  lxc: {{provider: lxc}}
  box: {{provider: oci{own}}}
arrivals: {{kind: poisson, rate: 0.01, viewers: 20}}
video: {{bitrate: 1000000}}
"""
STREAMS = """\
name: streams
baseline: lxc
environments: {{lxc: {{provider: lxc}}}}
workloads: [{{name: streaming, {field}}}]
"""
#: How many times fewer than 1,000 viewers were served.
TRUTH = {("lxc", "streaming"): 100.0, ("box", "streaming"): 40.0}


def streams(
    root: Path, field: str = "bitrate: 1000000", instances: int = 1, memory: int = 256 << 20
) -> Path:
    """The run folder of a search for the most streams; no machine has run it."""
    text = STREAMS.format(field=field)
    plan, document = ordinary.loads(text)
    places = [
        EnvironmentRecord(key=key, label=key, provider=key, nuisances={"instances": str(instances)})
        for key in ("lxc", "box")
    ]
    return make_run(
        root / "20260101T000000-streams",
        blocks=5,
        environments=places,
        workloads=[resolved.workload(case) for case in matrix.resolve(plan, document).cases],
        truth=TRUTH,
        noise_sd=0.01,
        failures=(),
        raw=False,
        resources={"cpus": 1.0, "memory": memory},
    )


def resolve(run: Path, more: str = "", own: str = "") -> dict[str, Any]:
    plan, document = schema.loads(ELASTIC.format(run=run, more=more, own=own))
    environments = schema.resolve(plan, document)
    return {one.key: (one, Scaled(plan).machine(one)["room"]) for one in environments}


def test_each_environment_has_the_room_that_was_measured_of_it(tmp_path: Path) -> None:
    rooms = resolve(streams(tmp_path))
    assert rooms["lxc"][1] == pytest.approx(10, abs=2)
    assert rooms["box"][1] == pytest.approx(25, abs=4)
    capacity = rooms["box"][0].capacity
    assert (capacity.environment, capacity.trials) == ("box", 5)
    assert capacity.lowest <= capacity.viewers == rooms["box"][1] <= capacity.highest


def test_an_environment_may_say_a_number_or_another_environment(tmp_path: Path) -> None:
    run = streams(tmp_path)
    (_, lxc), (box, seven) = resolve(run, own=", room: 7").values()
    assert (seven, box.capacity) == (7, None)
    (_, first), (_, second) = resolve(run, more=", environment: lxc").values()
    assert first == second == lxc


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"field": "bitrate: 2800000"}, "", "no workload `streaming` with `bitrate: 1000000`"),
    ({"field": "bitrate: 1000000, sent: 1100000"}, "", "with `bitrate: 1000000` looks for"),
    ({"field": "bitrate: 1000000, viewers: 40"}, "", "looks for the largest number"),
    ({"memory": 128 << 20}, "", "`resources: memory` is 134217728 there and 268435456 here"),
    ({"instances": 4}, "", "4 instances of it served together"),
    ({}, ", environment: vm", "its environments are lxc, box"),
]


def test_a_film_that_is_sent_faster_wants_a_room_measured_so(tmp_path: Path) -> None:
    sent = "bitrate: 1000000, sent: 1100000"
    text = ELASTIC.replace("bitrate: 1000000", sent).format(
        run=streams(tmp_path, field=sent), more="", own=""
    )
    plan, document = schema.loads(text)
    (lxc, _) = schema.resolve(plan, document)
    assert lxc.capacity is not None and lxc.capacity.trials == 5
    other = text.replace("sent: 1100000", "sent: 1200000")
    with pytest.raises(UllageError) as caught:
        schema.resolve(*schema.loads(other))
    assert caught.value.kind is errors.ELASTIC_NO_CAPACITY
    assert "with `bitrate: 1000000` and `sent: 1200000` looks" in str(caught.value)


@pytest.mark.parametrize(("run", "more", "reason"), REFUSED)
def test_a_number_of_another_setting_is_none(
    tmp_path: Path, run: dict[str, Any], more: str, reason: str
) -> None:
    with pytest.raises(UllageError) as caught:
        resolve(streams(tmp_path, **run), more)
    assert caught.value.kind is errors.ELASTIC_NO_CAPACITY
    assert reason in str(caught.value)


@pytest.mark.parametrize("written", ["{}", "{viewers: 4, capacity: x}", "{environment: x}", "0"])
def test_a_room_is_a_number_or_a_run(written: str) -> None:
    text = ELASTIC.format(run="", more="", own="").replace("{capacity: }", written)
    with pytest.raises(UllageError) as caught:
        schema.loads(text)
    assert caught.value.kind is errors.PLAN_BAD_FIELD
    assert caught.value.facts["line"] == 2


def test_a_run_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UllageError) as caught:
        resolve(tmp_path / "none")
    assert caught.value.kind is errors.RUN_NOT_FOUND
