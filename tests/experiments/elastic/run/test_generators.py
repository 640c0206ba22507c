"""Viewers who come from machines of their own: real agents, a real front, and their faults."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.elastic.stagekit import LONG, Stage
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.quantities import Bytes
from ullage.environments import Instance, InstanceSpec
from ullage.environments.native import Native, NativeOptions
from ullage.environments.placement import Resources
from ullage.environments.provisioning import allocate as allocating
from ullage.environments.provisioning.allocate import Allocated
from ullage.environments.provisioning.node import Site as Host
from ullage.experiments.elastic import folder as folders
from ullage.experiments.elastic.run import viewers
from ullage.experiments.elastic.run.controller import Maker
from ullage.experiments.elastic.run.generators import GeneratorFleet, Machines
from ullage.experiments.elastic.run.nodes import StreamingNodes
from ullage.host import binaries, claims, clock, leftovers, paths

pytestmark = pytest.mark.root
AHEAD_NS = 800_000


@pytest.fixture
def built(built: None, agent_binary: Path) -> Path:
    """The agent's binary, where the programs are there too."""
    return agent_binary


class AheadOfUs(Native):
    """Its agents' clock is ahead of ours, and faster: as that of another machine."""

    async def create(self, spec: InstanceSpec) -> Instance:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ULLAGE_CLOCK_DISTORT", f"2000,{AHEAD_NS}")
            return await super().create(spec)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is claimed here is no run of this host."""
    monkeypatch.setenv("ULLAGE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("ULLAGE_DATA_DIR", str(tmp_path / "data"))


def machines(
    binary: Path, number: int = 2, kind: type[Native] = Native
) -> Callable[[str], Machines]:
    """Agents on this host, in no network of their own."""

    def of(tag: str) -> Machines:
        claims.claim(tag, "/runs/x")
        resources = Resources(cpus=1, memory=Bytes(256 << 20))
        host = Host(tag, kind(NativeOptions()), resources, None, binary, None)
        return Machines(number, host)

    return of


def summary_of(stage: Stage) -> dict[str, Any]:
    text = (stage.repetition.folder / folders.VIEWERS).read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def left_by(stage: Stage) -> list[str]:
    tag = stage.repetition.setting.tag
    return [leftover.name for leftover in leftovers.find(tag) if leftover.kind == "process"]


def watching(tag: str) -> list[int]:
    """Processes of viewers below the run's agents."""
    pids = []
    for path in Path("/proc").iterdir():
        try:
            if path.name.isdigit() and tag in (path / "cgroup").read_text(encoding="utf-8"):
                words = (path / "cmdline").read_bytes().split(b"\0")
                pids += [int(path.name)] if b"run" in words else []
        except OSError:
            continue
    return pids


def test_two_machines_share_one_schedule(built: Path, tmp_path: Path) -> None:
    stage = Stage(tmp_path, machines=machines(built), viewers=7, rate=20).play()
    outcome, summary = stage.outcome, summary_of(stage)
    assert outcome.status == "ok", outcome.reason
    (note,) = outcome.notes
    assert "2 machines" in note and "2 of 2 clocks are the run's own" in note
    sessions = stage.sessions
    assert sorted(session["client"] for session in sessions) == list(range(7))
    assert {session["outcome"] for session in sessions} == {"served"}
    # One schedule: a viewer each 50 ms, from one instant, whichever machine he came from.
    due = {session["client"]: session["due_ns"] for session in sessions}
    bound = outcome.clock_bound_ns
    for client in range(7):
        agreed = outcome.start_ns + client * 50_000_000
        assert abs(due[client] - agreed) <= bound + 1_000, (client, due[client] - agreed)
    assert [entry["due"] for entry in summary["generators"]] == [4, 3]
    assert all(entry["clock_shared"] for entry in summary["generators"])
    assert summary["due"] == summary["outcomes"]["served"] == 7
    machine = stage.repetition.folder / folders.GENERATORS / "generator-of-0r0-m0.json"
    assert summary.keys() == json.loads(machine.read_bytes()).keys() | {"generators"}
    files = sorted(path.name for path in (stage.repetition.folder / folders.GENERATORS).iterdir())
    assert files == [
        f"generator-of-0r0-m{number}.{kind}"
        for number in range(2)
        for kind in ("config.json", "json", "jsonl", "stderr")
    ]
    assert not left_by(stage)


