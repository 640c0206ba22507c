"""Doubts about the machine: was it the same for both sides, and all ours?

What the meters saw is set side by side. A difference of means is told when it is large enough to
matter and larger than three standard errors, so that what scatters from trial to trial is not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ullage.analysis.comparison.model import Doubt
from ullage.analysis.comparison.pairing import Draft
from ullage.analysis.comparison.rounding import share
from ullage.runs.events import Trial

STEAL = 0.01
"""Share of CPU time that the hypervisor took, above which we say so."""
SLOWER = 0.01
"""Part by which frequencies may differ."""
THROTTLED = 0.1
"""Part of the trials by which throttled ones may differ."""
WAITED = {"cpu": 0.1, "io": 0.1, "memory": 0.02}
"""Share of the time by which waiting (PSI) may differ."""
OTHERS = 0.02
"""Share of CPU time by which what others used may differ."""
ERRORS = 3.0
COVERED = 0.9
"""An account that has less of what the programs say they used does not have them."""


def doubts(d: Draft) -> list[Doubt | None]:
    """Those of one comparison."""
    return [_steal(d), _frequency(d), _throttled(d), *_pressure(d), _co_tenant(d)]


def readings(trials: Iterable[Trial], meter: str, quantity: str) -> list[float]:
    """What a meter gave, of the trials in which it did."""
    return [
        reading
        for trial in trials
        if (reading := trial.meters.get(meter, {}).get(quantity)) is not None
    ]


def others(trial: Trial) -> float | None:
    """Share of all CPU time that neither the trial nor ullage used; None: it cannot be told.

    What was ours is what the control groups say, where these hold the programs: not less than
    nine tenths of what the programs say themselves. Where the programs are the host's own (their
    clock is the host's) what they say will do too. A guest's kernel knows nothing of what its VM
    costs the host. In a duet the other side is none of this trial's programs, so only control
    groups tell.
    """
    host = trial.host
    time, programs, controller = (host.get(name) for name in ("cpu_time", "programs", "controller"))
    if not time or programs is None or controller is None or trial.status != "ok":
        return None
    reported = sum(r.usage.user_s + r.usage.system_s for r in trial.roles if r.usage is not None)
    reported /= time
    accounted = host.get("instances", 0.0)
    if accounted < COVERED * reported or "instances" not in host:
        guest = not all(clock.shared for clock in trial.clocks.values())
        if guest or not trial.clocks or trial.partner is not None:
            return None
    return max(0.0, programs - controller - max(accounted, reported))


def crowd(trials: Iterable[Trial]) -> float | None:
    """Mean share of the host's CPU time that others had while trials ran; None: it is not known.

    What a hypervisor under the host gave to others is among it.
    """
    shares = [
        used + trial.host.get("steal", 0.0)
        for trial in trials
        if (used := others(trial)) is not None
    ]
    return _mean(shares) if shares else None


def apart(mine: Sequence[float], theirs: Sequence[float], least: float) -> bool:
    """Are the means further apart than `least`, and than three standard errors?"""
    if min(len(mine), len(theirs)) < 2:
        return False
    x, y = np.array(mine), np.array(theirs)
    error = math.sqrt(x.var(ddof=1) / x.size + y.var(ddof=1) / y.size)
    return abs(float(x.mean() - y.mean())) > max(least, ERRORS * error)


def _sides(d: Draft, meter: str, quantity: str) -> tuple[list[float], list[float]]:
    return (
        readings(d.environment_series.values(), meter, quantity),
        readings(d.baseline_series.values(), meter, quantity),
    )


def _mean(x: Sequence[float]) -> float:
    return float(np.mean(x))


def _steal(d: Draft) -> Doubt | None:
    mine, theirs = _sides(d, "host", "steal")
    if not apart(mine, theirs, STEAL):
        return None
    return Doubt(
        code="steal",
        message=f"The hypervisor under this host took {share(_mean(mine))} of the CPU time while "
        f"{d.environment.label} ran, and {share(_mean(theirs))} while {d.baseline.label} ran.",
        advice="The side that lost more looks slower than it is, by up to what it lost. Use a host "
        "of your own, or a quieter hour.",
    )


def _frequency(d: Draft) -> Doubt | None:
    mine, theirs = _sides(d, "cpu", "frequency")
    if not mine or not theirs or not apart(mine, theirs, SLOWER * _mean(theirs)):
        return None
    return Doubt(
        code="frequency",
        message=f"The CPUs ran at {_ghz(mine)} after trials of {d.environment.label}, and at "
        f"{_ghz(theirs)} after those of {d.baseline.label}.",
        advice="A part of the ratio is the CPU's speed, not the environment's work: in CPU-bound "
        "figures as much as the frequencies differ. If the environment itself makes the CPU slow "
        "(wide vectors, wake-ups), users get that too. Else, for the next run: "
        f"{steadier(d.settings.governor, turbo_off=d.settings.turbo_off)}",
    )


def power(host: Mapping[str, Any]) -> tuple[str | None, bool]:
    """Governor and whether turbo is off, by the facts of a host."""
    governor = host.get("governor")
    return (governor if isinstance(governor, str) else None), host.get("turbo_disabled") == "1"


def steadier(governor: str | None, *, turbo_off: bool) -> str:
    """What can be done for a steady frequency on such a host."""
    remedies = [] if governor == "performance" else ["the governor `performance`"]
    remedies += [] if turbo_off else ["turbo off"]
    if remedies:
        return f"fix the frequency ({', '.join(remedies)})."
    return (
        "the governor is `performance` and turbo is off already, so cool the machine, or ask who "
        "else sets its clock: firmware, a hypervisor under it."
    )


def cooler(*, turbo_off: bool) -> str:
    """The same against heat."""
    return "Cool the machine, or use fewer CPUs" if turbo_off else _COOLER


_COOLER = "Cool the machine, use fewer CPUs, or turn turbo off"


def _ghz(values: Sequence[float]) -> str:
    return f"{_mean(values) / 1e9:.2f} GHz"


def _throttled(d: Draft) -> Doubt | None:
    mine, theirs = ([float(x > 0) for x in side] for side in _sides(d, "cpu", "throttled"))
    if not apart(mine, theirs, THROTTLED):
        return None
    return Doubt(
        code="throttled",
        message=f"Heat slowed the CPU down in {share(_mean(mine))} of the trials of "
        f"{d.environment.label}, and in {share(_mean(theirs))} of those of {d.baseline.label}.",
        advice="The side that was slowed down more often looks slower than it is. "
        f"{cooler(turbo_off=d.settings.turbo_off)}, and run again.",
    )


def _pressure(d: Draft) -> list[Doubt]:
    """Waiting that differs and need not be the environment's own.

    A disk workload waits for the disk, and what it waits differs as its speed does. Waiting for a
    CPU is by threads of our own where nobody else used one.
    """
    own_io = d.workload.resource == "disk"
    pressures = []
    for resource, least in WAITED.items():
        mine, theirs = _sides(d, "host", f"psi_{resource}")
        if not apart(mine, theirs, least) or (resource == "io" and own_io):
            continue
        if resource == "cpu" and _alone(d):
            continue
        pressures.append(
            Doubt(
                code="pressure",
                message=f"Some task waited for {_NAMES[resource]} in {share(_mean(mine))} of the "
                f"time while {d.environment.label} ran, and in {share(_mean(theirs))} while "
                f"{d.baseline.label} ran.",
                advice="If it is the environment's own threads that wait for each other (a VM's "
                "devices on its vCPU's CPU), it is a part of its cost, and the ratio is right. If "
                "others waited, or made it wait, the ratio is theirs too: see what else runs on "
                "the host, or give the environments more of `resources:`.",
            )
        )
    return pressures


_NAMES = {"cpu": "a CPU", "io": "a disk", "memory": "memory"}


def _others(d: Draft) -> tuple[list[float], list[float]]:
    mine, theirs = (
        [used for trial in series.values() if (used := others(trial)) is not None]
        for series in (d.environment_series, d.baseline_series)
    )
    return mine, theirs


def _alone(d: Draft) -> bool:
    mine, theirs = _others(d)
    return bool(mine and theirs) and max(_mean(mine), _mean(theirs)) <= OTHERS


def _co_tenant(d: Draft) -> Doubt | None:
    mine, theirs = _others(d)
    if not apart(mine, theirs, OTHERS):
        return None
    return Doubt(
        code="co-tenant",
        message=f"Others used {share(_mean(mine))} of all CPU time while {d.environment.label} "
        f"ran, and {share(_mean(theirs))} while {d.baseline.label} ran.",
        advice="Others are all programs of the host but the trial's, the kernel's helpers for the "
        "trial among them. If these are what differs it is a part of the environment's cost; if "
        "somebody else worked, one side had more of it: run again on a quiet host.",
    )
