"""The specification of a simulation: read, checked, and made into what the simulator takes.

Fields are checked here; what two fields mean together, the simulator checks itself, and its
complaint is told with the file, the line and the field as the user wrote it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ullage import _elastic
from ullage.common.errors import ELASTIC_BAD_TRACE, PLAN_BAD_FIELD, UllageError
from ullage.common.fields import check_fields, checked, shown
from ullage.common.yamlfile import FieldPath, YamlFile, read
from ullage.experiments.elastic.analysis import latencies
from ullage.experiments.elastic.analysis.demand import window_s
from ullage.experiments.elastic.plan import schema
from ullage.experiments.elastic.plan.units import trace_times
from ullage.experiments.elastic.simulator.fields import Allocation, Specification

SWEEPS: Final = ("vary", "seeds", "confidence")
"""What only `ullage elastic sweep` reads."""

_OURS: Final[dict[str, FieldPath]] = {
    "application.room": ("room",),
    "application.max_nodes": ("nodes", "max"),
    "application.min_nodes": ("nodes", "min"),
    "application": ("nodes",),
    "sessions": ("arrivals", "viewers"),
    "duration_s": ("arrivals", "lasting"),
    "arrivals.peak_hz": ("arrivals", "peak"),
    "arrivals.from_s": ("arrivals", "at"),
    "arrivals.for_s": ("arrivals", "for"),
    "arrivals.at_s": ("arrivals", "file"),
    "watch": ("video", "length"),
    "allocation.rows": ("allocation",),
}
"""The simulator's fields that are called otherwise here."""

_THEIRS: Final = {"s": "value", "sd_s": "deviation"}
"""Those of a time."""


@dataclass(frozen=True)
class Simulation:
    specification: Specification
    rust: dict[str, Any]
    """As the simulator has it."""

    def text(self, seed: int | None = None, **more: Any) -> str:
        """For the simulator, with another seed if one is given, and with fields of its own."""
        return json.dumps({**self.rust, **({} if seed is None else {"seed": seed}), **more})


def load(file: Path) -> Simulation:
    """Read and check a file for one simulation; every fault is a UllageError."""
    document = read(file)
    fields(document)
    for field in SWEEPS:
        if field in document.data:
            raise UllageError(
                PLAN_BAD_FIELD,
                file=document.name,
                line=document.line((field,)),
                field=field,
                found=shown(document.data[field]),
                allowed="one simulation has no such field",
                suggestion="`ullage elastic sweep` reads it",
            )
    return check(document, document.data)


def fields(document: YamlFile) -> None:
    """PLAN_BAD_FIELD unless the document has fields, and those of a simulation."""
    check_fields(document, "specification", "docs/guide/elastic-simulator.md has one")
    if "environments" in document.data:
        raise UllageError(
            PLAN_BAD_FIELD,
            file=document.name,
            line=document.line(("environments",)),
            field="environments",
            found=shown(document.data["environments"]),
            allowed="a simulation has none: this is the plan of a run",
            suggestion=f"`ullage elastic run {document.name}` runs it; `allocation: {{run: …}}` in "
            "a specification simulates with what its nodes took (docs/guide/elastic-simulator.md)",
        )


def check(document: YamlFile, data: dict[str, Any]) -> Simulation:
    """Check `data`, which stands in the document, except for what a sweep puts in its place."""
    specification = checked(Specification, data, document, ())
    rust = _rust(specification, document)
    try:
        _elastic.check(json.dumps(rust))
    except _elastic.SpecError as error:
        raise complaint(error, data, document) from error
    return Simulation(specification, rust)


