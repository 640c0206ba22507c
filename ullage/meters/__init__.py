"""The meters. A new one is a file in this folder and a line in this list."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from ullage.meters.base import Meter
from ullage.meters.registry import REGISTRY
from ullage.runs import Metered

METERS: tuple[type[Meter], ...] = REGISTRY.load(
    "host.Host",
    "cpu.Cpu",
    "kernel.Kernel",
)

__all__ = ["METERS", "Meter", "metered"]


@contextmanager
def metered(meters: tuple[type[Meter], ...] = METERS) -> Iterator[Metered]:
    """Every meter on, and off again however it ends; then meter → quantity → value is filled in.

    LIST_BAD_INTERFACE when one gives what it has not declared, or what is no number.
    """
    seen: Metered = {}
    with ExitStack() as stack:
        for meter in [each() for each in meters]:
            meter.begin()
            stack.callback(_end, meter, seen)
        yield seen
    for each in meters:
        _refuse_wrong(each, seen[each.name])


def _end(meter: Meter, seen: Metered) -> None:
    seen[meter.name] = meter.end()


def _refuse_wrong(meter: type[Meter], figures: Mapping[str, float]) -> None:
    declared = {quantity.name for quantity in meter.quantities}
    for name, value in figures.items():
        if name not in declared:
            raise REGISTRY.bad(meter.__qualname__, f"it gave the undeclared quantity {name!r}")
        if not math.isfinite(value):
            raise REGISTRY.bad(meter.__qualname__, f"it gave {value} as {name}")
