"""A repetition with a real front, viewers and nodes that are processes here, and its faults."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.experiments.elastic.stagekit import LONG, PLAN, USUAL, Stage
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.elastic import folder as folders
from ullage.experiments.elastic.folder import (
    FrontEnded,
    Lost,
    NotReady,
    Ready,
    Release,
    RepetitionOutcome,
    Retried,
)
from ullage.experiments.elastic.plan import schema
from ullage.experiments.elastic.plan.schema import Arrivals
from ullage.experiments.elastic.run import checks, front, nodes, viewers
from ullage.host import binaries
from ullage.workloads.web import clip


def test_viewers_come_nodes_come_and_all_go(built: None, tmp_path: Path) -> None:
    stage = Stage(tmp_path).play()
    outcome = stage.outcome
    assert (outcome.status, outcome.reason, outcome.notes) == ("ok", None, ())
    assert [session["outcome"] for session in stage.sessions] == ["served"] * 6
    assert outcome.start_ns <= min(session["due_ns"] for session in stage.sessions)
    assert outcome.end_ns >= max(session["ended_ns"] for session in stage.sessions)
    ready, released = stage.acts(Ready), stage.acts(Release)
    assert {act.node for act in ready} == {act.node for act in released}
    assert not any(act.end for act in released)
    # The front heard of every release before it ended: its log is whole.
    gone = {event["node"] for event in stage.events if event.get("event") == "released"}
    assert gone == {act.node for act in released}


def test_a_front_that_is_killed_does_not_end_the_repetition(built: None, tmp_path: Path) -> None:
    async def script(stage: Stage) -> None:
        await stage.streams(1)
        os.kill(stage.repetition.front.pid, signal.SIGKILL)

    stage = Stage(tmp_path, rate=5, viewers=8).play(script)
    assert stage.outcome.status == "ok"
    assert stage.outcome.notes == ("the front died 1 time and was started again on its log",)
    (ended,) = stage.acts(FrontEnded)
    assert ended.how == "it was ended by SIGKILL"
    assert len(stage.sessions) == 8


def test_who_waits_at_a_front_that_is_told_to_end_asks_the_next(
    built: None, tmp_path: Path
) -> None:
    def waits(stage: Stage) -> bool:
        begun = (stage.repetition.folder / folders.FRONT_LOG).is_file()
        return begun and any(event.get("action") == "wait" for event in stage.events)

    async def script(stage: Stage) -> None:
        while not waits(stage):
            await asyncio.sleep(0.01)
        os.kill(stage.repetition.front.pid, signal.SIGTERM)
        while not stage.acts(FrontEnded):
            await asyncio.sleep(0.01)
        again.set()

    async def slow(_: int) -> None:
        await again.wait()

    again = asyncio.Event()
    stage = Stage(tmp_path, viewers=2)
    stage.nodes.trouble = slow
    stage.play(script)
    assert stage.outcome.status == "ok"
    assert [session["outcome"] for session in stage.sessions] == ["served", "served"]


def test_a_node_that_dies_is_told_to_the_front_and_ends_nothing(
    built: None, tmp_path: Path
) -> None:
    async def script(stage: Stage) -> None:
        await stage.streams(1)
        while not any(session for session in stage.events if session.get("action") == "redirect"):
            await asyncio.sleep(0.01)
        stage.nodes.running[0].death.set()  # and its process with it, once the front has been told

    stage = Stage(tmp_path, viewers=2, length=3).play(script)
    assert stage.outcome.status == "ok"
    assert "1 node died while streaming" in stage.outcome.notes
    (lost,) = stage.acts(Lost)
    assert lost.why == "its host burns"
    assert {"event": "node_failed", "node": lost.node} in [
        {name: event.get(name) for name in ("event", "node")} for event in stage.events
    ]
    assert len(stage.sessions) == 2


def test_nodes_that_cannot_be_had_block_their_viewers(built: None, tmp_path: Path) -> None:
    async def script(stage: Stage) -> None:
        async def refuse(_: int) -> None:
            raise UllageError(errors.NETWORK_FULL, what="every place", where="the cloud")

        stage.nodes.trouble = refuse

    stage = Stage(tmp_path, viewers=3, patience=0.5).play(script)
    assert stage.outcome.status == "ok"
    assert {session["outcome"] for session in stage.sessions} == {"blocked"}
    assert stage.acts(NotReady)
    assert len(stage.acts(Retried)) == 2 * len(stage.acts(NotReady))
    assert any("could not be allocated" in note for note in stage.outcome.notes)


def test_an_injected_delay_is_told_once(built: None, tmp_path: Path) -> None:
    """As the doubt `boot-delay`, which the settings of the run give: not as a note besides."""
    stage = Stage(tmp_path, viewers=1)
    stage.repetition.environment = replace(stage.repetition.environment, boot_delay=0.1)
    stage.play()
    assert (stage.outcome.status, stage.outcome.notes) == ("ok", ())
    assert [act.injected_s for act in stage.acts(Ready)] == [0.1]


def test_who_has_no_patience_is_blocked_at_once(built: None, tmp_path: Path) -> None:
    stage = Stage(tmp_path, viewers=1, patience=0).play()
    assert [session["outcome"] for session in stage.sessions] == ["blocked"]


def played_until_viewers_get(number: signal.Signals, place: Path) -> RepetitionOutcome:
    """A repetition whose viewers' processes get a signal while one of them watches."""

    async def script(stage: Stage) -> None:
        await stage.streams(1)
        assert isinstance(stage.repetition.viewers, viewers.Viewers)
        pid = stage.repetition.viewers.pid
        assert pid is not None
        os.killpg(pid, number)

    return Stage(place, viewers=4, length=30).play(script).outcome


