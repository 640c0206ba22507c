"""What the list of meters refuses at start."""

from __future__ import annotations

from typing import Final

from ullage.meters.base import Meter
from ullage.registry import Registry, figures_fault
from ullage.runs import Quantity


def _fault(meter: type[Meter]) -> str | None:
    if not meter.quantities:
        return "it declares no quantity"
    return figures_fault("quantities", meter.quantities, Quantity)


REGISTRY: Final = Registry("meter", Meter, ("quantities",), _fault)
