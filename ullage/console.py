"""What a person sees: on a terminal one live line while a run goes on, plain lines elsewhere.

Everything that is printed here is cleaned first: no guest, and no run folder from elsewhere, steers
the terminal.
"""

from __future__ import annotations

import errno
import os
import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from ullage.agentchannel import printable
from ullage.events import Trial
from ullage.printable import whole
from ullage.quantities import format_seconds


class CleanConsole(Console):
    """Obeys our own markup and nothing else that stands in a text, in a table either."""

    def render_str(self, text: str, *args: Any, **options: Any) -> Text:
        """As rich does it, with control and other hidden characters shown by name."""
        return super().render_str(whole(text), *args, **options)

    def print(self, *args: Any, **options: Any) -> None:
        """As rich does it; a terminal that has hung up is no reason to fail."""
        try:
            super().print(*args, **options)
        except OSError as error:
            if error.errno != errno.EIO:
                raise


def _console(*, to_stderr: bool) -> CleanConsole:
    """No emoji codes: `:x:` is data. Not on a terminal there is no width to wrap or cut at."""
    made = CleanConsole(stderr=to_stderr, highlight=False, emoji=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = _WIDE
    return made


_WIDE = 10_000
stderr = _console(to_stderr=True)
stdout = _console(to_stderr=False)


class RunProgress:
    """Implements `ullage.progress.Progress` on standard error."""

    def __init__(self, blocks_max: int) -> None:
        self.live = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=stderr,
            transient=True,
            disable=not stderr.is_terminal,
        )
        self.task: TaskID = self.live.add_task("starting", total=blocks_max, note="")
        self.failed = 0
        self.began = time.monotonic()

    def __enter__(self) -> RunProgress:
        self.live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.live.stop()

    def step(self, text: str) -> None:
        """A stage of the set-up began."""
        self.live.update(self.task, description=escape(whole(text)))
        self._line(text)

    def trial(self, done: Trial, number: int, of_block: int) -> None:
        """A trial ended."""
        if done.status != "ok":
            self.failed += 1
            told = printable(done.reason.message, 200) if done.reason else ""
            stderr.print(
                f"[yellow]{done.status}[/] {escape(done.trial)} {escape(done.environment)} "
                f"{escape(done.workload)}: {escape(told)}"
            )
        note = f"trial {number} of {of_block}" + (f", {self.failed} failed" if self.failed else "")
        self.live.update(self.task, description=f"block {done.block + 1}", note=note)

    def block(self, number: int, most: int, half_width: float | None) -> None:
        """A block ended."""
        width = "" if half_width is None else f", widest interval ±{half_width:.0%}"
        self.live.update(self.task, completed=number)
        elapsed = format_seconds(time.monotonic() - self.began)
        self._line(f"block {number} of at most {most} done after {elapsed}{width}")

    def warning(self, text: str) -> None:
        """Something the user should know now."""
        stderr.print(f"[yellow]warning:[/] {escape(text)}")

    def _line(self, text: str) -> None:
        if not stderr.is_terminal:
            stderr.print(escape(text))