def test_viewers_that_are_killed_fail_the_repetition(built: None, tmp_path: Path) -> None:
    outcome = played_until_viewers_get(signal.SIGKILL, tmp_path)
    assert outcome.status == "failed"
    assert outcome.reason is not None
    assert outcome.reason.code == errors.ELASTIC_VIEWERS_FAILED.code
    assert "SIGKILL" in outcome.reason.message
    assert outcome.meters == {}


def test_viewers_that_were_told_to_end_make_the_repetition_invalid(
    built: None, tmp_path: Path
) -> None:
    outcome = played_until_viewers_get(signal.SIGTERM, tmp_path)
    assert outcome.status == "invalid"
    assert outcome.reason is not None
    assert "ended from outside" in outcome.reason.message


def test_a_front_that_dies_too_often_fails_the_repetition(built: None, tmp_path: Path) -> None:
    async def script(stage: Stage) -> None:
        await stage.streams(1)
        os.kill(stage.repetition.front.pid, signal.SIGKILL)

    stage = Stage(tmp_path, viewers=4, length=30, front=0).play(script)
    assert stage.outcome.status == "failed"
    assert stage.outcome.reason is not None
    assert stage.outcome.reason.code == errors.ELASTIC_FRONT_DIED.code


def test_a_repetition_that_takes_too_long_is_given_up(built: None, tmp_path: Path) -> None:
    stage = Stage(tmp_path, viewers=2, length=300, limit=2).play()
    assert stage.outcome.status == "failed"
    assert stage.outcome.reason is not None
    assert stage.outcome.reason.code == errors.ELASTIC_TOO_LONG.code, stage.outcome.reason


def test_a_front_that_stands_still_ends_the_repetition_at_once(built: None, tmp_path: Path) -> None:
    async def script(stage: Stage) -> None:
        await stage.streams(1)
        os.kill(stage.repetition.front.pid, signal.SIGSTOP)

    stage = Stage(tmp_path, viewers=4, length=300, limit=600, silence=1).play(script)
    assert stage.outcome.status == "failed"
    assert stage.outcome.reason is not None
    assert stage.outcome.reason.code == errors.ELASTIC_FRONT_SILENT.code
    assert stage.repetition.front.deaths == []  # it was ended, and not started again


def test_a_cancelled_repetition_leaves_no_node(built: None, tmp_path: Path) -> None:
    stage = Stage(tmp_path, viewers=2, length=30)

    async def whole() -> None:
        running = asyncio.create_task(stage.repetition.run())
        async with asyncio.timeout(LONG):
            await stage.streams(1)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    asyncio.run(whole())
    assert all(node.process.returncode is not None for node in stage.nodes.running)
    assert folders.read_outcome(stage.repetition.folder) is None
    assert len(stage.acts(Release)) == 1  # by us, or by the front when its viewers were gone


def test_what_is_missing_is_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, document = schema.loads(PLAN.format(**USUAL))
    environments = schema.resolve(plan, document)

    def refused() -> UllageError:
        with pytest.raises(UllageError) as caught:
            asyncio.run(checks.check(plan, environments, document))
        return caught.value

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert refused().kind is errors.HOST_NEEDS_ROOT
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(binaries, "DIRECTORY", tmp_path)
    assert refused().kind is errors.PROGRAM_MISSING
    for name in (front.PROGRAM, viewers.PROGRAM):
        (tmp_path / name).touch()
    trace = tmp_path / "trace"
    trace.write_text("never\n", encoding="ascii")
    arrivals = Arrivals(kind="trace", file=trace)
    plan = plan.model_copy(update={"arrivals": arrivals})
    assert refused().kind is errors.ELASTIC_BAD_TRACE
    plan, document = schema.loads(
        PLAN.format(**USUAL).replace("provider: lxc", "provider: qemu, network: user")
    )
    environments = schema.resolve(plan, document)
    assert refused().kind is errors.ELASTIC_NO_ADDRESS


def test_the_film_is_made_once_and_of_the_size_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path))
    steps: list[str] = []
    first = asyncio.run(clip.make(1.5, 800_000, "bytes", steps.append))
    again = asyncio.run(clip.make(1.5, 800_000, "bytes", steps.append))
    assert first == again
    assert len(steps) == 1
    assert first.size == first.file.stat().st_size == 150_000
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UllageError) as caught:
        asyncio.run(clip.make(1.5, 800_000, "h264", steps.append))
    assert caught.value.kind is errors.HOST_MISSING
    (tmp_path / "ffmpeg").write_text("#!/bin/sh\nexit 3\n", encoding="ascii")
    (tmp_path / "ffmpeg").chmod(0o755)
    with pytest.raises(UllageError) as caught:
        asyncio.run(clip.make(2.5, 800_000, "h264", steps.append))
    assert caught.value.kind is errors.ELASTIC_NO_CLIP


def test_nginx_serves_nothing_but_the_film() -> None:
    application = nodes.application_of(Path("film"), 2, "lxc-2-7")
    text = bytes(application.files["server.conf"]).decode()
    assert "worker_processes 2;" in text
    assert "location / { return 404; }" in text
    assert application.path == "/lxc-2-7.mp4"
