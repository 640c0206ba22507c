"""What kept a number of streams from being larger: said from what was used of each resource."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.workloads.web_samples import printing, sample
from ullage.workloads.web import streaming
from ullage.workloads.web.streaming import Streaming, StreamingParameters

STREAMING = Streaming()
SEARCH = StreamingParameters(
    chunk=524_288, buffer_s=2.0, step_s=6.0, start=1, cap=64, tries=1, late_limit_s=1.0
)
BITRATE = 2_800_000
ABOVE = 4
"""Viewers of the step that was not sustained; three were."""


@pytest.fixture(autouse=True)
def host_of_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "host_cpus", lambda: 8)


def limit_of(
    *,
    cpus: float = 0.0,
    processes: int = 2,
    viewers: Callable[[Any], None] = lambda run: None,
    link: int | None = None,
) -> str:
    """Of the recorded search, had the server used so many CPUs for the four of its step."""
    outputs = sample("streaming", "found")
    result = json.loads(outputs["client"].stdout)
    for step in result["steps"]:
        if step["viewers"] == ABOVE:
            viewers(step["run"])
            moved_bps = min(step["run"]["bytes_per_s"] * 8, ABOVE * BITRATE)
    video_s = sum(step["run"]["bytes"] for step in result["steps"]) * 8 / moved_bps
    listening, used, _ = outputs["server"].stdout.split("\n")
    seconds = max(1e-9, cpus * video_s)
    more = {"serving_cpu_s": seconds, "total_cpu_s": seconds, "processes": processes}
    outputs = printing(outputs, "client", json.dumps(result))
    text = "\n".join((listening, json.dumps(json.loads(used) | more), ""))
    outputs = printing(outputs, "server", text)
    outputs["server"] = replace(outputs["server"], usage=None)  # it is of the recorded run
    parameters = SEARCH.model_copy(update={"link": link})
    STREAMING.check(parameters, outputs)
    return STREAMING.facts(parameters, outputs)["limit"]


def busy(share: float) -> Callable[[Any], None]:
    return lambda run: run.update(cpu_share=share, cpu_s=share * run["seconds"])


def test_the_servers_cpus() -> None:
    assert limit_of(cpus=0.8) == "the servers' CPUs, 1: 80% used"
    assert limit_of(cpus=0.79).startswith("none found: ")
    assert limit_of(cpus=0.8, processes=3).startswith("none found: ")
    assert limit_of(cpus=1.7, processes=3) == "the servers' CPUs, 2: 85% used"


def test_more_servers_than_the_host_has_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "host_cpus", lambda: 2)
    assert limit_of(cpus=1.7, processes=9) == "the servers' CPUs, 2: 85% used"


def test_the_viewers_own_cpu_is_said_before_the_servers() -> None:
    assert limit_of(cpus=0.9, viewers=busy(0.8)) == "the viewers' own CPU: 80% used"


def test_the_hosts_cpus_that_both_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "host_cpus", lambda: 2)
    assert limit_of(cpus=1.0, processes=5, viewers=busy(0.7)) == "this host's CPUs, 2: 85% used"


def test_the_link_where_the_plan_says_what_it_carries() -> None:
    def full(run: Any) -> None:
        run.update(bytes_per_s=3.6 * BITRATE / 8, seconds=run["bytes"] / (3.6 * BITRATE / 8))

    assert limit_of(viewers=full, link=4 * BITRATE) == "the link: 90% used"
    assert "the link 45%" in limit_of(viewers=full, link=8 * BITRATE)
    # What was never delivered cost the servers nothing.
    assert limit_of(viewers=full, link=4 * BITRATE, cpus=0.45) == "the link: 90% used"


def test_none_found_names_what_was_looked_at() -> None:
    limit = limit_of(cpus=0.1)
    assert limit.startswith("none found: the viewers' own CPU 0%, the servers' CPUs, 1 10%")
    assert "the link" not in limit


@pytest.mark.parametrize("sustained", [True, False])
def test_a_number_that_was_given(sustained: bool) -> None:
    outputs = sample("streaming", "fixed")
    result = json.loads(outputs["client"].stdout)
    if sustained:
        result["violations"] = {"count": 0, "viewers": 0, "length_s": {}}
        result["bytes"] = 6 * 9 * BITRATE // 8
        result["bytes_per_s"] = result["bytes"] / result["seconds"]
    requested = StreamingParameters(
        chunk=1_048_576, buffer_s=1.0, step_s=8.0, viewers=6, late_limit_s=1.0
    )
    outputs = printing(outputs, "client", json.dumps(result))
    limit = STREAMING.facts(requested, outputs)["limit"]
    assert limit.startswith("none: " if sustained else "none found: ")
