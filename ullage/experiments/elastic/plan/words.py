"""Settings of an elastic run in the plan's words and units: the users' time, where it has that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ullage.analysis.comparison.rounding import quantity
from ullage.common.quantities import format_bytes, format_seconds, many
from ullage.experiments.elastic.folder import ElasticResolved, Video

_AT_ONCE: Final = "none (who finds no room is blocked at once)"
_RATES: Final = {"rate_hz": "rate", "peak_hz": "peak"}
_TIMES: Final = {"duration_s": "lasting", "at_s": "at", "decay_s": "decay"}
"""What the viewers are told, in real time → the plan's field."""
_NODES: Final = {"max_nodes": "max", "min_nodes": "min"}
"""`config` of the decisions → the plan's field of `nodes:`."""


def duration(seconds: float) -> str:
    """`500 ms`, `1.5 s`, `5 min`: exact, where `format_seconds` rounds."""
    seconds = float(f"{seconds:.6g}")  # a scaled time has the noise of its division
    if 0 < seconds < 1:
        return f"{1e3 * seconds:g} ms"
    step = 60 if seconds >= 3600 else 1
    exact = seconds >= 60 and seconds % step == 0
    return format_seconds(seconds) if exact else f"{seconds:g} s"


def patience(run: ElasticResolved) -> str:
    """`30 s`."""
    return duration(run.patience_s * run.time_scale) if run.patience_s else _AT_ONCE


def arrivals(run: ElasticResolved) -> str:
    """`poisson, rate 0.02/s, 6 viewers`."""
    return ", ".join(_arrivals(run.arrivals, run.time_scale))


def _arrivals(settings: Mapping[str, Any], scale: float) -> Iterator[str]:
    for name, value in settings.items():
        number = isinstance(value, int | float)
        if name in _RATES and number:
            yield f"{_RATES[name]} {value / scale:.6g}/s"
        elif name in _TIMES and number:
            yield f"{_TIMES[name]} {duration(value * scale)}"
        elif name == "count" and isinstance(value, int):
            yield many(value, "viewer")
        elif name == "sha256":
            yield f"{name} {str(value)[:12]}"
        elif name == "kind":
            yield str(value)
        elif name != "path":  # always the run's own copy
            yield f"{name} {value}"


def video(film: Video, scale: float) -> dict[str, str]:
    """What it is → how it is told."""
    return {
        "length": duration(film.length_s * scale),
        "bitrate": quantity(film.bitrate_bps, "bit/s", 6),
        "sent": "as it plays" if film.sent_bps is None else quantity(film.sent_bps, "bit/s", 6),
        "kind": film.kind,
    }


def resources(limits: Mapping[str, Any]) -> str:
    """`1 CPU, 256MiB`."""
    return ", ".join(_resources(limits)) or "none"


def _resources(limits: Mapping[str, Any]) -> Iterator[str]:
    for name, value in limits.items():
        if name == "cpus" and isinstance(value, int | float):
            yield f"{value:g} CPU{'' if value == 1 else 's'}"
        elif name == "memory" and isinstance(value, int):
            yield format_bytes(value)
        elif value is not None:
            yield f"{name} {value}"


def generators(machines: Mapping[str, Any] | None) -> str:
    """`2 × container (crun), 1 CPU, 256MiB each`; without machines the viewers are processes."""
    if machines is None:
        return "this host"
    own = machines.get("options")
    options = fields(own) if isinstance(own, Mapping) else {}
    limits = machines.get("resources")
    parts = [
        f"{machines.get('number')} × {machines.get('label')}",
        resources(limits) if isinstance(limits, Mapping) else "",
        *(f"{name} {value}" for name, value in options.items()),
    ]
    return ", ".join(part for part in parts if part)


def fields(record: Mapping[str, Any], within: str = "") -> dict[str, str]:
    """Field → its value, without those that say nothing; of a field of fields `disk size`."""
    texts: dict[str, str] = {}
    for name, value in record.items():
        whole = f"{within}{name}".replace("_", " ")
        if isinstance(value, Mapping):
            texts |= fields(value, f"{whole} ")
        elif value is not None:
            texts[whole] = ("no", "yes")[value] if isinstance(value, bool) else str(value)
    return texts


def policy(settings: Mapping[str, Any]) -> str:
    """`hysteresis, up 2, down 3`."""
    own = {name: value for name, value in settings.items() if name != "name"}
    return ", ".join([str(settings.get("name")), *(f"{n} {v}" for n, v in fields(own).items())])


def nodes(machine: Mapping[str, Any]) -> dict[str, str]:
    """The plan's field of `nodes:` → its value; the room is the plan's own."""
    return fields({_NODES.get(n, n): v for n, v in machine.items() if n != "room"})


def rooms(r: ElasticResolved) -> str:
    """`40`; `lxc 40, vm 12` where environments differ."""
    numbers = {environment.key: r.room_of(environment.key) for environment in r.environments}
    if len(set(numbers.values())) == 1:
        return str(r.room)
    return ", ".join(f"{key} {number}" for key, number in numbers.items())


def capacities(r: ElasticResolved) -> str:
    """Where the rooms were measured, to stand behind them; empty: the plan says them."""
    return "".join(
        f"; {key}'s is the median of {many(one.trials, 'trial')} of {one.environment} "
        f"in {one.run}, {one.lowest} to {one.highest}"
        for key, setting in r.settings.items()
        if (one := setting.capacity) is not None
    )


def machines(r: ElasticResolved) -> str:
    """`here (this host), a (root@a)`; without machines: this host."""
    names = (f"{name} ({own.address or 'this host'})" for name, own in r.machines.items())
    return ", ".join(names) or "this host"