def test_a_machine_with_a_clock_of_its_own_is_corrected(built: Path, tmp_path: Path) -> None:
    stage = Stage(tmp_path, machines=machines(built, 1, AheadOfUs), viewers=4, rate=20).play()
    outcome = stage.outcome
    assert outcome.status == "ok", outcome.reason
    assert "0 of 1 clocks are the run's own" in outcome.notes[0]
    (machine,) = summary_of(stage)["generators"]
    assert not machine["clock_shared"]
    assert machine["clock_bound_ns"] == outcome.clock_bound_ns > 0
    assert abs(machine["zero_off_ns"]) <= outcome.clock_bound_ns
    # The agent's clock was ahead by 0.8 ms at least: what was told verbatim is not what is kept.
    raw = stage.repetition.folder / folders.GENERATORS / f"{machine['name']}.jsonl"
    lines = [json.loads(line) for line in raw.read_text(encoding="utf-8").splitlines()]
    for before, after in zip(lines, stage.sessions, strict=True):
        moved = before["asked_ns"] - after["asked_ns"]
        assert moved >= AHEAD_NS - outcome.clock_bound_ns, moved


def test_one_that_dies_ends_the_repetition(built: Path, tmp_path: Path) -> None:
    async def script(stage: Stage) -> None:
        await stage.streams(1)
        os.kill(watching(stage.repetition.setting.tag)[0], signal.SIGKILL)

    stage = Stage(tmp_path, machines=machines(built), viewers=6, length=60).play(script)
    assert stage.outcome.status == "failed"
    assert stage.outcome.reason is not None
    assert stage.outcome.reason.code == errors.ELASTIC_GENERATOR_FAILED.code
    assert "killed by signal 9" in stage.outcome.reason.message
    assert not (stage.repetition.folder / folders.SESSIONS).exists()
    assert not left_by(stage)


def test_a_machine_that_dies_ends_the_repetition(built: Path, tmp_path: Path) -> None:
    async def script(stage: Stage) -> None:
        await stage.streams(1)
        viewers = stage.repetition.viewers
        assert isinstance(viewers, GeneratorFleet)
        pid = viewers.instances[1].agent.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    stage = Stage(tmp_path, machines=machines(built), viewers=6, length=60).play(script)
    assert stage.outcome.status == "failed"
    assert stage.outcome.reason is not None
    # With its agent its viewers die: what is heard first is told.
    ways = {errors.AGENT_LOST.code, errors.ELASTIC_GENERATOR_FAILED.code}
    assert stage.outcome.reason.code in ways
    assert "generator-of-0r0-m1" in stage.outcome.reason.message
    assert not (stage.repetition.folder / folders.SESSIONS).exists()
    assert not left_by(stage)


def test_one_that_was_late_makes_the_repetition_invalid(built: Path, tmp_path: Path) -> None:
    stage = Stage(tmp_path, machines=machines(built), viewers=4)
    plan = stage.repetition.setting.plan.model_copy(update={"lateness_limit": 1e-6})
    object.__setattr__(stage.repetition.setting, "plan", plan)
    stage.play()
    assert stage.outcome.status == "invalid"
    assert stage.outcome.reason is not None
    assert stage.outcome.reason.code == "viewers-invalid"
    assert "generator-of-0r0-" in stage.outcome.reason.message


def test_a_front_that_is_not_reached_is_told(built: Path, tmp_path: Path) -> None:
    async def play() -> UllageError:
        tag = paths.new_tag()
        async with GeneratorFleet(machines(built, 1)(tag), "one", tmp_path, LONG) as generators:
            nowhere = {"front": "http://127.0.0.1:9", "arrivals": {"kind": "uniform"}}
            with pytest.raises(UllageError) as caught:
                await generators.run(nowhere)
        assert generators.leftovers == ()
        return caught.value

    error = asyncio.run(play())
    assert error.kind is errors.ELASTIC_GENERATOR_CUT_OFF
    assert "refused" in error.message


