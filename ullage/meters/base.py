"""What a trial asks of a meter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from ullage.common.registry import Registry, figures_fault
from ullage.runs.records import Quantity

Fetch = Callable[[str, int], Awaitable[bytes]]
"""Reads a file inside an instance, of so many bytes at most: `AgentClient.get`."""


@dataclass(frozen=True)
class Scene:
    """Who works in a trial, for meters that look at more than the host as a whole."""

    tag: str = ""
    """The run's; empty: nobody of a run is there."""
    instances: tuple[str, ...] = ()
    """Names of those whose programs take part; neighbours are none of them."""
    ends: tuple[str, ...] = ()
    """Of these, those at the other end: of viewers, of a load generator, of a peer."""
    guests: tuple[str, ...] = ()
    """Of all, the VMs of this host: their memory stays when a program has ended."""


class Meter(ABC):
    """Looks at the host during one trial; each trial has a meter of its own.

    A subclass is one file, and one line in `ullage/meters/__init__.py`. Its docstring becomes its
    page in the docs. `begin` and `end` stand between the trials, so they cost as little as they
    can; a quantity that this host does not tell is left out and never made up.
    """

    name: ClassVar[str]
    quantities: ClassVar[tuple[Quantity, ...]]
    """Everything that `end` may give."""

    def watch(self, scene: Scene) -> None:  # noqa: B027 - few meters need to know
        """Told before `begin` who will work."""

    @abstractmethod
    def begin(self) -> None:
        """Right before the programs of the trial get the instant at which they start."""

    @abstractmethod
    def end(self) -> dict[str, float]:
        """When all of them have ended, or the trial is given up: quantity → its value."""


class Inside(Meter):
    """Looks at instances of a trial from inside, through their agents.

    It is asked before the meters of the host begin and after they have ended, so that they see
    nothing of it.
    """

    @abstractmethod
    async def ask(self, instances: Sequence[Fetch]) -> None:
        """Before `begin`, and again before `end`; what does not answer fails no trial."""


class OfOneTrial(Meter):
    """Looks at what belongs to a trial alone, so at each of a duet by itself; on this host."""


def rate(name: str, description: str, unit: str = "1/s") -> Quantity:
    """A quantity that is told by the second."""
    return Quantity(name=name, unit=unit, description=description)


def share(name: str, description: str) -> Quantity:
    """A quantity that is a share of something, or a number of CPUs."""
    return Quantity(name=name, unit="1", description=description)


def _fault(meter: type[Meter]) -> str | None:
    if not meter.quantities:
        return "it declares no quantity"
    return figures_fault("quantities", meter.quantities, Quantity)


REGISTRY: Final = Registry("meter", Meter, ("quantities",), _fault)
