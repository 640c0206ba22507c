"""`ullage try`: from a command or an image to a plan for this host and the time given.

A pilot in the baseline shows that it works and how long it takes; blocks and iterations follow.
"""

from __future__ import annotations

import errno
import math
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from ullage import environments
from ullage.common.errors import (
    TRY_ALONE,
    TRY_FAILED,
    TRY_HIDDEN,
    TRY_NO_PROGRAM,
    TRY_NOT_IN_IMAGE,
    TRY_READ_ONLY,
    TRY_TOO_SHORT,
    UllageError,
)
from ullage.common.quantities import format_seconds
from ullage.engine.engine import Engine
from ullage.engine.progress import Progress
from ullage.environments.qemu import probe
from ullage.plan import matrix, schema
from ullage.plan.image import planned_image
from ullage.runs.reader import RunFolder
from ullage.stats import LEAST_PAIRS

ENVIRONMENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "native": {"provider": "native"},
    "container": {"provider": "oci"},
    "lxc": {"provider": "lxc"},
    "vm": {"provider": "qemu", "disk": {"format": "raw", "cache": "none"}},
}
HOST: Final = "host"
PILOT: Final = "pilot"
"""The folder of the pilot's own run, in that of the run."""
TRIAL_S: Final = 0.1
"""A trial is to take so long at least: what is shorter is done several times."""
MOST_ITERATIONS: Final = 20
OVERHEAD_S: Final = 0.25
"""Of a trial beside its work, about: to wake, to look at the clock, to freeze."""
MOST_BLOCKS: Final = 200
CONCLUDING_S: Final = 5.0
"""The report is written in that time, on CPUs that are free."""
MOST_CONCLUDING: Final = 1 / 2
"""Of the whole time: what is left must still be worth a report."""
SPUN_S: Final = 0.05
_EROFS: Final = os.strerror(errno.EROFS)
_OWN: Final = ("/tmp", "/run", "/dev", "/proc", "/sys")  # noqa: S108
"""Of each container."""
_SYSTEM: Final = ("/usr/bin", "/usr/sbin", "/bin", "/sbin")


@dataclass(frozen=True)
class TryRequest:
    """What the user gave."""

    workload: Mapping[str, Any]
    """As it stands in a plan."""
    within_s: float
    name: str
    image: Any = None
    """As it stands in a plan; None: ours."""
    environments: tuple[str, ...] = ()
    """Of ENVIRONMENTS; the first is the baseline. Empty: all that this host has."""
    cpus: float = 1


@dataclass(frozen=True)
class Choice:
    """Environments that this host has, and why the others are left out."""

    names: tuple[str, ...]
    absent: Mapping[str, str] = field(default_factory=dict)


async def choose(request: TryRequest) -> Choice:
    """Ask each provider. One that was asked for must be there; else TRY_ALONE if only one is."""
    absent: dict[str, str] = {}
    for name in request.environments or ENVIRONMENTS:
        provider = environments.get(str(ENVIRONMENTS[name]["provider"]))
        if request.image == HOST and not provider.host_image:
            without = ", without `--image host`," if request.environments else ""
            absent[name] = (
                f"it cannot run from the host's own files; `--in native,{name}`{without}"
                " has an image made"
            )
            continue
        emulated = f"no KVM here; `--in native,{name}` has it emulated, slowly"
        if name == "vm" and not request.environments and probe.no_device():
            absent[name] = emulated  # its check would fetch a guest's kernel first
            continue
        one = provider(provider.options_model())
        try:
            await one.check()
        except UllageError as error:
            absent[name] = f"{error.message}; {error.hint}"
            if request.environments:
                raise
        if one.emulated and not request.environments:
            absent[name] = emulated
    names = tuple(n for n in request.environments or ENVIRONMENTS if n not in absent)
    if len(names) < 2:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in absent.items())
        raise UllageError(TRY_ALONE, names=", ".join(names) or "nothing", absent=reasons)
    return Choice(names, absent)


def image_of(program: str, names: tuple[str, ...]) -> Any:
    """For a plan: the host's own files, or, for environments that cannot have these, our image
    with the packages that hold a program of this host.

    TRY_NO_PROGRAM, TRY_NOT_IN_IMAGE. The first answer waits for no image to be built.
    """
    place = _place(program)
    if all(_provider(name).host_image for name in names):
        return HOST
    packages = _owners(place)
    if not packages:
        raise UllageError(TRY_NOT_IN_IMAGE, program=place)
    return {"packages": packages}


def on_host(program: str) -> str:
    """As environments of the host's own files find it, whose PATH is the system's and whose
    working directory is empty. TRY_NO_PROGRAM; TRY_HIDDEN where a container has its own folder.
    """
    place = _place(program)
    if str(place.parent) in _SYSTEM:
        return program
    for folder in _OWN:
        if place.is_relative_to(folder) or place.resolve().is_relative_to(folder):
            raise UllageError(TRY_HIDDEN, program=place, folder=folder)
    return str(place)


def _place(program: str) -> Path:
    place = shutil.which(program)
    if place is None:
        raise UllageError(TRY_NO_PROGRAM, program=program)
    return Path(place).absolute()


