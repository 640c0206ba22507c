"""The viewers, as the controller sees them: a process that runs to its end and sums up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ullage.common import processes
from ullage.common.errors import ELASTIC_VIEWERS_FAILED, UllageError
from ullage.common.files import put
from ullage.common.text import printable
from ullage.experiments.elastic.folder import VIEWERS, VIEWERS_CONFIG, VIEWERS_STDERR
from ullage.experiments.elastic.run.process import ended, last_words, spawn
from ullage.runs.records import LATEST_NS

PROGRAM: Final = "ullage-viewers"
LONGEST_SUMMARY: Final = 16 << 20


class ViewersOutcome(BaseModel):
    """What of their summary decides whether the repetition counts; `viewers.json` has all of it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    valid: bool
    interrupted: bool = False
    """They were ended from outside: who still watched was cut, and some did not come."""
    started_ns: int = Field(ge=0, lt=LATEST_NS)
    """Their schedule's zero."""
    ended_ns: int = Field(ge=0, lt=LATEST_NS)
    """The last of them was gone."""
    why: str | list[str] | None = None

    @property
    def reason(self) -> str:
        """Why it is not valid, in one line."""
        reasons = self.why if isinstance(self.why, list) else [self.why or "they do not say why"]
        return printable("; ".join(map(str, reasons)), 500)


class AnyViewers(Protocol):
    """All viewers of one repetition; within `async with` they can be run."""

    notes: Sequence[str]
    """How well they did, when they have."""
    clock_bound_ns: int
    """Their instants are not further off than this, or than our own."""
    leftovers: Sequence[str]
    """What of theirs could not be removed, and why."""

    async def __aenter__(self) -> AnyViewers:
        """Make what they need."""

    async def __aexit__(self, *_: object) -> None:
        """Remove what they needed."""

    async def run(self, settings: dict[str, Any]) -> ViewersOutcome:
        """Run them all; `viewers.json` and `sessions.jsonl` are there then."""


class Viewers:
    """All viewers of one repetition, as processes of this host."""

    def __init__(self, folder: Path, tag: str) -> None:
        self.folder, self.tag = folder, tag
        self.notes: Sequence[str] = ()
        self.leftovers: Sequence[str] = ()
        self.clock_bound_ns = 0
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Viewers:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    @property
    def pid(self) -> int | None:
        """Of the process that starts all others; None before it runs."""
        return None if self._process is None else self._process.pid

    async def run(self, settings: dict[str, Any]) -> ViewersOutcome:
        """Run them all; `viewers.json` has their summary then. ELASTIC_VIEWERS_FAILED."""
        stderr = self.folder / VIEWERS_STDERR
        self._process = process = await spawn(
            (PROGRAM, "run"),
            self.folder / VIEWERS_CONFIG,
            settings,
            stderr,
            self.tag,
            stdin=asyncio.subprocess.DEVNULL,
        )
        assert process.stdout is not None
        try:
            output = await process.stdout.read(LONGEST_SUMMARY + 1)
            while len(output) <= LONGEST_SUMMARY and (more := await process.stdout.read(1 << 16)):
                output += more
            status = await process.wait()
        finally:
            await self.kill()
        try:
            summary = ViewersOutcome.model_validate_json(output)
        except ValidationError:
            words = printable(last_words(stderr), 500)
            reason = f"{ended(status)}: {words}" if words else ended(status)
            raise UllageError(ELASTIC_VIEWERS_FAILED, reason=reason) from None
        put(self.folder / VIEWERS, output)
        return summary

    async def kill(self) -> None:
        """See that they are gone, with all their processes."""
        if self._process is not None:
            await processes.end(self._process, group=True)
