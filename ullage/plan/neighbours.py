"""What runs beside a trial on purpose: a busy host, or a noisy neighbour in a VM or a container.

A neighbour stands in an instance of its own, on the CPUs of the instance under test or on others,
and works from before the trial's start to after its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ullage.workloads.base import Task

if TYPE_CHECKING:
    from ullage.plan.schema import Burner, Neighbour

NEIGHBOUR: Final = "~neighbour"
"""Suffix of the environment that an environment's neighbour stands in; no name can have it."""

ROLE: Final = "neighbour"


@dataclass(frozen=True)
class Program:
    """How one burner is run."""

    package: str
    argv: Callable[[Neighbour, int], tuple[str, ...]]
    """Of the neighbour and its number of CPUs."""
    ready: str
    """It works once it has printed this."""


def _stress_ng(neighbour: Neighbour, cpus: int) -> tuple[str, ...]:
    argv = ["stress-ng", "--verbose", "--temp-path", "."]
    if neighbour.load == "cpu":
        return (*argv, "--cpu", str(cpus), "--cpu-load", f"{100 * neighbour.busy:.0f}")
    if neighbour.load == "memory":
        return (*argv, "--stream", str(cpus))
    return (*argv, "--hdd", str(cpus), "--hdd-bytes", "64M", "--hdd-opts", "direct")


def _ffmpeg(neighbour: Neighbour, cpus: int) -> tuple[str, ...]:
    # A picture without end, encoded as H.264 and thrown away: what a transcoding server does.
    argv = ["ffmpeg", "-nostdin", "-hide_banner", "-loglevel", "error", "-progress", "pipe:1"]
    argv += ["-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=30"]
    return (*argv, "-c:v", "libx264", "-threads", str(cpus), "-f", "null", "-")


PROGRAMS: Final[Mapping[Burner, Program]] = {
    "ffmpeg": Program("ffmpeg", _ffmpeg, "frame="),
    "stress-ng": Program("stress-ng", _stress_ng, "started ["),
}


def task(neighbour: Neighbour, cpus: int) -> Task:
    """Its program, as a service of the trial; to be run where it may write."""
    program = PROGRAMS[neighbour.program]
    return Task(
        ROLE,
        program.argv(neighbour, cpus),
        service=True,
        ready=program.ready,
        timeout_s=86_400.0,
    )


def in_words(neighbour: Neighbour, instances: int = 1) -> str:
    """`stress-ng (cpu) at 50 % beside it, on the same CPUs, in vm`.

    instances: of the environment under test; each has a neighbour.
    """
    burner: str = neighbour.program
    if neighbour.program == "stress-ng":
        burner += f" ({neighbour.load})"
    share = f" at {100 * neighbour.busy:.0f} %" if neighbour.busy < 1 else ""
    place = "the same CPUs" if neighbour.cpus == "same" else "other CPUs"
    where = "" if neighbour.environment == "host" else f", in {neighbour.environment}"
    whom = "it" if instances == 1 else f"each of its {instances} instances"
    return f"{burner}{share} beside {whom}, on {place}{where}"