def test_a_machine_that_cannot_be_had_leaves_no_other(built: Path, tmp_path: Path) -> None:
    class Scarce(Native):
        async def create(self, spec: InstanceSpec) -> Instance:
            if spec.name.endswith("-m1"):
                raise UllageError(errors.NETWORK_FULL, what="every place", where="the cloud")
            return await super().create(spec)

    began = clock.ordered_ns()
    stage = Stage(tmp_path, machines=machines(built, 2, Scarce)).play()
    assert stage.outcome.status == "failed"
    assert stage.outcome.reason is not None
    assert stage.outcome.reason.code == errors.NETWORK_FULL.code
    assert stage.outcome.start_ns >= began
    assert not left_by(stage)


def test_no_node_has_a_generator_s_name(tmp_path: Path) -> None:
    stage = Stage(tmp_path, machines=machines(Path("agent"), 3))
    own = stage.repetition.environment
    for key in ("generator", "generator-of", "generator-of-0r0"):
        environment = dataclasses.replace(own, key=key)
        host = machines(Path("agent"), 1)(stage.repetition.setting.tag).host
        maker: Callable[[str, Path], Maker] = partial(StreamingNodes, host, 1.0)
        setting = dataclasses.replace(stage.repetition.setting, makers={key: maker})
        viewers = setting.viewers(environment, 0, tmp_path)
        assert isinstance(viewers, GeneratorFleet)
        nodes = setting.maker(environment, 0)
        names = {nodes.name(node, attempt) for node in range(4) for attempt in (1, 2)}
        assert len(viewers.names) == 3
        assert not names & set(viewers.names)


def test_one_that_is_made_is_removed_when_the_others_are_not_waited_for(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Native):
        async def create(self, spec: InstanceSpec) -> Instance:
            if spec.name.endswith("-m1"):
                await asyncio.Event().wait()
            return await super().create(spec)

    allocate, all_asked = allocating.allocate, asyncio.Event()

    async def heard(host: Host, name: str) -> Allocated:
        allocated = await allocate(host, name)
        all_asked.set()
        return allocated

    async def play() -> list[str]:
        tag = paths.new_tag()
        generators = GeneratorFleet(machines(built, 2, Slow)(tag), "one", tmp_path, LONG)
        entering = asyncio.create_task(generators.__aenter__())
        await all_asked.wait()
        await asyncio.sleep(0)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        return [
            leftover.name
            for leftover in leftovers.find(tag, own=True)
            if leftover.kind == "process"
        ]

    monkeypatch.setattr(allocating, "allocate", heard)
    assert asyncio.run(play()) == []


def test_machines_are_removed_side_by_side(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for all others to be leaving; one that cannot be removed is told."""
    release, all_leave = allocating.release, asyncio.Barrier(3)

    async def leaving(machine: Allocated, **more: Any) -> tuple[int, int]:
        async with asyncio.timeout(60):
            await all_leave.wait()
        released = await release(machine, **more)
        if machine.instance.name.endswith("-m1"):
            raise UllageError(errors.NETWORK_FULL, what="no place", where="the cloud")
        return released

    async def play() -> tuple[GeneratorFleet, list[str]]:
        tag = paths.new_tag()
        async with GeneratorFleet(machines(built, 3)(tag), "one", tmp_path, LONG) as generators:
            monkeypatch.setattr(allocating, "release", leaving)
        processes = leftovers.find(tag, own=True)
        return generators, [leftover.name for leftover in processes if leftover.kind == "process"]

    generators, leftover_names = asyncio.run(play())
    assert leftover_names == []
    (why,) = generators.leftovers
    assert why.startswith("one-m1: ") and "the cloud" in why


def test_what_answers_in_the_place_of_a_front_is_told(built: Path) -> None:
    async def strange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\n\r\n")
        writer.close()

    async def ask() -> tuple[int | None, str]:
        async with await asyncio.start_server(strange, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            asking = await asyncio.create_subprocess_exec(
                str(binaries.program(viewers.PROGRAM)),
                *("reach", "--front", f"http://{host}:{port}"),
                stderr=asyncio.subprocess.PIPE,
            )
            _, text = await asking.communicate()
        return asking.returncode, text.decode()

    status, stderr = asyncio.run(ask())
    assert status == 1
    assert stderr.endswith(": what answers there is no front\n")