def _owners(place: Path) -> list[str]:
    """Debian packages of a program where the system has it, by its name and by what that means."""
    if str(place.parent) not in _SYSTEM or shutil.which("dpkg-query") is None:
        return []
    files = {str(place.absolute()), str(place.resolve())}
    files |= {file.removeprefix("/usr") for file in files if file.startswith("/usr/")}
    done = subprocess.run(
        ["dpkg-query", "--search", *sorted(files)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "LC_ALL": "C"},
    )
    owners = re.findall(r"^([a-z0-9][a-z0-9.+-]*)(?::\w+)?: (.+)$", done.stdout, re.MULTILINE)
    return sorted({package for package, file in owners if file in files})


async def plan_for(
    request: TryRequest, names: tuple[str, ...], pilot: Path, progress: Progress
) -> str:
    """Run the pilot in its folder, and write the plan. TRY_FAILED, TRY_TOO_SHORT.

    The time begins when the image is there.
    """
    plan, document = schema.loads(_text(request, (names[0],), {"min": 1, "max": 1}, 1))
    cells = matrix.resolve(plan, document)
    if plan.image != HOST:
        await planned_image(plan, cells, lambda text: progress.step(f"image: {text}"))
    began = time.monotonic()
    await Engine(plan, cells, pilot, progress).run()
    seconds, overhead_s = _lengths(names[0], pilot)
    iterations = min(MOST_ITERATIONS, max(1, math.ceil(TRIAL_S / seconds)))
    block_s = (len(names) + 1) * (seconds * iterations + overhead_s)
    making_s = sum(_provider(name).provision_s for name in (names[0], *names))
    concluding_s = min(CONCLUDING_S * stretch(), MOST_CONCLUDING * request.within_s)
    spent_s = time.monotonic() - began + concluding_s
    left_s = request.within_s - spent_s
    blocks = int((left_s - making_s) / block_s)
    if blocks < 2:
        least_s = spent_s + making_s + LEAST_PAIRS * block_s
        raise UllageError(
            TRY_TOO_SHORT,
            needed=format_seconds(making_s + 2 * block_s),
            left=format_seconds(max(0.0, left_s)),
            within=format_seconds(request.within_s),
            suggestion=f"{math.ceil(1.2 * least_s)}s",
        )
    return _text(
        request,
        names,
        {
            "min": min(LEAST_PAIRS, blocks),
            "max": MOST_BLOCKS,
            "until": {"verdicts": "all"},
            "budget": f"{left_s:.0f}s",
        },
        iterations,
    )


def _lengths(environment: str, pilot: Path) -> tuple[float, float]:
    """Seconds of the work, once its caches are warm, and of a trial beside it. TRY_FAILED."""
    folder = RunFolder.open(pilot)
    trials = folder.trials
    good = [trial for trial in trials if trial.status == "ok"]
    if not good:
        reason = (
            trials[-1].reason.message if trials and trials[-1].reason else "no trial came to be"
        )
        facts = {"environment": environment, "reason": reason, "folder": pilot}
        if _wrote_root(pilot, reason):
            raise UllageError(TRY_READ_ONLY, **facts)
        raise UllageError(TRY_FAILED, **facts)
    works_s = [(trial.end_ns - trial.start_ns) / 1e9 for trial in trials]
    overhead_s = (folder.spent_s - sum(works_s)) / len(trials)
    return max(1e-3, (good[-1].end_ns - good[-1].start_ns) / 1e9), max(OVERHEAD_S, overhead_s)


def _wrote_root(pilot: Path, reason: str) -> bool:
    """Whether it, or what it printed, has the kernel's words for that."""
    outputs = (pilot / "trials").rglob("*.std*")
    return _EROFS in reason or any(_EROFS.encode() in file.read_bytes() for file in outputs)


def stretch() -> float:
    """How many times as long work takes here now, since others have the CPUs too."""
    began, begun_cpu = time.monotonic(), time.thread_time()
    while (cpu_s := time.thread_time() - begun_cpu) < SPUN_S:
        pass
    return max(1.0, (time.monotonic() - began) / cpu_s)


def _provider(name: str) -> type[environments.Provider]:
    return environments.get(str(ENVIRONMENTS[name]["provider"]))


def _text(
    request: TryRequest, names: tuple[str, ...], blocks: Mapping[str, Any], iterations: int
) -> str:
    """The plan as a file."""
    plan: dict[str, Any] = {
        "name": request.name,
        "baseline": names[0],
        "resources": {"cpus": request.cpus, "memory": "1GiB"},
        **({} if request.image is None else {"image": request.image}),
        "environments": {name: dict(ENVIRONMENTS[name]) for name in names},
        "workloads": [dict(request.workload)],
        "blocks": dict(blocks),
        **({} if iterations == 1 else {"repeat": {"iterations": iterations}}),
    }
    head = "# Written by `ullage try`, for the host and the time that it had.\n"
    return head + yaml.safe_dump(plan, sort_keys=False, allow_unicode=True, width=100)
