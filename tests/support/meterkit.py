"""`ullage meter` as scripts call it, and files of readings that were made up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.meters.energy.scripted import channel, eventually, lines
from tests.support import commandkit
from tests.support.commandkit import Done
from ullage.meters.energy import logger as background
from ullage.meters.energy.recorder import LineFile
from ullage.runs.readings import Opened, Reading
from ullage.runs.records import Record

QUICK = ("model", "-o", "idle_watts=10", "-o", "core_watts=5", "--every", "0.05")
MODEL = (*QUICK[:-1], "1s")
"""On a busy machine too, a reading comes within four of these: there is no gap."""


class Shell:
    """Runs `ullage meter` as a script does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *words: str) -> Done:
        return commandkit.ullage("meter", *words, cwd=self.folder, timeout_s=300)


@pytest.fixture
def meter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """The command; every logger that a test left is ended."""
    monkeypatch.setenv("ULLAGE_STATE_DIR", str(tmp_path / "state"))
    yield Shell(tmp_path)
    for logger in background.loggers():
        background.stop(logger)


def enough(file: Path, readings: int = 3) -> None:
    """Wait until it has so many."""
    eventually(lambda: sum(isinstance(line, Reading) for line in lines(file)) >= readings)


S = 10**9
EPOCH = 1_700_000_000 * S


def record_file(file: Path, *records: Record) -> Path:
    """A file with these lines."""
    with LineFile(file) as written:
        for line in records:
            written.append(line)
    return file


def opened(at_s: float = 100, epoch_s: float = 0, *, power: bool = True) -> Opened:
    return Opened(
        session="u0000001",
        label="wall",
        meter="nut",
        options={},
        every_s=1,
        channels=(channel(kind="power" if power else "energy"),),
        epoch_ns=EPOCH + round(epoch_s * S),
        at_ns=round(at_s * S),
    )


def steady(first_s: int, last_s: int, watts: float = 50) -> list[Reading]:
    return [
        Reading(at_ns=n * S, within_ns=1000, values={"wall": watts + 0.1 * (n % 2)})
        for n in range(first_s, last_s + 1)
    ]
