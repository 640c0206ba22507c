"""Runs a profile: a survey of the command, then the trials in which it is slowed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ullage.analysis.profiles.model import COMMAND, Profile, Survey
from ullage.analysis.profiles.weights import profile
from ullage.common.errors import (
    PROFILE_BUDGET,
    PROFILE_FAILED,
    PROFILE_NOTHING,
    PROFILE_TOO_SHORT,
    UllageError,
)
from ullage.common.files import put
from ullage.common.quantities import format_seconds
from ullage.engine.engine import Engine
from ullage.engine.progress import Progress
from ullage.experiments.profile import plan
from ullage.experiments.profile.request import ProfileRequest, check
from ullage.experiments.profile.slowdowns import Traffic
from ullage.experiments.profile.survey import Strength, fit
from ullage.host import claims, leftovers, paths
from ullage.runs import writer
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import Resource

SURVEY: Final = "survey"
"""Folder of the survey's own run, in that of the profile."""
RECORD: Final = "survey.json"
RESULT: Final = "profile.json"
NEXT_TO_NOTHING: Final = 0.005
"""A part of its time so small that a resource which takes no more need not be slowed."""
LEAST_S: Final = 0.1
"""A command that is shorter is mostly its own start."""


async def run(request: ProfileRequest, root: Path, progress: Progress) -> Profile:
    """The weights of the command; everything that was measured is kept below `root`.

    HOST_NEEDS_ROOT and all of `PROFILE_…` but that of a run's ratios.
    """
    began = time.monotonic()
    absent = check(request)
    folder = writer.new_folder(root, request.name)
    survey, traffic = await look(request, absent, folder, progress)
    put(folder / RECORD, survey.model_dump_json(indent=1).encode())
    _check_length(survey)
    survey, strengths = await _strengths(request, survey, traffic, folder)
    put(folder / RECORD, survey.model_dump_json(indent=1).encode())
    left_s = request.budget_s - (time.monotonic() - began)
    _check_budget(request, survey, len(strengths), left_s)
    trials = plan.profiling(request, strengths, left_s)
    await Engine(trials.plan, trials.matrix, folder, progress).run()
    result = profile(RunFolder.open(folder), survey)
    put(folder / RESULT, result.model_dump_json(indent=1).encode())
    return result


async def look(
    request: ProfileRequest, absent: Mapping[Resource, str], folder: Path, progress: Progress
) -> tuple[Survey, Traffic]:
    """Run the command undisturbed, and see how long it takes and what it asks for.

    PROFILE_FAILED where it does not end well.
    """
    place = folder / SURVEY
    place.mkdir()
    trials, provider = plan.survey(request)
    await Engine(trials.plan, trials.matrix, place, progress).run()
    done = [t for t in RunFolder.open(place).trials if t.workload == COMMAND]
    for trial in done:
        _check_ended(request, trial, place)
    traffic = provider.traffic
    if traffic is None:
        raise UllageError(
            PROFILE_FAILED,
            reason="what it asked of disk and network could not be counted",
            suggestion="leave disk and network out of `--resources`",
        )
    seconds = [_figure(trial, "seconds") or 0.0 for trial in done]
    survey = Survey(
        argv=request.argv,
        directory=str(request.directory),
        cpus=request.cpus,
        seconds=seconds[-1],
        first_seconds=seconds[0],
        cpu_seconds=_figure(done[-1], "cpu_seconds"),
        read_bytes=traffic.disk.read_bytes,
        written_bytes=traffic.disk.written_bytes,
        requests=traffic.disk.reads + traffic.disk.writes,
        network_bytes=traffic.network_bytes,
        packets=traffic.packets,
        absent=dict(absent),
        unused=_unused(request, absent, traffic),
    )
    return survey, traffic


def _unused(
    request: ProfileRequest, absent: Mapping[Resource, str], traffic: Traffic
) -> dict[Resource, str]:
    """What it asked nothing of: its weight is 0, and nothing need be slowed to know that."""
    unused: dict[Resource, str] = {}
    if traffic.disk.reads + traffic.disk.writes == 0:
        unused["disk"] = "it asked nothing of the disk in its own name"
    if traffic.packets == 0:
        unused["network"] = "it sent no packet"
    return {r: why for r, why in unused.items() if r in request.resources and r not in absent}


def _figure(trial: Trial, name: str) -> float | None:
    value = trial.metrics.get(name)
    return value if isinstance(value, float) else None


def _check_ended(request: ProfileRequest, trial: Trial, folder: Path) -> None:
    if trial.status == "ok":
        return
    suggestion = f"what it printed lies in {folder}/trials"
    if request.alone:
        suggestion += (
            "; it runs in a network namespace where it reaches only what it starts itself: if it "
            "needs more, leave network out of `--resources`"
        )
    reason = trial.reason.message if trial.reason else "no reason"
    raise UllageError(PROFILE_FAILED, reason=reason, suggestion=suggestion)


def _check_length(survey: Survey) -> None:
    if survey.seconds < LEAST_S:
        raise UllageError(PROFILE_TOO_SHORT, seconds=survey.seconds, least=LEAST_S)


def _check_budget(request: ProfileRequest, survey: Survey, hindrances: int, left_s: float) -> None:
    """PROFILE_BUDGET where not even as many undisturbed trials would fit."""
    blocks, conditions = min(plan.LEAST_BLOCKS, request.repeat), 1 + hindrances
    needed = blocks * conditions * survey.seconds
    if needed > left_s:
        raise UllageError(
            PROFILE_BUDGET,
            seconds=survey.seconds,
            blocks=blocks,
            conditions=conditions,
            needed=format_seconds(needed),
            budget=format_seconds(request.budget_s),
        )


async def _strengths(
    request: ProfileRequest, survey: Survey, traffic: Traffic, folder: Path
) -> tuple[Survey, dict[Resource, Strength]]:
    """Of every resource that can be slowed and is used; and the survey with those that are not.

    PROFILE_NOTHING where there is none.
    """
    slowable = [r for r in request.resources if r not in survey.absent and r not in survey.unused]
    if not slowable:
        reasons_by_resource = {**survey.absent, **survey.unused}
        reasons = "; ".join(f"{resource}: {why}" for resource, why in reasons_by_resource.items())
        raise UllageError(PROFILE_NOTHING, reasons=reasons)
    tag = paths.new_tag()
    claims.claim(tag, str(folder))
    try:
        directory = paths.data_dir(tag)
        strengths = {r: await fit(r, traffic, directory) for r in slowable}
    finally:
        await asyncio.to_thread(_remove, tag)
    counts: dict[Resource, float] = {
        "disk": survey.requests / plan.SURVEYS,
        "network": survey.packets / plan.SURVEYS,
    }
    little = {
        r: f"what it asks of it takes about {100 * part:.2g} % of its time"
        for r, strength in strengths.items()
        if r in counts and (part := counts[r] * strength.each_s / survey.seconds) < NEXT_TO_NOTHING
    }
    if len(little) == len(strengths):
        return survey, strengths
    survey = survey.model_copy(update={"unused": survey.unused | little})
    return survey, {r: strength for r, strength in strengths.items() if r not in little}


def _remove(tag: str) -> None:
    leftovers.remove(leftovers.find(tag, own=True))
