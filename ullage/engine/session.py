"""A controller at work on a run folder, whatever the run is of: that it began, what it warned of,
that all it made is removed again, and how it ended.
"""

from __future__ import annotations

import asyncio
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar

from ullage.common.signals import to_the_end
from ullage.common.text import printable
from ullage.engine import resolved
from ullage.engine.resolved import DIVERGED
from ullage.host import claims, clock, leftovers, paths
from ullage.runs.events import HOST_SHARED, Started, Warned
from ullage.runs.records import Record
from ullage.runs.writer import Journal, now_ns


def left() -> str:
    """What this process has made and not removed, in one line: for an end at once."""
    mine = [
        f"{leftover.kind} {leftover.name}"
        for leftover in leftovers.find(own=True)
        if leftover.tag and claims.claimed_here(leftover.tag)
    ]
    return printable(", ".join(mine) or "nothing", 4000)


class Session(ABC):
    """One controller's work on one folder."""

    ended: ClassVar[type[Record]]
    """What the journal gets at the end."""

    def __init__(self, folder: Path, tell: Callable[[str], None]) -> None:
        """tell: who is told of a warning now."""
        self.folder = folder
        self.tag = paths.new_tag()
        self.began = time.monotonic()
        self.reason = "failed"
        """Why it ends; `_work` says a better one."""
        self.shared = False
        """Another run was seen on this host, and that was said."""
        self.journal: Journal
        self._tell = tell

    @abstractmethod
    async def _work(self) -> None:
        """The work itself, up to `_tear_down`."""

    @abstractmethod
    async def _tear_down(self) -> None:
        """Remove all that was made, however far the work had come."""

    async def _work_to_the_end(self) -> None:
        """Work to the end, an error or a cancellation; whatever was made is removed again."""
        message = ""
        try:
            await self._work()
        except asyncio.CancelledError:
            self.reason = "interrupted"
            raise
        except Exception as error:
            self.reason, message = "failed", str(error)[:2000]
            raise
        finally:
            try:
                await to_the_end(self._tear_down())
            finally:
                self._end(message)

    async def _begin(self, before: Iterable[Started], *, resumed: bool) -> None:
        """Say who works on the folder, and remove what earlier controllers left on the host."""
        self.journal.append(
            Started(
                epoch_ns=now_ns(),
                start_ns=clock.ordered_ns(),
                pid=os.getpid(),
                tag=self.tag,
                resumed=resumed,
                boot_id=claims.boot_id(),
                clock=resolved.own_clock(),
                files=self.journal.given(),
            )
        )
        claims.claim(self.tag, str(self.folder))
        for session in before:
            await self._remove(session.tag)

    async def _remove(self, tag: str) -> None:
        """Remove whatever carries the tag; what stays is said, for `ullage clean` to try again."""
        remains = await asyncio.to_thread(leftovers.find, tag, own=True)
        for leftover, why in await asyncio.to_thread(leftovers.remove, remains):
            self._warn(
                "not-removed", f"{leftover.kind} {leftover.name} could not be removed: {why}"
            )

    def _warn(self, code: str, text: str) -> None:
        self.journal.append(Warned(epoch_ns=now_ns(), code=code, message=text))
        self._tell(text)

    def _look_for_others(self) -> None:
        """Say once that another run works on this host: it is what both then measure."""
        others = claims.living(self.tag)
        if others and not self.shared:
            self.shared = True
            runs = ", ".join(others)
            self._warn(HOST_SHARED, f"another run works on this host at the same time: {runs}")

    def _warn_of_changes(self, changes: Iterable[str]) -> None:
        """Warn of each: the run goes on all the same."""
        for change in changes:
            self._warn(DIVERGED, f"{change} is not what it was when the run began")

    def _end(self, message: str) -> None:
        self.journal.append(
            self.ended.model_validate(
                {
                    "epoch_ns": now_ns(),
                    "seconds": time.monotonic() - self.began,
                    "reason": self.reason,
                    "message": message,
                }
            )
        )
