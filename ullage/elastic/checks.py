"""What can be found out about a plan and this host before anything starts."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ullage import agent, image, ours, places
from ullage.elastic import frontprocess, instances, units, viewersprocess
from ullage.elastic.plan import ElasticPlan, Environment
from ullage.elastic.repetition import front_settings
from ullage.errors import ELASTIC_BAD_TRACE, ELASTIC_NO_ADDRESS, HOST_NEEDS_ROOT, UllageError


async def check(plan: ElasticPlan, environments: tuple[Environment, ...]) -> None:
    """Whatever can be found out before anything starts; nothing is left of it.

    HOST_NEEDS_ROOT, PROGRAM_MISSING, AGENT_BINARY_MISSING, ELASTIC_BAD_TRACE, ELASTIC_NO_ADDRESS,
    ELASTIC_FRONT_NOT_STARTED (a policy's fields), and what providers say of this host.
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
    await _try_fronts(plan, environments)


async def _try_fronts(plan: ElasticPlan, environments: tuple[Environment, ...]) -> None:
    """Has the front anything against the plan's policies?"""
    with tempfile.TemporaryDirectory(prefix="ullage-") as name:
        for number, environment in enumerate(environments):
            folder = Path(name) / str(number)
            folder.mkdir()
            settings = front_settings(plan, environment, "127.0.0.1:0", folder / "log")
            front = frontprocess.Front(settings, folder, places.new_tag(), restarts=0)
            try:
                await front.start()
            finally:
                await front.quit()
