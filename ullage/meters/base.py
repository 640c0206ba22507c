"""What a trial asks of a meter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from ullage.runs import Quantity


class Meter(ABC):
    """Looks at the host during one trial; each trial has a meter of its own.

    A subclass is one file, and one line in `ullage/meters/__init__.py`. Its docstring becomes its
    page in the docs. `begin` and `end` stand between the trials, so they cost as little as they
    can; a quantity that this host does not tell is left out and never made up.
    """

    name: ClassVar[str]
    quantities: ClassVar[tuple[Quantity, ...]]
    """Everything that `end` may give."""

    @abstractmethod
    def begin(self) -> None:
        """Right before the programs of the trial get the instant at which they start."""

    @abstractmethod
    def end(self) -> dict[str, float]:
        """When all of them have ended, or the trial is given up: quantity → its value."""