def _rust(s: Specification, document: YamlFile) -> dict[str, Any]:
    trace = None
    if s.arrivals.file is not None:
        trace = _trace(s.arrivals.file)
    return {
        "application": {
            "room": s.room,
            "max_nodes": s.nodes.max,
            "min_nodes": s.nodes.min,
            **s.nodes.model_dump(include={"allocation", "placement", "waiting_room"}),
        },
        "policy": s.policy.model_dump(),
        "arrivals": s.arrivals.rust(trace),
        "sessions": s.arrivals.viewers,
        "duration_s": s.arrivals.lasting,
        "watch": s.video.length.rust(),
        "patience": s.patience and s.patience.rust(),
        "reconnect": s.reconnect and s.reconnect.rust(),
        "allocation": _allocation(s.allocation),
        "release": s.release.rust(),
        "failures": s.failures.rust(),
        "hosts": s.hosts and s.hosts.rust(),
        "seed": s.seed,
        "window_s": window_s(s.video.length.mean_s()),
        "warm_up_s": s.warm_up,
        "points": s.points,
    }


def _trace(file: Path) -> list[float]:
    try:
        return trace_times(schema.Arrivals(kind="trace", file=file))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UllageError(ELASTIC_BAD_TRACE, file=file, reason=reason) from error


def _allocation(a: Allocation) -> dict[str, Any]:
    if a.run is not None:
        rows = latencies.rows(latencies.of_run(a.run, a.environment, a.copy_))
    elif a.table is not None:
        rows = latencies.rows(latencies.of_table(a.table, a.environment))
    else:
        stages = a.stages or ({"allocation": a.time} if a.time else {})
        named = [{"name": name, "time": time.rust()} for name, time in stages.items()]
        rows = [{"concurrent": 1, "stages": named}]
    slower = [{"concurrent": n, "factor": factor} for n, factor in sorted(a.slow_down.items())]
    return {"rows": rows, "slow_down": slower, "gives_up_s": a.gives_up}


def complaint(error: _elastic.SpecError, data: dict[str, Any], document: YamlFile) -> UllageError:
    """The simulator's complaint, about the field as it stands in the file."""
    field, problem = error.args
    path, problem = _written(ours(field), data), re.sub(r" at line 1 column \d+$", "", problem)
    # Of what it reads whole it says the field itself: `nodes is -1; allowed: …`.
    own = re.match(r"(\w+) is .*?; (?=allowed: )", problem)
    if own is not None and path in (("policy",), ("nodes",)):
        path = ours(f"{field}.{own[1]}")
        problem = problem if "no field" in own[0] else problem[own.end() :]
    elif path[:1] != ("policy",):  # `low_s` is its word for `low`
        problem = re.sub(r"\b([a-z_]+)_(s|hz)\b", r"\1", problem)
    return UllageError(
        PLAN_BAD_FIELD,
        file=document.name,
        line=document.line(path),
        field=".".join(map(str, path)) or "the specification",
        found="nothing" if problem.startswith("is needed") else shown(_at(data, path)),
        allowed=problem,
        suggestion="docs/guide/elastic-simulator.md describes every field",
    )


def ours(field: str) -> FieldPath:
    """The path in the file of a field as the simulator calls it: `arrivals.rate_hz` → rate."""
    names = re.sub(r"\[\d+\]", "", field).split(".") if field else []
    for length in range(len(names), 0, -1):
        path = _OURS.get(".".join(names[:length]))
        if path is not None:
            return (*path, *map(_unit, names[length:]))
    return tuple(map(_unit, names))


def _unit(name: str) -> str:
    return _THEIRS.get(name) or re.sub(r"_(s|hz)$", "", name)


def _written(path: FieldPath, data: Any) -> FieldPath:
    """The path as the user wrote it: a time that stands plainly has no `value`, and one that is
    the whole allocation is no stage."""
    own = _at(data, path[:1])
    if path[:3] == ("allocation", "stages", "time") and "stages" not in own:
        time = ("time",) if isinstance(own, dict) and "time" in own else ()
        path = ("allocation", *time, *path[3:])
    plain = path[-1:] == ("value",) and not isinstance(_at(data, path[:-1]), dict)
    return path[:-1] if plain else path


def _at(data: Any, path: FieldPath) -> Any:
    """What stands there, or at its nearest parent that does."""
    for part in path:
        if not isinstance(data, dict) or part not in data:
            break
        data = data[part]
    return data
