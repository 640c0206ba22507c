"""What TestDFSIO and the script around it print."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from ullage.workloads.base import InvalidTrialError
from ullage.workloads.outputs import Line, line, read_lines

MIB: Final = 1 << 20
BINS: Final = 10
"""Of the time of a job, in which the use of the network is given."""

_SUBMITTED: Final = re.compile(
    r"Submitted application (application_\d{1,19}_\d{1,9})$", re.M | re.A
)
_DONE: Final = re.compile(r"Job job_(\d{1,19}_\d{1,9}) completed successfully$", re.M | re.A)
_LOCAL: Final = re.compile(r"Running job: (job_local\d{1,19}_\d{1,9})$", re.M | re.A)
_LAUNCHED: Final = re.compile(r"^\s*Launched map tasks=(\d{1,9})$", re.M | re.A)
_CONTAINER: Final = re.compile(
    r"Container container_(\d{1,19}_\d{1,9})_\d\d_(\d{1,9}) transitioned from \w{1,20} to RUNNING$",
    re.M | re.A,
)

_SEEN: Final = re.compile(r"network (\d{1,19}) (\d{1,19}) (\d{1,19})")
_NAMES: Final = ("files", "mib", "throughput", "rate", "deviation", "seconds")


@dataclass(frozen=True)
class Step:
    """One `TestDFSIO`: writing or reading."""

    files: float
    mib: float
    throughput: float
    """MiB/s: all bytes over the sum of the map tasks' times."""
    seconds: float


@dataclass(frozen=True)
class Seen:
    """The counters of the network device at one instant."""

    at_ns: int
    bytes: int


@dataclass(frozen=True)
class Job:
    """Both steps, and what the network device counted meanwhile."""

    write: Step
    read: Step
    seen: tuple[Seen, ...]


def read_job(text: str) -> Job:
    """The report of a job; InvalidTrialError with the first line that is not as it should be."""
    seen = [_SEEN.fullmatch(each) for each in text.split("\n") if each.startswith("network ")]
    if not all(seen):
        raise InvalidTrialError("a line of the network's counters is not one")
    rest = "\n".join(each for each in text.split("\n") if not each.startswith("network "))
    expected = [*_step("write"), *_step("read"), line("step end")]
    found = read_lines(_undated(rest), expected)
    write, read = ({n: found[f"{n}_{step}"] for n in _NAMES} for step in ("write", "read"))
    return Job(_made(write), _made(read), tuple(_counters(match) for match in seen if match))


def _made(found: dict[str, float]) -> Step:
    return Step(found["files"], found["mib"], found["throughput"], found["seconds"])


def _step(step: str) -> list[Line]:
    labels = {
        "Number of files": "files",
        "Total MBytes processed": "mib",
        "Throughput mb/sec": "throughput",
        "Average IO rate mb/sec": "rate",
        "IO rate std deviation": "deviation",
        "Test exec time sec": "seconds",
    }
    figures = [_figure(label, f"{name}_{step}") for label, name in labels.items()]
    said = (f"step {step}", f"----- TestDFSIO ----- : {step}", "Date & time: ")
    return [*(line(each) for each in said), *figures]


def _figure(label: str, name: str) -> Line:
    """With up to two decimals, as many as it has (`java.text.DecimalFormat("#.##")`)."""
    figure = rf"(?P<{name}>(?:[0-9]{{1,15}}|(?=\.))(?:\.[0-9]{{1,2}})?)"
    return Line(f"{label}: <{name}>", re.compile(rf"{re.escape(label)}: +{figure}"))


def _undated(text: str) -> str:
    """Without the padding at the left, and without the date, which tells nothing."""
    lines = (each.strip() for each in text.split("\n"))
    return "\n".join("Date & time: " if s.startswith("Date & time: ") else s for s in lines)


def _counters(match: re.Match[str]) -> Seen:
    at, received, sent = (int(group) for group in match.groups())
    return Seen(at, received + sent)


def network(seen: Sequence[Seen]) -> list[tuple[float, float]]:
    """(share of the time, B/s) for the middle of each of `BINS` parts; empty: too little was seen.

    Between two looks the rate is taken as constant.
    """
    if len(seen) < 2 or seen[-1].at_ns <= seen[0].at_ns:
        return []
    if any(b.at_ns <= a.at_ns or b.bytes < a.bytes for a, b in pairwise(seen)):
        raise InvalidTrialError("the counters of the network went backwards")
    first, length = seen[0].at_ns, seen[-1].at_ns - seen[0].at_ns
    edges = [first + length * i / BINS for i in range(BINS + 1)]
    counts = [_at(seen, edge) for edge in edges]
    rates = [(b - a) / (length / BINS / 1e9) for a, b in pairwise(counts)]
    return [((i + 0.5) / BINS, rate) for i, rate in enumerate(rates) if rate > 0]


def _at(seen: Sequence[Seen], instant: float) -> float:
    """Bytes at an instant, interpolated."""
    for a, b in pairwise(seen):
        if instant <= b.at_ns:
            share = (instant - a.at_ns) / (b.at_ns - a.at_ns)
            return a.bytes + share * (b.bytes - a.bytes)
    return float(seen[-1].bytes)


def on_yarn(said: str, node: str, files: int) -> list[str]:
    """The two applications of a job, write and read: YARN ran them, with a map task for each file.

    said: the log of the job; node: that of the NodeManager, which was not asked by the job. It must
    have started a container for each map task, for the reducer and for who watches over them.
    """
    if local := _LOCAL.search(said):
        raise InvalidTrialError(f"{local[1]} ran in the job's own Java machine, not on YARN")
    found, done = _SUBMITTED.findall(said), _DONE.findall(said)
    if len(found) != 2 or [f"application_{each}" for each in done] != found:
        raise InvalidTrialError(
            f"YARN was to run two applications: {len(found)} were submitted, {len(done)} done"
        )
    launched = [int(count) for count in _LAUNCHED.findall(said)]
    if launched != [files, files]:
        few = ", ".join(map(str, launched[:4])) + (", …" if len(launched) > 4 else "")
        raise InvalidTrialError(f"{files} map tasks were asked for, YARN launched [{few}]")
    started = {match.groups() for match in _CONTAINER.finditer(node)}
    for each in done:
        if (count := sum(job == each for job, _ in started)) != files + 2:
            raise InvalidTrialError(
                f"the NodeManager started {count} containers of job {each}, not {files + 2}"
            )
    return found
