"""The plan of the trials: which environments, which loads, how many blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ullage.analysis.profiles.model import COMMAND, PROBE, UNDISTURBED
from ullage.common.quantities import Bytes, memory_bytes
from ullage.environments.placement import Resources
from ullage.experiments.profile import disk
from ullage.experiments.profile.loads import PROBES, ProbeParameters, Profiled
from ullage.experiments.profile.request import ProfileRequest
from ullage.experiments.profile.slowdowns import Hindered, HinderedOptions
from ullage.experiments.profile.survey import Strength
from ullage.plan.matrix import Case, Environment, Matrix
from ullage.plan.schema import Blocks, EnvironmentPlan, Neighbour, Plan, WorkloadPlan
from ullage.runs.records import Resource
from ullage.workloads.command import CommandParameters

SURVEYS: Final = 2
"""The command runs so often before anything is slowed: once with cold caches, once with warm."""
LEAST_BLOCKS: Final = 3
NEIGHBOUR: Final = Neighbour(program="stress-ng", load="memory", cpus="other")
"""What slows the memory: STREAM, on as many other CPUs."""


@dataclass(frozen=True)
class Trials:
    """What the engine is given."""

    plan: Plan
    matrix: Matrix


def survey(request: ProfileRequest) -> tuple[Trials, Hindered]:
    """The command alone; and the provider that will know what went through its instance."""
    provider = Hindered(_options(request, None))
    environment = _environment(request, UNDISTURBED, provider)
    return _trials(
        request, (environment,), (_command(request),), Blocks(min=SURVEYS, max=SURVEYS)
    ), provider


def profiling(
    request: ProfileRequest, strengths: Mapping[Resource, Strength], budget_s: float
) -> Trials:
    """The command and all probes, undisturbed and under every hindrance."""
    environments = [_environment(request, UNDISTURBED, Hindered(_options(request, None)))]
    cases = [_command(request)]
    for resource, strength in strengths.items():
        provider = Hindered(_options(request, strength.options))
        neighbour = NEIGHBOUR if strength.options is None else None
        environments.append(_environment(request, resource, provider, neighbour))
        parameters = ProbeParameters(arguments=strength.arguments)
        probe = PROBE + resource
        cases.append(Case(probe, probe, PROBES[resource], parameters, {}))
    least = min(LEAST_BLOCKS, request.repeat)
    blocks = Blocks(min=least, max=request.repeat, budget=budget_s)
    return _trials(request, tuple(environments), tuple(cases), blocks)


def _options(request: ProfileRequest, slow: HinderedOptions | None) -> HinderedOptions:
    common = {"alone": request.alone, "device": disk.whole_disk(request.directory)}
    return (slow or HinderedOptions()).model_copy(update=common)


def _environment(
    request: ProfileRequest, key: str, provider: Hindered, neighbour: Neighbour | None = None
) -> Environment:
    return Environment(
        key=key,
        name=key,
        provider=provider,
        factors={},
        resources=_resources(request),
        instances=1,
        neighbour=neighbour,
    )


def _resources(request: ProfileRequest) -> Resources:
    return Resources(cpus=request.cpus, memory=Bytes(memory_bytes()))


def _command(request: ProfileRequest) -> Case:
    parameters = CommandParameters(
        argv=list(request.argv), timeout_s=min(86_400.0, max(60.0, request.budget_s))
    )
    return Case(COMMAND, COMMAND, Profiled(request.directory, request.variables), parameters, {})


def _trials(
    request: ProfileRequest,
    environments: tuple[Environment, ...],
    cases: tuple[Case, ...],
    blocks: Blocks,
) -> Trials:
    plan = Plan.model_validate(
        {
            "name": request.name,
            "baseline": UNDISTURBED,
            "resources": _resources(request),
            "image": "host",
            "environments": {e.key: EnvironmentPlan(provider="native") for e in environments},
            "workloads": [WorkloadPlan(name=case.key) for case in cases],
            "blocks": blocks,
        }
    )
    return Trials(plan, Matrix(UNDISTURBED, environments, cases))
