"""Each meter reads what stands in for its hardware in `benchmarks.energy.meter_cost`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from benchmarks.energy.stand_ins import STAND_INS, StandIn
from testing.energy.waiting import until
from ullage.meters.energy import ENERGY_METERS
from ullage.meters.energy.base import FaultError


def test_all_are_of_meters_that_there_are() -> None:
    assert {stand_in.meter for stand_in in STAND_INS} <= {meter.name for meter in ENERGY_METERS}


@pytest.mark.parametrize(
    "stand_in", STAND_INS, ids=lambda stand_in: f"{stand_in.meter}: {stand_in.description}"
)
def test_its_meter_reads_it(stand_in: StandIn, tmp_path: Path) -> None:
    kind = next(meter for meter in ENERGY_METERS if meter.name == stand_in.meter)
    with ExitStack() as stack:
        try:
            options = stack.enter_context(stand_in.ready(tmp_path))
        except OSError as error:
            pytest.skip(f"nothing stands in for {stand_in.meter}: {error}")
        meter = kind(kind.Options.model_validate(options))
        channels = meter.open()
        stack.callback(meter.close)
        readings: list[Mapping[str, float]] = []

        def read() -> bool:
            with suppress(FaultError):
                readings.append(meter.read())
            return bool(readings)

        until(read, f"a reading of {stand_in.meter}")
    assert set(readings[0]) <= {channel.name for channel in channels}
    assert readings[0]
