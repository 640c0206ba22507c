"""What can be found out about a plan and this host before anything starts."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from ullage import _elastic, agent, image, ours, placement
from ullage.elastic import bounds, frontprocess, instances, units, viewersprocess
from ullage.elastic.plan import ElasticPlan, Environment, Generators
from ullage.elastic.units import Scaled
from ullage.environments import Provider
from ullage.errors import (
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
from ullage.places import cache_dir
from ullage.quantities import format_bytes, many, memory_bytes
from ullage.yamlfile import FieldPath, YamlFile

_SIMULATED: Final[dict[str, Any]] = {
    "arrivals": {"kind": "poisson", "rate_hz": 1.0},
    "sessions": 1,
    "watch": {"kind": "fixed", "s": 1.0},
    "allocation": {"rows": [{"stages": [{"name": "all", "time": {"kind": "fixed", "s": 1.0}}]}]},
}
"""The least that the simulator is told beside the decisions."""


async def check(
    plan: ElasticPlan,
    environments: Sequence[Environment],
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
    environments: Sequence[Environment],
    document: YamlFile,
    generators: Generators | None = None,
) -> list[UllageError]:
    """All of that which is not so here."""
    found = []
    for step in _steps(plan, environments, document, generators):
        try:
            await step()
        except UllageError as error:
            found.append(error)
    return found


def _steps(
    plan: ElasticPlan,
    environments: Sequence[Environment],
    document: YamlFile,
    generators: Generators | None,
) -> Iterator[Callable[[], Awaitable[None]]]:
    """Each finds one thing out."""
    yield partial(_now, _as_root)
    for program in (frontprocess.PROGRAM, viewersprocess.PROGRAM):
        yield partial(_now, partial(ours.program, program))
    yield partial(_now, agent.binary)
    yield partial(_now, partial(bounds.check, plan, document))
    yield partial(_now, partial(_readable, plan))
    yield partial(_now, partial(_film_has_room, plan))
    if plan.image == "host":
        yield partial(_now, partial(image.require_on_host, instances.PROGRAMS))
    for environment in environments:
        yield partial(_now, partial(_fits, environment, f"a node of {environment.key}"))
        if generators is not None:
            yield partial(_now, partial(_fit_together, environment, generators))
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
            if last_s >= bounds.LATEST_S:
                said = f"its last viewer comes after {last_s:g} s of real time"
                raise ValueError(f"{said}, and must before {bounds.LATEST_S:g} s")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UllageError(ELASTIC_BAD_TRACE, file=plan.arrivals.file, reason=reason) from error


def _film_has_room(plan: ElasticPlan) -> None:
    """It is made once, and whole: not one that is larger than the disk."""
    place = next(path for path in (cache_dir(), *cache_dir().parents) if path.exists())
    asked, has = Scaled(plan).film_bytes, shutil.disk_usage(place).total
    if asked > has:
        reason = f"it has {format_bytes(asked)}, and the disk of {place} {format_bytes(has)}"
        raise UllageError(ELASTIC_NO_CLIP, reason=reason)


def _fits(these: Environment | Generators, one: str) -> None:
    """One of them, at least."""
    try:
        placement.cpus(these.resources, 0)
    except UllageError as error:
        if error.kind is not HOST_TOO_SMALL:
            raise
        cpus = f"{error.facts['asked']} for {one}"
        raise UllageError(ELASTIC_HOST_TOO_SMALL, asked=cpus, has=error.facts["has"]) from error
    asked, has = these.resources.memory, memory_bytes()
    if asked > has:
        what = f"{format_bytes(asked)} of memory for {one}"
        raise UllageError(ELASTIC_HOST_TOO_SMALL, asked=what, has=format_bytes(has))


def _fit_together(environment: Environment, generators: Generators) -> None:
    """All machines of the viewers, who are there all the time, and the fewest nodes beside them."""
    nodes = max(environment.nodes.min, 1)
    asked = units.memory_of(nodes, environment.resources)
    asked += units.memory_of(generators.number, generators.resources)
    if asked > (has := memory_bytes()):
        viewers = many(generators.number, "generator")
        these = f"{many(nodes, 'node')} of {environment.key} and {viewers}"
        what = f"{format_bytes(asked)} of memory for {these}"
        raise UllageError(ELASTIC_HOST_TOO_SMALL, asked=what, has=format_bytes(has))


async def _provider(provider: Provider, these: str) -> None:
    if getattr(provider.options, "network", None) == "user":
        raise UllageError(ELASTIC_NO_ADDRESS, these=these)
    await provider.check()


def _policy(plan: ElasticPlan, document: YamlFile, environment: Environment) -> None:
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
    error: _elastic.SpecError, environment: Environment, document: YamlFile
) -> UllageError:
    """The complaint, as it stands in the plan."""
    field, problem = error.args
    said = re.fullmatch(r"(\w+) is (.+); (allowed: .+?)( at line \d+ column \d+)?", problem)
    own: FieldPath = ("environments", environment.again_of or environment.key, "policy")
    path = own if own in document.lines else ("policy",)
    if field != "policy" or said is None:  # the plan's own checks let nothing else through
        return UllageError(ELASTIC_FRONT_NOT_STARTED, reason=f"{field}: {problem}")
    return UllageError(
        PLAN_BAD_FIELD,
        file=document.name,
        line=document.line((*path, said[1])),
        field=".".join((*map(str, path), said[1])),
        found=said[2],
        allowed=said[3],
        suggestion="docs/guide/elastic-policies.md describes every policy and its fields",
    )
