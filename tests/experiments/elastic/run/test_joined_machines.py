"""The record of a run whose machines are joined: what they are on the network stands in it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ullage.experiments.elastic.folder import ElasticResolved
from ullage.experiments.elastic.plan import schema
from ullage.experiments.elastic.run import run as runs
from ullage.experiments.elastic.run.run import ElasticExecution, task_of
from ullage.runs.records import NodeRecord
from ullage.workloads.web import clip
from ullage.workloads.web.clip import Clip

PLAN = """\
name: film
room: 4
environments: {box: {provider: oci}}
machines: {a: {ssh: root@a}}
arrivals: {kind: poisson, rate: 0.01, viewers: 20}
"""
MTU = "routes, MTU 1500"


class JoinedRoster:
    """One machine, which tells what it is on the network once it has joined it."""

    def __init__(self, *_: object) -> None:
        self.facts: dict[str, Any] = {}

    async def open(self, environments: object) -> list[str]:
        return []

    async def join(self, built: object) -> Any:
        self.facts["between"] = MTU
        return SimpleNamespace(beyond=None, check_forwarding=nothing)

    def records(self) -> dict[str, NodeRecord]:
        return {"a": NodeRecord(address="root@a", facts=dict(self.facts))}

    def pool(self, here: object, place: object) -> None:
        """Nobody makes nodes."""


async def nothing(*_: object) -> Any:
    return None


async def anything(*_: object) -> Any:
    return SimpleNamespace()


async def film(*_: object) -> Clip:
    return Clip(Path("film"), "bytes", "00", 1000, "a test")


def test_what_machines_are_on_the_network_stands_in_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "PoolRoster", JoinedRoster)
    monkeypatch.setattr(ElasticExecution, "_image", anything)
    monkeypatch.setattr(clip, "make", film)
    monkeypatch.setattr(runs, "programs", lambda _: {})
    plan, document = schema.loads(PLAN)
    progress: Any = SimpleNamespace(step=lambda _: None, warning=lambda _: None)
    run = ElasticExecution(task_of(plan, document), tmp_path, progress)
    written: list[ElasticResolved] = []
    journal: Any = SimpleNamespace(resolve=written.append)
    run.journal = journal
    asyncio.run(run._prepared())
    (resolved,) = written
    assert resolved.machines["a"].facts["between"] == MTU
    assert resolved.between == "routes"
