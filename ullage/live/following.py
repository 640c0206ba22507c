"""The page for the length of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ullage.console import stderr
from ullage.errors import ExitCode
from ullage.live.feed import Feed
from ullage.live.progress import LiveProgress
from ullage.live.server import LiveServer
from ullage.plan import Plan
from ullage.progress import Progress


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
