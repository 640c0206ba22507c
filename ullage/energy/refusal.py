"""A fault that shows when a meter is opened is an error that the user meets before the run."""

from __future__ import annotations

from ullage.energy.base import FaultError
from ullage.errors import (
    ENERGY_METER_ABSENT,
    ENERGY_METER_BAD_ANSWER,
    ENERGY_METER_DENIED,
    UllageError,
)


def refusal(meter: str, where: str, fault: FaultError, fix: str) -> UllageError:
    """Of a fault: ENERGY_METER_ABSENT (`gone`, `silent`), _DENIED, _BAD_ANSWER; to raise."""
    if fault.code == "denied":
        return UllageError(ENERGY_METER_DENIED, meter=meter, where=where, reason=fault, fix=fix)
    if fault.code in {"gone", "silent"}:
        return UllageError(ENERGY_METER_ABSENT, meter=meter, where=where, reason=fault, fix=fix)
    return UllageError(ENERGY_METER_BAD_ANSWER, meter=meter, where=where, reason=fault, fix=fix)
