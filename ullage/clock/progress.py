"""How far a measurement is, on standard error: a bar with the time left, or a line a stage."""

from __future__ import annotations

from types import TracebackType

from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from ullage.clock.lab import Told
from ullage.console import stderr


class Bar:
    """Use it as a context manager; `stage` begins the next stage."""

    def __init__(self) -> None:
        self._live = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=stderr,
            transient=True,
            disable=not stderr.is_terminal,
        )
        self._task = self._live.add_task("starting", total=None)

    def __enter__(self) -> Bar:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._live.stop()

    def stage(self, text: str, seconds: float = 0) -> Told:
        """A stage begins, that takes about so long; the result is to be told how far it is."""
        self._live.reset(self._task, description=escape(text), total=None)
        if not stderr.is_terminal and seconds >= 2:
            stderr.print(escape(f"{text}: about {seconds:.0f} s"), soft_wrap=True)

        def told(done: int, of: int) -> None:
            self._live.update(self._task, completed=done, total=of or None)

        return told

    def say(self, text: str) -> None:
        """What the stage is at; a line of its own when it is not a terminal."""
        self._live.update(self._task, description=escape(text))
        head = text.partition(": ")[2] or text
        if not stderr.is_terminal and head.split(" ")[-2:] != ["s", "left"]:
            stderr.print(escape(text), soft_wrap=True)
