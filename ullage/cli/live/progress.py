"""Feeds the page: reads the journal whenever the engine says that something is in it.

Everything is made between two trials, in the engine's own thread, so that no trial has it beside
it. Of a long run the analysis is not made after each block: it gets a fiftieth of the time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ullage.analysis import overhead
from ullage.cli.live import page
from ullage.cli.live.feed import Feed
from ullage.cli.live.server import LiveServer
from ullage.common.console import stderr
from ullage.common.errors import ExitCode
from ullage.engine.progress import Progress
from ullage.plan.schema import Plan
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder

SHARE: Final = 1 / 50
"""Of the run's time, for the analysis that the page shows."""
KEPT: Final = 50
"""Warnings that are kept."""


class LiveProgress:
    """Implements `ullage.engine.progress.Progress`: tells `inner`, then the page."""

    def __init__(self, inner: Progress, folder: Path, blocks_max: int, feed: Feed) -> None:
        self.inner, self.folder, self.feed = inner, folder, feed
        self.began = time.monotonic()
        self.first_block: float | None = None
        self.looked = self.began
        self.look_cost = 0.0
        self.before = 0
        """Blocks that earlier sessions had done."""
        self.trials: tuple[Trial, ...] = ()
        self.warned: tuple[str, ...] = ()
        self.state = page.State("starting", 0, blocks_max, 0, 0, None, None, 0)
        self.feed.put({"head": page.head(self.state)})

    def step(self, text: str) -> None:
        """A stage of the set-up began."""
        self.inner.step(text)
        self._update(step=text)

    def trial(self, done: Trial, number: int, of_block: int) -> None:
        self.inner.trial(done, number, of_block)
        if self.first_block is None:
            took = (done.end_ns - done.start_ns) / 1e9
            self.first_block, self.before = time.monotonic() - took, self.state.blocks
        self.trials = (*self.trials, done)[-page.LOG :]
        self.feed.put({"log": page.log(self.trials)})
        failed = self.state.failed + (done.status != "ok")
        step = f"measuring block {done.block + 1}"
        self._update(step=step, done=number, of_block=of_block, failed=failed)

    def block(self, number: int, most: int, half_width: float | None) -> None:
        """A block ended: what do all trials say so far?"""
        self.inner.block(number, most, half_width)
        self._update(
            blocks=number, done=0, half_width=half_width, left_s=self._left_s(number, most)
        )
        if self._may_look():
            self._look()

    def warning(self, text: str) -> None:
        """Something the user should know now."""
        self.inner.warning(text)
        self.warned = (*self.warned, text)[-KEPT:]
        self.feed.put({"warnings": page.warnings(self.warned)})

    def ended(self, reason: str, report: str = "") -> None:
        """The run is over: all that there is."""
        if self.trials:
            self._look()
        self.feed.put({"head": page.ended(reason, report)})

    def _update(self, **changed: object) -> None:
        self.state = page.State(**{**vars(self.state), **changed})
        self.feed.put({"head": page.head(self.state)})

    def _left_s(self, number: int, most: int) -> float | None:
        if self.first_block is None or number <= self.before:
            return None
        block_s = (time.monotonic() - self.first_block) / (number - self.before)
        return block_s * (most - number)

    def _may_look(self) -> bool:
        return time.monotonic() - self.looked >= self.look_cost / SHARE

    def _look(self) -> None:
        """A page that fails must not end what is measured."""
        began = time.monotonic()
        try:
            answer = page.answer(overhead.analyse(RunFolder.open(self.folder)))
        except Exception as error:
            self.warning(f"the live page has no figures: {error}")
            return
        self.feed.put({"answer": answer})
        self.looked = time.monotonic()
        self.look_cost = self.looked - began


@contextmanager
def followed(inner: Progress, folder: Path, plan: Plan, port: int) -> Iterator[Progress]:
    """Serve the page at a port (0: any that is free), say where, and tell it how the run ends."""
    feed = Feed()
    progress = LiveProgress(inner, folder, plan.blocks.max, feed)
    with LiveServer(feed, plan.name, port) as server:
        stderr.print(f"live: {server.url}", soft_wrap=True)
        try:
            yield progress
        except BaseException as error:
            interrupted = getattr(error, "exit_code", None) == ExitCode.INTERRUPTED
            progress.ended("interrupted" if interrupted else "it failed; the terminal says why")
            raise
        progress.ended("all is measured", str(folder / "report.html"))
