"""What a study's plan for the clock leaves: `clock.json` in a folder among the runs."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from pydantic import Field, ValidationError

from ullage.common import sums
from ullage.common.clock_model import FrozenModel
from ullage.common.errors import RUN_BAD_FORMAT, RUN_NOT_FOUND, UllageError
from ullage.common.faults import first_fault
from ullage.common.regular import read_document
from ullage.common.sums import BrokenSumError
from ullage.experiments.clock.ntp.outcome import NtpReport
from ullage.experiments.clock.ocean.outcome import OceanReport
from ullage.experiments.clock.reports import CheckReport, CostReport, ScalingReport

FILE: Final = "clock.json"
FORMAT: Final = 1


class ClockRecord(FrozenModel):
    """What was measured of the clock; each is what the command of that name prints as JSON."""

    format: Literal[1] = FORMAT
    name: str
    """Of the plan."""
    check: CheckReport | None = None
    cost: CostReport | None = None
    scaling: ScalingReport | None = None
    ntp: NtpReport | None = None
    ocean: OceanReport | None = Field(None, exclude_if=lambda given: given is None)


def is_one(path: Path) -> bool:
    """Is it such a folder?"""
    return (path / FILE).is_file()


def read(path: Path) -> ClockRecord:
    """What a folder holds. RUN_NOT_FOUND, RUN_BAD_FORMAT."""
    try:
        return ClockRecord.model_validate_json(sums.opened(read_document(path / FILE)))
    except FileNotFoundError as error:
        raise UllageError(RUN_NOT_FOUND, path=path) from error
    except (ValidationError, BrokenSumError) as error:
        reason = f"{FILE}: {first_fault(error)}"
        raise UllageError(RUN_BAD_FORMAT, path=path, format=FORMAT, reason=reason) from error
    except OSError as error:
        reason = f"cannot read {FILE}: {error.strerror}"
        raise UllageError(RUN_BAD_FORMAT, path=path, format=FORMAT, reason=reason) from error
