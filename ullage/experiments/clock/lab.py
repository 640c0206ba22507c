"""Runs the measurements of the extension module, with progress."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, TypeVar

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from ullage import _clock
from ullage.common.clock_model import FrozenModel
from ullage.common.console import escape, stderr
from ullage.common.errors import CLOCK_NOT_MEASURED, UllageError
from ullage.experiments.clock.outcomes import (
    CostOptions,
    CostOutcome,
    EcpOptions,
    EcpOutcome,
    LoopsOptions,
    LoopsOutcome,
    ScalingOptions,
    ScalingOutcome,
    StrictOptions,
    StrictOutcome,
)

Advance = Callable[[int, int], None]
"""How much is done, of how much; of 0 while that is not known."""

LOOK_S: Final = 0.1

M = TypeVar("M", bound=FrozenModel)


def ecp(options: EcpOptions, advance: Advance) -> EcpOutcome:
    """Are elapsed times precise: 15 additions, timed by every clock. CLOCK_NOT_MEASURED."""
    return _measure("ecp", options, EcpOutcome, advance)


def strict(options: StrictOptions, advance: Advance) -> StrictOutcome:
    """Does every value exceed the one before? CLOCK_NOT_MEASURED."""
    return _measure("strict", options, StrictOutcome, advance)


def cost(options: CostOptions, advance: Advance) -> CostOutcome:
    """What does a read of each clock cost? CLOCK_NOT_MEASURED."""
    return _measure("cost", options, CostOutcome, advance)


def loops(options: LoopsOptions, advance: Advance) -> LoopsOutcome:
    """How long do loops of a known number of instructions take? CLOCK_NOT_MEASURED."""
    return _measure("loops", options, LoopsOutcome, advance)


def scaling(options: ScalingOptions, advance: Advance) -> ScalingOutcome:
    """How does synchronisation scale, by simulation? CLOCK_NOT_MEASURED."""
    return _measure("scaling", options, ScalingOutcome, advance)


def _measure(unit: str, options: FrozenModel, outcome: type[M], advance: Advance) -> M:
    """In a thread of its own, so that this one can tell of it, and be interrupted.

    An interrupted measurement goes on in its thread, which ends with the process.
    """
    progress = _clock.Progress()
    results: list[str] = []
    failed: list[Exception] = []

    def work() -> None:
        try:
            request = options.model_dump_json(exclude_none=True)
            results.append(_clock.lab(unit, request, progress))
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=work, name=f"clock-{unit}", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(LOOK_S)
        advance(progress.done, progress.of)
    for error in failed:
        if isinstance(error, _clock.LabError):
            code, reason, hint = error.args
            raise UllageError(
                CLOCK_NOT_MEASURED, what=unit, reason=f"{reason} ({code})", suggestion=hint
            ) from error
        raise error
    return outcome.model_validate_json(results[0])


class Bar:
    """How far a measurement is, on standard error: a bar with the time left, or a line a stage."""

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

    def stage(self, text: str, seconds: float = 0) -> Advance:
        """Begin a stage that takes about so long; call the result with how far it is."""
        self._live.reset(self._task, description=escape(text), total=None)
        if not stderr.is_terminal and seconds >= 2:
            stderr.print(escape(f"{text}: about {seconds:.0f} s"), soft_wrap=True)

        def advance(done: int, of: int) -> None:
            self._live.update(self._task, completed=done, total=of or None)

        return advance

    def say(self, text: str) -> None:
        """What the stage is at; a line of its own when it is not a terminal."""
        self._live.update(self._task, description=escape(text))
        head = text.partition(": ")[2] or text
        if not stderr.is_terminal and head.split(" ")[-2:] != ["s", "left"]:
            stderr.print(escape(text), soft_wrap=True)
