"""The meters. A new one is a file in this folder and a line in this list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Final

from ullage.meters.base import REGISTRY, Inside, Meter, OfOneTrial, Scene
from ullage.runs.records import LARGEST, Metered

METERS: tuple[type[Meter], ...] = REGISTRY.load(
    "host.Host",
    "cpu.Cpu",
    "kernel.Kernel",
    "threads.Threads",
    "guest.Guest",
    "links.Links",
    "swap.Swap",
)
OUTSIDE: Final = tuple(meter for meter in METERS if not issubclass(meter, Inside | OfOneTrial))
"""Those that look at the host."""
APART: Final = tuple(meter for meter in METERS if issubclass(meter, OfOneTrial))
"""Those that look at each trial by itself."""

NOBODY: Final = Scene()

__all__ = ["METERS", "Inside", "Meter", "Scene", "metered", "refuse_wrong"]


@contextmanager
def metered(meters: tuple[type[Meter], ...] = OUTSIDE, scene: Scene = NOBODY) -> Iterator[Metered]:
    """Every meter of the host on, and off again however it ends.

    Then meter → quantity → value is filled in.

    LIST_BAD_INTERFACE when one gives what it has not declared, or what is no number.
    """
    figures: Metered = {}
    with ExitStack() as stack:
        for meter in [kind() for kind in meters]:
            meter.watch(scene)
            meter.begin()
            stack.callback(_end, meter, figures)
        yield figures
    for meter_kind in meters:
        refuse_wrong(meter_kind, figures[meter_kind.name])


def _end(meter: Meter, figures: Metered) -> None:
    figures[meter.name] = meter.end()


def refuse_wrong(meter: type[Meter], figures: Mapping[str, float]) -> None:
    """LIST_BAD_INTERFACE unless all figures are declared, and are numbers."""
    declared = _declared(meter)
    for name, value in figures.items():
        if name not in declared:
            raise REGISTRY.bad(meter.__qualname__, f"it gave the undeclared quantity {name!r}")
        if not abs(value) <= LARGEST:  # nor a number that is none
            raise REGISTRY.bad(meter.__qualname__, f"it gave {value} as {name}")


@cache
def _declared(meter: type[Meter]) -> frozenset[str]:
    return frozenset(quantity.name for quantity in meter.quantities)
