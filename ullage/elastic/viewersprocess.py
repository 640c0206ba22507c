"""The viewers, as the controller sees them: a process that runs to its end and sums up."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ullage import ours
from ullage.agentchannel import printable
from ullage.commands import tail
from ullage.elastic.folder import VIEWERS, VIEWERS_CONFIG, VIEWERS_STDERR
from ullage.elastic.frontprocess import ended
from ullage.errors import ELASTIC_VIEWERS_FAILED, UllageError
from ullage.journal import put
from ullage.runs import LATEST_NS

PROGRAM: Final = "ullage-viewers"
_LONGEST_SUMMARY: Final = 16 << 20


class Summary(BaseModel):
    """What of their summary decides whether the repetition counts; `viewers.json` has all of it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    valid: bool
    started_ns: int = Field(ge=0, lt=LATEST_NS)
    """Their schedule's zero."""
    ended_ns: int = Field(ge=0, lt=LATEST_NS)
    """The last of them was gone."""
    why: str | list[str] | None = None

    @property
    def reason(self) -> str:
        """Why it is not valid, in one line."""
        said = self.why if isinstance(self.why, list) else [self.why or "they do not say why"]
        return printable("; ".join(map(str, said)), 500)


class Viewers:
    """All viewers of one repetition."""

    def __init__(self, settings: dict[str, Any], folder: Path, tag: str) -> None:
        self.settings, self.folder, self.tag = settings, folder, tag
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """Of the process that starts all others; None before it runs."""
        return None if self._process is None else self._process.pid

    async def run(self) -> Summary:
        """Run them all; `viewers.json` has their summary then. ELASTIC_VIEWERS_FAILED."""
        config = self.folder / VIEWERS_CONFIG
        put(config, json.dumps(self.settings, indent=1).encode())
        with (self.folder / VIEWERS_STDERR).open("wb") as stderr:
            self._process = process = await asyncio.create_subprocess_exec(
                str(ours.program(PROGRAM)),
                "run",
                "--config",
                str(config),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, "ULLAGE_TAG": self.tag},
                start_new_session=True,  # a Ctrl-C is for us alone
            )
        assert process.stdout is not None
        try:
            said = await process.stdout.read(_LONGEST_SUMMARY + 1)
            while len(said) <= _LONGEST_SUMMARY and (more := await process.stdout.read(1 << 16)):
                said += more
            status = await process.wait()
        finally:
            await self.kill()
        try:
            summary = Summary.model_validate_json(said)
        except ValidationError:
            told = tail(
                (self.folder / VIEWERS_STDERR).read_bytes()[-4096:].decode("utf-8", "replace")
            )
            reason = f"{ended(status)}: {printable(told, 500)}" if told else ended(status)
            raise UllageError(ELASTIC_VIEWERS_FAILED, reason=reason) from None
        put(self.folder / VIEWERS, said)
        return summary

    async def kill(self) -> None:
        """See that they are gone, with all their processes."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, 9)
            await self._process.wait()
