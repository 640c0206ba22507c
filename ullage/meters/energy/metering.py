"""The energy meters of a run: looked for before it, read beside it, their faults told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from ullage.common.errors import UllageError
from ullage.host import clock
from ullage.meters.energy.base import PlannedMeter
from ullage.meters.energy.recorder import Recorder, trial_open
from ullage.runs.events import Idle
from ullage.runs.readings import Fault
from ullage.runs.records import EnergyMeterRecord
from ullage.runs.writer import disk_full_as_error, now_ns

METERS: Final = "meters"
"""Directory of a run folder with `LABEL.jsonl` of each meter."""
METER_ABSENT: Final = "meter-absent"
METER_FAULTY: Final = "meter-faulty"
METER_UNCHECKED: Final = "meter-unchecked"
NOT_PER_TRIAL: Final = "energy-not-per-trial"
TWO_AT_ONCE: Final = (
    "in a duet two trials run at the same time: meters see both, so no energy is that of one trial"
)

Tell = Callable[[str, str], None]
"""Of a code and a sentence."""


class Metering:
    """All energy meters of one session of a run."""

    def __init__(
        self, planned: Sequence[PlannedMeter], session: str, folder: Path, tell: Tell
    ) -> None:
        """tell: warns the user; called from the event loop only."""
        self.planned, self.folder, self._session, self._tell = planned, folder, session, tell
        self._recorders: dict[str, Recorder] = {}
        self._untold: UllageError | OSError | None = None

    async def open(self) -> None:
        """Find every meter; the first that is not there, and not optional, is its UllageError."""
        errors = await asyncio.gather(*(self._open(meter) for meter in self.planned))
        refused = [error for error in errors if error is not None]
        if refused:
            await self.stop()
            raise refused[0]

    def start(self) -> None:
        """Begin to write. RUN_DISK_FULL."""
        if not self._recorders:
            return
        with disk_full_as_error(self.folder):
            (self.folder / METERS).mkdir(exist_ok=True)
            for recorder in self._recorders.values():
                recorder.start()

    async def stop(self) -> None:
        """One more reading of each, then no more. May be called twice."""
        for recorder in self._recorders.values():
            recorder.end()
        stopped, self._recorders = self._recorders, {}
        await asyncio.gather(*(asyncio.to_thread(recorder.stop) for recorder in stopped.values()))
        for label, recorder in stopped.items():
            if lost := recorder.faults.total():
                faults = ", ".join(f"{code} {count:,}" for code, count in recorder.faults.items())
                of = lost + recorder.readings
                self._warn(METER_FAULTY, f"{label}: {lost:,} of {of:,} readings failed: {faults}")

    def check(self) -> None:
        """RUN_DISK_FULL, or another OSError, once a meter's file could not be written."""
        if self._untold is not None:
            raise self._untold
        for recorder in self._recorders.values():
            if recorder.failed is not None:
                with disk_full_as_error(self.folder):
                    raise recorder.failed

    def records(self) -> tuple[EnergyMeterRecord, ...]:
        """What `resolved.json` says of them: with channels once they have been found."""
        return tuple(
            EnergyMeterRecord(
                label=meter.label,
                meter=meter.kind.name,
                options=meter.plain_options,
                every_s=meter.options.every,
                channels=self._recorders[meter.label].channels
                if meter.label in self._recorders
                else (),
            )
            for meter in self.planned
        )

    def in_words(self) -> str:
        """`wall (nut), cpu (rapl)`; empty: none is there."""
        read = [meter for meter in self.planned if meter.label in self._recorders]
        return ", ".join(f"{meter.label} ({meter.kind.name})" for meter in read)

    async def idle(self, seconds: float) -> Idle:
        """Let the host rest, while all of the run stands still."""
        start_ns = clock.ordered_ns()
        await asyncio.sleep(seconds)
        return Idle(epoch_ns=now_ns(), start_ns=start_ns, end_ns=clock.ordered_ns())

    async def _open(self, planned: PlannedMeter) -> UllageError | None:
        """Why it cannot be read, when that ends the run."""
        loop = asyncio.get_running_loop()

        def tell(fault: Fault) -> None:
            with suppress(RuntimeError):  # a meter that hangs may outlive the loop
                loop.call_soon_threadsafe(self._warn_of_fault, planned, fault)

        recorder = Recorder(
            planned.make(),
            planned.label,
            self._session,
            self.folder / METERS / f"{planned.label}.jsonl",
            planned.options.every,
            tell=tell,
        )
        try:
            await asyncio.to_thread(recorder.open)
        except UllageError as error:
            await asyncio.to_thread(recorder.stop)
            if not planned.optional:
                return error
            self._warn(
                METER_ABSENT,
                f"{planned.label}: {error.message}; the plan calls it optional: no energy from it",
            )
            return None
        self._recorders[planned.label] = recorder
        if caution := recorder.meter.caution():
            self._warn(METER_UNCHECKED, f"{planned.label} ({planned.kind.name}): {caution}")
        return None

    def _warn_of_fault(self, planned: PlannedMeter, fault: Fault) -> None:
        self._warn(
            METER_FAULTY,
            f"{planned.label} ({planned.kind.name}) is faulty ({fault.code}): {fault.message}; "
            "trials meanwhile have no energy from it",
        )

    def _warn(self, code: str, text: str) -> None:
        """A journal that cannot be written ends the run, but in `check`, where it can end."""
        try:
            self._tell(code, text)
        except (UllageError, OSError) as error:
            self._untold = error


async def absent(planned: Sequence[PlannedMeter]) -> list[tuple[PlannedMeter, UllageError]]:
    """Those that cannot be read here now, and why; all are let go of again."""

    def why(meter: PlannedMeter) -> UllageError | None:
        try:
            trial_open(meter)
        except UllageError as error:
            return error
        return None

    errors = await asyncio.gather(*(asyncio.to_thread(why, meter) for meter in planned))
    return [(meter, error) for meter, error in zip(planned, errors, strict=True) if error]
