"""While a run goes on: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from ullage.common.console import escape, stderr
from ullage.common.quantities import format_seconds
from ullage.common.text import printable, whole
from ullage.runs.events import Trial

if TYPE_CHECKING:
    from ullage.experiments.elastic.folder import RepetitionOutcome


class RunProgress:
    """Implements `ullage.engine.progress.Progress` on standard error."""

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

    def __enter__(self) -> Self:
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
        if done.status != "ok":
            self.failed += 1
            reason = printable(done.reason.message, 200) if done.reason else ""
            stderr.print(
                f"[yellow]{done.status}[/] {escape(done.trial)} {escape(done.environment)} "
                f"{escape(done.workload)}: {escape(reason)}"
            )
        note = f"trial {number} of {of_block}" + (f", {self.failed} failed" if self.failed else "")
        self.live.update(self.task, description=f"block {done.block + 1}", note=note)

    def block(self, number: int, most: int, half_width: float | None) -> None:
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


class ElasticProgress(RunProgress):
    """What a person sees of an elastic run."""

    def repetition(self, done: RepetitionOutcome, number: int, of_all: int) -> None:
        self.live.update(self.task, completed=number)
        text = f"repetition {done.repetition + 1} of {done.environment} ({number} of {of_all})"
        if done.reason is not None:
            stderr.print(
                f"[yellow]{done.status}[/] {escape(text)}: {escape(done.reason.message[:300])}"
            )
        else:
            self._line(f"{text}: done after {(done.end_ns - done.start_ns) / 1e9:.0f} s")
        for note in done.notes:
            stderr.print(f"[cyan]note:[/] {escape(note)}")
