"""What can be found out about a plan and this host before anything starts."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from ullage import agent, image, ours, places
from ullage.elastic import frontprocess, instances, units, viewersprocess
from ullage.elastic.plan import ElasticPlan, Environment
from ullage.elastic.repetition import front_settings
from ullage.errors import (
    ELASTIC_BAD_TRACE,
    ELASTIC_FRONT_NOT_STARTED,
    ELASTIC_NO_ADDRESS,
    HOST_NEEDS_ROOT,
    PLAN_BAD_FIELD,
    UllageError,
)
from ullage.yamlfile import FieldPath, YamlFile


async def check(
    plan: ElasticPlan, environments: tuple[Environment, ...], document: YamlFile
) -> None:
    """Whatever can be found out before anything starts; nothing is left of it.

    HOST_NEEDS_ROOT, PROGRAM_MISSING, AGENT_BINARY_MISSING, ELASTIC_BAD_TRACE, ELASTIC_NO_ADDRESS,
    PLAN_BAD_FIELD (a policy's fields), and what providers say of this host.
    """
    if os.geteuid() != 0:
        raise UllageError(
            HOST_NEEDS_ROOT, what="an elastic run", otherwise="use `ullage elastic simulate`"
        )
    for program in (frontprocess.PROGRAM, viewersprocess.PROGRAM):
        ours.program(program)
    agent.binary()
    if plan.arrivals.kind == "trace":
        try:
            units.trace_times(plan.arrivals)
        except (OSError, ValueError) as error:
            raise UllageError(ELASTIC_BAD_TRACE, file=plan.arrivals.file, reason=error) from error
    if plan.image == "host":
        image.require_on_host(instances.PROGRAMS)
    for environment in environments:
        if getattr(environment.provider.options, "network", None) == "user":
            raise UllageError(ELASTIC_NO_ADDRESS, environment=environment.key)
        await environment.provider.check()
    await try_fronts(plan, environments, document)


async def try_fronts(
    plan: ElasticPlan, environments: tuple[Environment, ...], document: YamlFile
) -> None:
    """Has the front anything against the plan's policies? PLAN_BAD_FIELD, of their line.

    The front alone knows the fields of a policy; ELASTIC_FRONT_NOT_STARTED when it is not that.
    """
    with tempfile.TemporaryDirectory(prefix="ullage-") as name:
        for number, environment in enumerate(environments):
            folder = Path(name) / str(number)
            folder.mkdir()
            settings = front_settings(plan, environment, "127.0.0.1:0", folder / "log")
            front = frontprocess.Front(settings, folder, places.new_tag(), restarts=0)
            try:
                await front.start()
            except UllageError as error:
                raise _of_policy(error, environment, document) or error from None
            finally:
                await front.quit()


def _of_policy(
    error: UllageError, environment: Environment, document: YamlFile
) -> UllageError | None:
    """The front's complaint about a field of the policy, as it stands in the plan."""
    if error.kind is not ELASTIC_FRONT_NOT_STARTED:
        return None
    said = re.search(r"front\.json: (\w+) is (.+); allowed: ", str(error.facts["reason"]))
    if said is None:
        return None
    own: FieldPath = ("environments", environment.key.partition("[")[0], "policy")
    path = own if own in document.lines else ("policy",)
    return UllageError(
        PLAN_BAD_FIELD,
        file=document.name,
        line=document.line((*path, said[1])),
        field=".".join((*map(str, path), said[1])),
        found=said[2],
        allowed="allowed: " + str(error.facts["reason"])[said.end() :].splitlines()[0],
        suggestion="docs/elastic-policies.md describes every policy and its fields",
    )
