"""What can be found out about a plan and this host before anything starts."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ullage import _elastic
from ullage.common.errors import (
    ELASTIC_BAD_TRACE,
    ELASTIC_FRONT_NOT_STARTED,
    ELASTIC_HOST_TOO_SMALL,
    ELASTIC_NO_ADDRESS,
    ELASTIC_NO_CLIP,
    HOST_NEEDS_ROOT,
    HOST_TOO_SMALL,
    PLAN_BAD_FIELD,
    UllageError,
)
from ullage.common.files import cache_dir
from ullage.common.quantities import format_bytes, many, memory_bytes
from ullage.common.yamlfile import FieldPath, YamlFile
from ullage.environments import Provider, placement
from ullage.environments.agent import client
from ullage.experiments.elastic.plan import machines, units
from ullage.experiments.elastic.plan.schema import ElasticPlan, Generators, NodeEnvironment
from ullage.experiments.elastic.plan.units import Scaled
from ullage.experiments.elastic.run import front, nodes, viewers
from ullage.host import binaries, devices, image

# What a plan may ask of the front and the viewers, in real time: told before anything starts.
#
# The numbers are those of `rust/front/src/config.rs` and `rust/viewers/src/bounds.rs`; programs
# that refused them would fail one repetition after the other.

LATEST_S: Final = 1e8
"""Before this the last viewer of a trace comes."""
_DAY_S: Final = 86_400.0
_YEAR_S: Final = 366 * _DAY_S
_SECONDS: Final = "s"
_RATE: Final = "viewers a second"


@dataclass(frozen=True)
class _Bound:
    """Of one field, as the programs are told it."""

    field: FieldPath
    value: float | None
    least: float
    most: float
    unit: str = _SECONDS

    @property
    def holds(self) -> bool:
        return self.value is None or self.least <= self.value <= self.most


def check_bounds(plan: ElasticPlan, document: YamlFile) -> None:
    """PLAN_BAD_FIELD: the first field that the front or the viewers would not take."""
    for bound in _bounds(plan):
        if not bound.holds:
            raise UllageError(
                PLAN_BAD_FIELD,
                file=document.name,
                line=document.line(bound.field),
                field=".".join(map(str, bound.field)),
                found=f"{bound.value:g} {bound.unit} of real time",
                allowed=f"allowed: {bound.least:g} to {bound.most:g}",
                suggestion="`time_scale` divides the users' times and multiplies their rates; "
                "`lateness_limit` and `video: buffer:` are real",
            )


def _bounds(plan: ElasticPlan) -> Iterator[_Bound]:
    """Of a film, the length from which its bytes follow: its bits a second stay what they are."""
    scale, arrivals, scaled = plan.time_scale, plan.arrivals, Scaled(plan)
    yield _Bound(("patience",), scaled.patience_s, 0, _DAY_S)
    yield _Bound(("lateness_limit",), plan.lateness_limit, 1e-6, 1000)
    yield _Bound(("video", "buffer"), plan.video.buffer, 0, _YEAR_S)
    yield _Bound(("video", "length"), scaled.length_s, 1e-3, _YEAR_S)
    for name in ("rate", "peak"):
        rate = getattr(arrivals, name)
        real_rate = None if rate is None else rate * scale
        yield _Bound(("arrivals", name), real_rate, 1e-6, 1e8, _RATE)
    for name, least in (("lasting", 0.0), ("at", 0.0), ("decay", 1e-6)):
        length = getattr(arrivals, name)
        yield _Bound(("arrivals", name), None if length is None else length / scale, least, _YEAR_S)


_SIMULATED: Final[dict[str, Any]] = {
    "arrivals": {"kind": "poisson", "rate_hz": 1.0},
    "sessions": 1,
    "watch": {"kind": "fixed", "s": 1.0},
    "allocation": {"rows": [{"stages": [{"name": "all", "time": {"kind": "fixed", "s": 1.0}}]}]},
}
"""The least that the simulator is told beside the decisions."""


async def check(
    plan: ElasticPlan,
    environments: Sequence[NodeEnvironment],
    document: YamlFile,
    generators: Generators | None = None,
) -> None:
    """Whatever can be found out before anything starts; nothing is left of it.

    HOST_NEEDS_ROOT, PROGRAM_MISSING, AGENT_BINARY_MISSING, ELASTIC_BAD_TRACE, ELASTIC_NO_CLIP (a
    film that is larger than the disk), ELASTIC_HOST_TOO_SMALL, ELASTIC_NO_ADDRESS, PLAN_BAD_FIELD
    (a policy's fields, and what front or viewers would not take), and what providers say of this
    host.
    """
    for step in _steps(plan, environments, document, generators):
        await step()


async def lacks(
    plan: ElasticPlan,
    environments: Sequence[NodeEnvironment],
    document: YamlFile,
    generators: Generators | None = None,
) -> list[UllageError]:
    """All of that which is not so here."""
    faults = []
    for step in _steps(plan, environments, document, generators):
        try:
            await step()
        except UllageError as error:
            faults.append(error)
    return faults


def _steps(
    plan: ElasticPlan,
    environments: Sequence[NodeEnvironment],
    document: YamlFile,
    generators: Generators | None,
) -> Iterator[Callable[[], Awaitable[None]]]:
    """Each finds one thing out."""
    here = machines.here(plan)
    yield partial(_now, _as_root)
    for program in (front.PROGRAM, viewers.PROGRAM):
        yield partial(_now, partial(binaries.program, program))
    yield partial(_now, client.binary)
    yield partial(_now, partial(check_bounds, plan, document))
    yield partial(_now, partial(_readable, plan))
    yield partial(_now, partial(_film_has_room, plan))
    yield partial(_now, partial(_disks, environments if here else (), generators))
    if plan.image == "host":
        yield partial(_now, partial(image.require_on_host, nodes.PROGRAMS))
    for environment in environments:
        if not environment.provider.elsewhere and here:
            yield partial(_now, partial(_fits, environment, f"a node of {environment.key}"))
        if generators is not None:
            fewest = max(environment.nodes.min, 1) if not plan.machines else int(here)
            yield partial(_now, partial(_fit_together, environment, generators, fewest))
        yield partial(_provider, environment.provider, f"the nodes of {environment.key}")
        yield partial(_now, partial(_policy, plan, document, environment))
    if generators is not None:
        yield partial(_now, partial(_fits, generators, "a generator"))
        yield partial(_provider, generators.provider, "the generators")


async def _now(step: Callable[[], object]) -> None:
    step()


def _as_root() -> None:
    if os.geteuid() != 0:
        raise UllageError(
            HOST_NEEDS_ROOT, what="an elastic run", otherwise="use `ullage elastic simulate`"
        )


def _readable(plan: ElasticPlan) -> None:
    if plan.arrivals.kind == "trace":
        try:
            last_s = units.trace_times(plan.arrivals)[-1] / plan.time_scale
            if last_s >= LATEST_S:
                last = f"its last viewer comes after {last_s:g} s of real time"
                raise ValueError(f"{last}, and must before {LATEST_S:g} s")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UllageError(ELASTIC_BAD_TRACE, file=plan.arrivals.file, reason=reason) from error


def _film_has_room(plan: ElasticPlan) -> None:
    """It is made once, and whole: not one that is larger than the disk."""
    place = next(path for path in (cache_dir(), *cache_dir().parents) if path.exists())
    needed, has = Scaled(plan).film_bytes, shutil.disk_usage(place).total
    if needed > has:
        reason = f"it has {format_bytes(needed)}, and the disk of {place} {format_bytes(has)}"
        raise UllageError(ELASTIC_NO_CLIP, reason=reason)


def _disks(environments: Sequence[NodeEnvironment], generators: Generators | None) -> None:
    """DISK_UNUSABLE, and DISK_SHARED where nodes that differ in their disk do not."""
    devices.check({cell.key: cell.provider.data_request for cell in environments})
    if generators is not None:
        devices.check({"generators": generators.provider.data_request})


def _fits(of: NodeEnvironment | Generators, name: str) -> None:
    """One of them, at least."""
    try:
        placement.place(of.resources, 0)
    except UllageError as error:
        if error.kind is not HOST_TOO_SMALL:
            raise
        cpus = f"{error.facts['asked']} for {name}"
        raise UllageError(ELASTIC_HOST_TOO_SMALL, asked=cpus, has=error.facts["has"]) from error
    needed, has = of.resources.memory, memory_bytes()
    if needed > has:
        memory = f"{format_bytes(needed)} of memory for {name}"
        raise UllageError(ELASTIC_HOST_TOO_SMALL, asked=memory, has=format_bytes(has))


def _fit_together(environment: NodeEnvironment, generators: Generators, nodes: int) -> None:
    """All machines of the viewers, who are there all the time, and so many nodes beside them."""
    needed = units.memory_of(nodes, environment.resources)
    needed += units.memory_of(generators.number, generators.resources)
    if needed > (has := memory_bytes()):
        beside = f"{many(nodes, 'node')} of {environment.key} and " if nodes else ""
        all_of_them = beside + many(generators.number, "generator")
        memory = f"{format_bytes(needed)} of memory for {all_of_them}"
        raise UllageError(ELASTIC_HOST_TOO_SMALL, asked=memory, has=format_bytes(has))


async def _provider(provider: Provider, what: str) -> None:
    if getattr(provider.options, "network", None) == "user":
        raise UllageError(ELASTIC_NO_ADDRESS, machines=what)
    await provider.check()


def _policy(plan: ElasticPlan, document: YamlFile, environment: NodeEnvironment) -> None:
    """Do the decisions know its policy, and the fields of it? PLAN_BAD_FIELD, of their line.

    The simulator is asked, which has the front's own state machine: so nothing is started.
    """
    decided = {
        "application": Scaled(plan).machine(environment),
        "policy": environment.policy.model_dump(mode="json"),
    }
    try:
        _elastic.check(json.dumps(_SIMULATED | decided))
    except _elastic.SpecError as error:
        raise _bad_policy(error, environment, document) from None


def _bad_policy(
    error: _elastic.SpecError, environment: NodeEnvironment, document: YamlFile
) -> UllageError:
    """The complaint, as it stands in the plan."""
    field, problem = error.args
    complaint = re.fullmatch(r"(\w+) is (.+); (allowed: .+?)( at line \d+ column \d+)?", problem)
    own: FieldPath = ("environments", environment.again_of or environment.key, "policy")
    path = own if own in document.lines else ("policy",)
    if field != "policy" or complaint is None:  # the plan's own checks let nothing else through
        return UllageError(ELASTIC_FRONT_NOT_STARTED, reason=f"{field}: {problem}")
    return UllageError(
        PLAN_BAD_FIELD,
        file=document.name,
        line=document.line((*path, complaint[1])),
        field=".".join((*map(str, path), complaint[1])),
        found=complaint[2],
        allowed=complaint[3],
        suggestion="docs/guide/elastic-policies.md describes every policy and its fields",
    )
