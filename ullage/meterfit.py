"""Coefficients of the meter `model` from two files: of an instrument, and of the load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ullage import meterfile
from ullage.analysis.energy.integrate import Integral
from ullage.analysis.energy.series import Stretch
from ullage.channels import addable
from ullage.energy.coefficients import Coefficients
from ullage.energy.fitting import fit as line
from ullage.errors import ENERGY_BAD_INSTANT, ENERGY_FIT_POOR, UllageError
from ullage.meterfile import Window
from ullage.quantities import Seconds

_SECONDS: TypeAdapter[float] = TypeAdapter(Seconds)


def fit(power: Path, load: Path, window: str) -> Coefficients:
    """Mean power and mean load of each window in which both are known, and the line through them.

    ENERGY_FIT_POOR, ENERGY_READINGS_NONE, ENERGY_READINGS_BAD.
    """
    try:
        seconds = _SECONDS.validate_python(window)
    except ValidationError as error:
        reason = "a duration such as 5s"
        raise UllageError(ENERGY_BAD_INSTANT, found=repr(window), reason=reason) from error
    files = [meterfile.of_last_boot(meterfile.read(file)) for file in (power, load)]
    for stretch in files[1]:
        if not _is_load(stretch):
            reason = f"{load} is no load: record one with `ullage meter start model --option "
            raise UllageError(
                ENERGY_FIT_POOR, reason=f"{reason}idle_watts=0 --option core_watts=1`"
            )
    spans = [meterfile.covered(stretches) for stretches in files]
    pairs: list[tuple[float, float]] = []
    scopes = {c.scope for stretch in files[0] for c in stretch.opened.channels}
    methods = {c.method for stretch in files[0] for c in stretch.opened.channels}
    if len(scopes) != 1 or methods != {"measured"} or not scopes <= {"wall", "package"}:
        told = ", ".join(sorted(scopes | methods)) or "no channel"
        reason = f"{power} has {told}: it needs what one instrument measures, at the wall or of"
        raise UllageError(ENERGY_FIT_POOR, reason=f"{reason} packages")
    if spans[0] is not None and spans[1] is not None:
        for part in _windows(spans[0], spans[1], seconds):
            means = [_mean_w(stretches, part) for stretches in files]
            if means[0] is not None and means[1] is not None:
                pairs.append((means[0], means[1]))
    scope = scopes.pop()
    source = files[0][-1].opened.channels[0].source
    watts, cpus = [p for p, _ in pairs], [c for _, c in pairs]
    return line(watts, cpus, "wall" if scope == "wall" else "package", source)


def _is_load(stretch: Stretch) -> bool:
    """A watt of it is a busy CPU."""
    opened, stated = stretch.opened, stretch.opened.options
    watts = (stated.get("idle_watts"), stated.get("core_watts"))
    return opened.meter == "model" and watts == (0, 1)


def _windows(one: Window, other: Window, seconds: float) -> Iterator[Window]:
    """The time that both have, cut into windows."""
    step = round(seconds * 1e9)
    start, end = max(one.start_ns, other.start_ns), min(one.end_ns, other.end_ns)
    for at in range(start, end - step + 1, step):
        yield Window(at, at + step)


def _mean_w(stretches: tuple[Stretch, ...], window: Window) -> float | None:
    """Of all channels together; None where one of them is not known."""
    first = stretches[0].opened.channels[0]
    adding = addable(stretches[-1].opened.channels, first.scope, first.method)
    found = [e.energy for e in meterfile.measured(stretches, window) if e.channel in adding]
    known = [each for each in found if isinstance(each, Integral)]
    return sum(each.mean_w for each in known) if len(known) == len(found) else None
