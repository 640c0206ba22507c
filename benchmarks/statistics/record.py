"""Record the noise of this machine: four short trials, one after the other, again and again.

One row is one turn: `sysbench cpu`, `sysbench memory`, a random read of 4 KiB by `fio` with
O_DIRECT, and `iperf3` over loopback, a second each. The header says what was recorded where. A row
is written whole and reaches the disk before the next turn begins; a torn last row, left by a kill,
is cut off when the recording goes on.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ullage.common.commands import needed

SECONDS = 1
BLOCK = "4k"
FILE_BYTES = 256 << 20
PORT = 5299
PATIENCE_S = 30
TIME = "t_s"


class RecordingError(Exception):
    """A trial gave no figure, or the file is of another recording."""


@dataclass(frozen=True)
class Measure:
    """One trial of a turn."""

    key: str
    column: str
    """With its unit."""
    program: str
    package: str
    version: tuple[str, ...]
    """Arguments that make the program say its version."""
    trial: Callable[[str, Path], float]
    """From the program's path and a scratch folder to the figure; more is better in all."""


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if done.returncode != 0:
        last_lines = (done.stderr or done.stdout).strip().splitlines()
        raise RecordingError(
            f"{command[0]} ended with {done.returncode}: {' '.join(last_lines[-1:])}"
        )
    return done.stdout


def figure(pattern: str, report: str) -> float:
    """The one figure of a report that `pattern` has as its group.

    RecordingError when there is none, or it is not above 0: it would have no logarithm.
    """
    match = re.search(pattern, report)
    if match is None or float(match.group(1)) <= 0:
        raise RecordingError(f"no figure in: {report.strip()[-200:]!r}")
    return float(match.group(1))


def _cpu(program: str, _scratch: Path) -> float:
    report = _run([program, "cpu", f"--time={SECONDS}", "run"])
    return figure(r"events per second:\s*([0-9.]+)", report)


def _memory(program: str, _scratch: Path) -> float:
    command = [program, "memory", "--memory-block-size=1M", "--memory-total-size=10T"]
    return figure(r"\(([0-9.]+) MiB/sec\)", _run([*command, f"--time={SECONDS}", "run"]))


def _disk(program: str, scratch: Path) -> float:
    options = {
        "name": "trust",
        "filename": scratch / "fio.data",
        "size": FILE_BYTES,
        "rw": "randread",
        "bs": BLOCK,
        "direct": 1,
        "ioengine": "libaio",
        "iodepth": 16,
        "runtime": SECONDS,
        "output-format": "json",
    }
    command = [program, "--time_based", *(f"--{key}={value}" for key, value in options.items())]
    report = _run(command)
    return _positive(json.loads(report[report.index("{") :])["jobs"][0]["read"]["iops"])


def _loopback(program: str, _scratch: Path) -> float:
    server = subprocess.Popen(
        [program, "--server", "--one-off", f"--port={PORT}", "--forceflush"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert server.stdout is not None
        while "listening" not in (line := server.stdout.readline()):
            if not line:
                raise RecordingError(f"iperf3 cannot listen on port {PORT}")
        command = [program, "--client=127.0.0.1", f"--port={PORT}", f"--time={SECONDS}", "--json"]
        return _positive(json.loads(_run(command))["end"]["sum_received"]["bits_per_second"])
    finally:
        server.kill()
        server.communicate()


def _positive(value: float) -> float:
    if not value > 0:
        raise RecordingError(f"a figure of {value}")
    return float(value)


MEASURES = (
    Measure("cpu", "cpu_eps", "sysbench", "sysbench", ("--version",), _cpu),
    Measure("memory", "memory_MiBps", "sysbench", "sysbench", ("--version",), _memory),
    Measure("disk", "disk_read_iops", "fio", "fio", ("--version",), _disk),
    Measure("loopback", "loopback_bps", "iperf3", "iperf3", ("--version",), _loopback),
)


def chosen(keys: Sequence[str]) -> tuple[Measure, ...]:
    """The measures of these keys, in their fixed order. RecordingError for an unknown key."""
    measure_keys = [measure.key for measure in MEASURES]
    for key in keys:
        if key not in measure_keys:
            raise RecordingError(f"no measure {key}; there are {', '.join(measure_keys)}")
    return tuple(measure for measure in MEASURES if measure.key in keys)


def header(programs: Sequence[tuple[Measure, str]], note: str) -> list[str]:
    """Comment lines: machine, date, versions of the tools, what else is known."""
    versions = {
        measure.program: _run([path, *measure.version]).splitlines()[0].strip()
        for measure, path in programs
    }
    return [
        f"# machine: {_processor()}, {os.cpu_count()} CPUs, Linux {platform.release()}",
        f"# begun: {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        f"# tools: {', '.join(versions.values())}",
        f"# note: {' '.join(note.split()) or 'none'}",
    ]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def open_for_more(file: Path, comments: Sequence[str], columns: Sequence[str]) -> None:
    """Begin the file, or make an existing one fit to go on: cut a torn last row off.

    RecordingError when its columns are others.
    """
    names = ",".join((TIME, *columns))
    if not file.exists() or file.stat().st_size == 0:
        file.write_text("\n".join([*comments, names]) + "\n")
        return
    text = file.read_text()
    whole = text[: text.rindex("\n") + 1] if "\n" in text else ""
    rows = [line for line in whole.splitlines() if not line.startswith("#")]
    if not rows or rows[0] != names:
        raise RecordingError(f"{file} has the columns {rows[0] if rows else 'none'}, not {names}")
    with file.open("r+") as stream:
        stream.truncate(len(whole.encode()))
        stream.seek(0, os.SEEK_END)
        stream.write(f"# went on: {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}\n")


def record(file: Path, minutes: float, keys: Sequence[str], note: str) -> int:
    """Append turns to `file` for so many minutes; returns how many were written.

    UllageError with the Debian package when a tool is missing, before anything is written;
    RecordingError when a trial fails: the rows before it stay.
    """
    programs = [(measure, needed(measure.program, measure.package)) for measure in chosen(keys)]
    open_for_more(file, header(programs, note), [measure.column for measure, _ in programs])
    turns, end = 0, time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory(dir=file.parent) as scratch, file.open("a") as stream:
        while time.monotonic() < end:
            began = time.time()
            row = [f"{measure.trial(path, Path(scratch)):.9g}" for measure, path in programs]
            stream.write(",".join([f"{began:.3f}", *row]) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
            turns += 1
            print(f"\rturn {turns}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return turns
