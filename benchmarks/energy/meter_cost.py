"""What reading each energy meter costs this host, in CPU seconds of a control group, at 1 Hz.

Each meter is read by the recorder of a run, in a process and a control group of its own, with what
it starts (`perf`, `ipmitool`); what answers it (a server, a daemon, a pseudo-terminal) stands
outside. For hardware that is not here something stands in, and the row says what. `recorder alone`
reads a meter that does nothing: its cost is in every other row.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.energy.stand_ins import STAND_INS, StandIn
from benchmarks.figures import Figure, main
from ullage.host.cgroups import hierarchies
from ullage.meters.energy import ENERGY_METERS, EnergyMeter
from ullage.meters.energy.base import MeterOptions
from ullage.meters.energy.recorder import Recorder
from ullage.runs.readings import Channel

LIMIT = 0.5
"""% of one core."""
LONG_S, QUICK_S = 60.0, 15.0
EVERY_S = 1.0
_ALONE = "recorder alone"
_PATIENCE_S = 60.0
_CHILD = """\
import sys
from pathlib import Path
(Path(sys.argv[1]) / "cgroup.procs").write_text("0")
from benchmarks.energy.meter_cost import child
child()
"""


class Nothing(EnergyMeter):
    name = "nothing"

    def open(self) -> tuple[Channel, ...]:
        return (
            Channel(
                name="wall",
                kind="power",
                method="estimated",
                scope="wall",
                observer="host",
                resolution=0,
            ),
        )

    def read(self) -> Mapping[str, float]:
        return {"wall": 1.0}

    def close(self) -> None:
        pass


@dataclass
class Running:
    """A meter that is read in a process of its own."""

    name: str
    description: str
    group: Path
    process: subprocess.Popen[str]
    began: tuple[float, float] = (0.0, 0.0)

    def cost(self) -> float:
        """% of a core since `began`."""
        (then, before), (now, after) = self.began, self.now()
        return 100 * (after - before) / (now - then)

    def now(self) -> tuple[float, float]:
        """Instant, and CPU seconds of the group."""
        return time.monotonic(), _used_s(self.group)


def measure(quick: bool) -> Iterator[Figure]:
    """All at the same time, each in its own group."""
    seconds = QUICK_S if quick else LONG_S
    meters = {meter.name for meter in ENERGY_METERS}
    for name in sorted(meters - {stand_in.meter for stand_in in STAND_INS}):
        yield _row(name, "", None, "not measured: nothing stands in for it")
    with tempfile.TemporaryDirectory() as work, ExitStack() as stack:
        running = [stack.enter_context(_started(_ALONE, "", "nothing", {}, Path(work)))]
        for number, stand_in in enumerate(STAND_INS):
            folder = Path(work) / str(number)
            folder.mkdir()
            try:
                running.append(_answered(stack, stand_in, folder))
            except OSError as error:
                note = f"not measured: {error}"
                yield _row(stand_in.meter, stand_in.description, None, note)
        for meter in running:
            meter.began = meter.now()
        time.sleep(seconds)
        costs = [meter.cost() for meter in running]
        for meter, cost in zip(running, costs, strict=True):
            yield _row(meter.name, meter.description, cost, _end(meter, seconds))


def _answered(stack: ExitStack, stand_in: StandIn, folder: Path) -> Running:
    options = stack.enter_context(stand_in.ready(folder))
    name, description = stand_in.meter, stand_in.description
    return stack.enter_context(_started(name, description, name, options, folder))


def _row(name: str, description: str, cost: float | None, note: str) -> Figure:
    aim = "" if name == _ALONE else f"at most {LIMIT} % of a core"
    return Figure(
        f"cost at 1 Hz: {name}" + (f" ({description})" if description else ""),
        float("nan") if cost is None else cost,
        "% of a core",
        reach=aim,
        holds=cost <= LIMIT if aim and cost is not None else None,
        note=note,
    )


def _end(meter: Running, seconds: float) -> str:
    """End the process; how much it read, for those who doubt that it did."""
    out, _ = meter.process.communicate("", _PATIENCE_S)
    counts = json.loads(out.splitlines()[-1])
    return f"{seconds:.0f} s; {counts['readings']} readings, {counts['faults']} faults in all"


@contextmanager
def _started(
    name: str, description: str, meter: str, options: Mapping[str, Any], folder: Path
) -> Iterator[Running]:
    group = _account() / f"ullage-cost-{os.getpid()}-{folder.name}-{meter}"
    group.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(group)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdin is not None and process.stdout is not None
        request = {"meter": meter, "options": options, "file": str(folder / "meter.jsonl")}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{name} could not be opened: {process.wait(_PATIENCE_S)}")
        yield Running(name, description, group, process)
    finally:
        process.kill()
        process.wait()
        _remove(group)


def child() -> None:
    """Read the meter that stdin names until stdin ends."""
    request = json.loads(sys.stdin.readline())
    kinds: tuple[type[EnergyMeter], ...] = (*ENERGY_METERS, Nothing)
    kind = next(meter for meter in kinds if meter.name == request["meter"])
    options: MeterOptions = kind.Options.model_validate(request["options"])
    recorder = Recorder(kind(options), "cost", "cost", Path(request["file"]), EVERY_S)
    recorder.start()
    while recorder.readings + recorder.faults.total() < 2:
        time.sleep(0.1)
    print("ready", flush=True)
    sys.stdin.read()
    recorder.stop()
    print(json.dumps({"readings": recorder.readings, "faults": recorder.faults.total()}))


def _account() -> Path:
    """The root of a hierarchy that counts CPU time."""
    for hierarchy in sorted(hierarchies(), key=lambda hierarchy: hierarchy.version):
        if (hierarchy.path / "cpuacct.usage").exists() or hierarchy.version == 2:
            return hierarchy.path
    raise RuntimeError("no control groups that count CPU time are mounted")


def _used_s(group: Path) -> float:
    account = group / "cpuacct.usage"
    if account.exists():
        return int(account.read_text()) / 1e9
    return int((group / "cpu.stat").read_text().split()[1]) / 1e6


def _remove(group: Path) -> None:
    """With what is left in it: what a meter started outlives a process that was killed."""
    for _ in range(600):
        for pid in (group / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        with suppress(OSError):
            group.rmdir()
        if not group.exists():
            return
        time.sleep(0.1)


if __name__ == "__main__":
    main(measure, __doc__ or "")
