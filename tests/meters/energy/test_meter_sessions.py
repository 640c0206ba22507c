"""Energy meters over several sessions of a run, and where one was cut off."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.meters.energy.meterrunkit import (
    FEW_S,
    PLAN,
    engine,
    file_of,
    go,
    namable,
    no_gaps,
    warned,
)
from tests.meters.energy.scripted import Scripted, channel, eventually, lines
from tests.support import patient
from tests.support.enginekit import cut, resumed
from ullage.analysis.energy import series
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.runs.events import Idle
from ullage.runs.reader import RunFolder
from ullage.runs.readings import Channel, Closed, Opened

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("places_of_its_own")]


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Callable[..., type[Scripted]]:
    return namable(monkeypatch)


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    no_gaps(monkeypatch)


def test_ctrl_c_closes_the_file_and_a_resumption_appends(
    meter: Callable[..., type[Scripted]], tmp_path: Path
) -> None:
    meter(7.0)
    first = engine(tmp_path, blocks=3)
    cut(first, 4)
    before = lines(file_of(first))
    assert isinstance(before[-1], Closed)
    second = resumed(first)
    folder = go(second)
    after = lines(file_of(first))
    assert after[: len(before)] == before
    assert isinstance(after[len(before)], Opened)
    assert isinstance(after[-1], Closed)
    stretches = series.read(file_of(first))
    assert [s.opened.session for s in stretches] == [s.tag for s in folder.sessions]
    assert len([event for event in folder.events if isinstance(event, Idle)]) == 2


def test_a_changed_meter_is_no_resumption(
    meter: Callable[..., type[Scripted]], tmp_path: Path
) -> None:
    meter(7.0)
    first = engine(tmp_path, blocks=3)
    cut(first, 4)
    before = file_of(first).read_bytes()
    edits: list[Callable[[str], str]] = [
        lambda text: text.replace('"meter": "scripted"', '"meter": "scripted", "where": "there"'),
        lambda text: text.replace('"wall": {', '"new": {"meter": "scripted"}, "wall": {'),
        lambda text: text.replace('"wall": {', '"plug": {'),
    ]
    for edit in edits:
        with pytest.raises(UllageError) as caught:
            asyncio.run(resumed(first, edit).run())
        assert caught.value.kind is errors.RUN_CHANGED
        assert "the energy meter " in caught.value.message
        assert file_of(first).read_bytes() == before
        assert len(list(file_of(first).parent.iterdir())) == 1


def test_a_meter_that_tells_something_else_now_is_a_warning(
    meter: Callable[..., type[Scripted]], tmp_path: Path
) -> None:
    meter(7.0)
    first = engine(tmp_path, blocks=3)
    cut(first, 4)
    other_channel: Channel = channel("package-0")
    meter({"package-0": 3.0}, channels=[(other_channel,)])
    second = resumed(first, lambda text: text.replace(f'"every": {FEW_S}', '"every": 0.02'))
    folder = go(second)
    assert warned(second) == [
        "what the energy meter wall tells is not what it was when the run began"
    ]
    assert folder.resolved.energy_meters[0].channels == (other_channel,)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, with little room."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_disk_ends_the_run_and_leaves_whole_lines(
    meter: Callable[..., type[Scripted]], small: Path, tmp_path: Path
) -> None:
    meter(7.0)
    run_engine = engine(small, blocks=300)
    filler = small / "filler"

    async def fill() -> None:
        task = asyncio.create_task(run_engine.run())
        while not list(run_engine.folder.glob("trials/*")) and not task.done():
            await asyncio.sleep(0.01)
        with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
            while True:
                file.write(bytes(4096))
        await task

    with pytest.raises(UllageError) as caught:
        asyncio.run(fill())
    assert caught.value.kind is errors.RUN_DISK_FULL
    assert file_of(run_engine).read_bytes().endswith(b"}\n")
    assert lines(file_of(run_engine))


def test_a_killed_run_leaves_a_readable_file_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    ullage = [sys.executable, "-m", patient.__name__, "run", "--runs", str(tmp_path / "runs")]
    process = subprocess.Popen([*ullage, str(tmp_path / "plan.yaml")], start_new_session=True)
    try:
        eventually(lambda: len(list(tmp_path.glob("runs/*/trials/*"))) >= 3, 120)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    (run,) = (tmp_path / "runs").iterdir()
    file = run / "meters/load.jsonl"
    (before,) = series.read(file)
    assert before.readings
    assert before.closed is None
    again = [*ullage, "--resume", str(run)]
    done = subprocess.run(again, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "reading the energy meters load (model)" in done.stderr
    assert "resting 0.2 s" in done.stderr
    first, second = series.read(file)
    assert first.readings == before.readings
    assert second.closed is not None
    assert len(RunFolder.open(run).trials) == 6
