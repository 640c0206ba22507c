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
from ullage.experiments.profile.request import Asked
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


def survey(asked: Asked) -> tuple[Trials, Hindered]:
    """The command alone; and the provider that will know what went through its instance."""
    provider = Hindered(_options(asked, None))
    environment = _environment(asked, UNDISTURBED, provider)
    return _trials(
        asked, (environment,), (_command(asked),), Blocks(min=SURVEYS, max=SURVEYS)
    ), provider


def profiling(asked: Asked, strengths: Mapping[Resource, Strength], budget_s: float) -> Trials:
    """The command and all probes, undisturbed and under every hindrance."""
    environments = [_environment(asked, UNDISTURBED, Hindered(_options(asked, None)))]
    cases = [_command(asked)]
    for resource, strength in strengths.items():
        provider = Hindered(_options(asked, strength.options))
        beside = NEIGHBOUR if strength.options is None else None
        environments.append(_environment(asked, resource, provider, beside))
        parameters = ProbeParameters(arguments=strength.arguments)
        probe = PROBE + resource
        cases.append(Case(probe, probe, PROBES[resource], parameters, {}))
    least = min(LEAST_BLOCKS, asked.repeat)
    blocks = Blocks(min=least, max=asked.repeat, budget=budget_s)
    return _trials(asked, tuple(environments), tuple(cases), blocks)


def _options(asked: Asked, slow: HinderedOptions | None) -> HinderedOptions:
    common = {"alone": asked.alone, "device": disk.whole_disk(asked.directory)}
    return (slow or HinderedOptions()).model_copy(update=common)


def _environment(
    asked: Asked, key: str, provider: Hindered, beside: Neighbour | None = None
) -> Environment:
    return Environment(
        key=key,
        name=key,
        provider=provider,
        factors={},
        resources=_resources(asked),
        instances=1,
        neighbour=beside,
    )


def _resources(asked: Asked) -> Resources:
    return Resources(cpus=asked.cpus, memory=Bytes(memory_bytes()))


def _command(asked: Asked) -> Case:
    parameters = CommandParameters(
        argv=list(asked.argv), timeout_s=min(86_400.0, max(60.0, asked.budget_s))
    )
    return Case(COMMAND, COMMAND, Profiled(asked.directory, asked.variables), parameters, {})


def _trials(
    asked: Asked,
    environments: tuple[Environment, ...],
    cases: tuple[Case, ...],
    blocks: Blocks,
) -> Trials:
    plan = Plan.model_validate(
        {
            "name": asked.name,
            "baseline": UNDISTURBED,
            "resources": _resources(asked),
            "image": "host",
            "environments": {e.key: EnvironmentPlan(provider="native") for e in environments},
            "workloads": [WorkloadPlan(name=case.key) for case in cases],
            "blocks": blocks,
        }
    )
    return Trials(plan, Matrix(UNDISTURBED, environments, cases))
