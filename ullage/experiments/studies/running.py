"""`ullage study run`: its plans, one after another, as `ullage run` and `ullage elastic run` do."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ullage.common.console import escape, stderr
from ullage.common.errors import (
    HOST_TOO_SMALL,
    STUDY_NO_CLOUDS,
    STUDY_NO_DISKS,
    STUDY_NO_ROOM,
    STUDY_NOT_BEGUN,
    STUDY_TOO_LARGE,
    STUDY_UNKNOWN_PLAN,
    STUDY_WANTS_CLOUD,
    STUDY_WANTS_DISKS,
    ExitCode,
    UllageError,
)
from ullage.common.files import put
from ullage.common.quantities import format_seconds, many
from ullage.common.text import nearest
from ullage.engine.progress import Progress
from ullage.experiments import preflight
from ullage.experiments import run as ordinary
from ullage.experiments.elastic.run import run as elastic
from ullage.experiments.studies import clockrun, finding, plantexts
from ullage.experiments.studies.base import Study, StudyPlan
from ullage.experiments.studies.finding import Runs
from ullage.host.paths import data_root
from ullage.plan import matrix, schema
from ullage.plan.instances import Needs
from ullage.runs import RUNS, writer
from ullage.runs.records import PLAN


@dataclass(frozen=True)
class Views:
    """Who is told how runs go on: made anew for each of them, of a number of steps."""

    ordinary: Callable[[int], AbstractContextManager[Progress]]
    elastic: Callable[[int], AbstractContextManager[elastic.ElasticRunProgress]]


@dataclass(frozen=True)
class StudyRequest:
    """What `ullage study run` was asked."""

    quick: bool
    resume: bool = False
    runs: Path = RUNS
    as_json: bool = False
    only: tuple[str, ...] = ()
    """Names of the plans to run; empty: all."""
    choices: plantexts.Choices = plantexts.NO_CHOICES
    """Disks and clouds, for plans that compare disks or ask a cloud."""

    def plans(self, study: Study) -> tuple[StudyPlan, ...]:
        """Those to run, in their order. STUDY_UNKNOWN_PLAN."""
        plans = study.plans(self.quick)
        names = [plan.name for plan in plans]
        for name in self.only:
            if name not in names:
                suggestion = nearest(name, names)
                raise UllageError(STUDY_UNKNOWN_PLAN, found=repr(name), suggestion=suggestion)
        chosen = tuple(
            plan for plan in plans if plan.name in self.only or not (self.only or plan.by_name)
        )
        disks, clouds = self.choices.disks, self.choices.clouds
        if disks and not any(plan.disks for plan in chosen):
            raise UllageError(STUDY_NO_DISKS, study=study.name)
        if clouds and not any(plan.cloud for plan in chosen):
            raise UllageError(STUDY_NO_CLOUDS, study=study.name)
        for plan in chosen if self.only else ():
            if plan.disks and not disks:
                raise UllageError(STUDY_WANTS_DISKS, study=study.name)
            if plan.cloud and not clouds:
                raise UllageError(STUDY_WANTS_CLOUD, plan=plan.name, found="no plan is named")
        return tuple(plan for plan in chosen if self._lacks(plan) is None)

    def left_out(self, study: Study) -> Iterator[tuple[str, str]]:
        """Plans that are left out where none is named, each with the option that runs it."""
        for plan in study.plans(self.quick) if not self.only else ():
            option = f"--plan {plan.name}" if plan.by_name else self._lacks(plan)
            if option is not None:
                yield plan.name, option

    def _lacks(self, plan: StudyPlan) -> str | None:
        """The option without which it cannot be run."""
        if plan.disks and not self.choices.disks:
            return "--disk DIRECTORY, once for each disk,"
        if plan.cloud and self.choices.clouds is None:
            return "--cloud PLAN, a plan of yours with a cloud in it,"
        return None

    def command(self, study: Study, only: Sequence[str] = ()) -> list[str]:
        """As it is typed; `only`: with these plans in place of its own."""
        command = ["ullage", "study", "run", study.name, "--quick" if self.quick else "--full"]
        for name in only or self.only:
            command += ["--plan", name]
        for disk in self.choices.disks:
            command += ["--disk", str(disk)]
        if self.choices.clouds is not None:
            command += ["--cloud", str(self.choices.clouds.file)]
        command += ["--runs", str(self.runs)] if self.runs != RUNS else []
        return [*command, *(["--json"] if self.as_json else [])]


def run(study: Study, views: Views, request: StudyRequest) -> tuple[Runs, ExitCode]:
    """Run all plans of a form; the folders, and SOME_CELLS_FAILED where that was said of one.

    All plans are checked against this host before the first of them starts: STUDY_TOO_LARGE says
    which of them it can hold. With `resume` the newest run of each plan goes on; one that has ended
    stays as it is; STUDY_NOT_BEGUN without any. Ctrl-C ends the whole, as it ends a run:
    INTERRUPTED. Nothing but a run's JSON would stand on standard output with `as_json`, so what
    runs say goes to standard error then.
    """
    plans = request.plans(study)
    command = request.command(study)
    earlier = _earlier(study, plans, request) if request.resume else {}
    if request.resume and not earlier:
        allowed = ", ".join(plan.name for plan in plans)
        again = shlex.join(command)
        raise UllageError(STUDY_NOT_BEGUN, allowed=allowed, runs=request.runs, command=again)
    rooms = _rooms(study, request, plans)
    texts = {
        plan.name: plantexts.text(study, plan, request.choices, rooms.get(plan.room_of))
        for plan in plans
    }
    _check(study, request, plans, texts)
    _say_length(study, request, plans)
    folders: dict[str, Path] = {}
    code = ExitCode.DONE
    quiet = request.as_json
    with contextlib.redirect_stdout(sys.stderr) if quiet else contextlib.nullcontext():
        for number, plan in enumerate(plans, 1):
            _say(study, plan, number, plans)
            rooms |= folders
            written = plantexts.text(study, plan, request.choices, rooms.get(plan.room_of))
            folder = earlier.get(plan.name) or _begun(plan, request.runs, written)
            folders[plan.name] = folder
            try:
                code = max(code, _run_one(plan, folder, views))
            except KeyboardInterrupt:
                code = ExitCode.INTERRUPTED
            if code == ExitCode.INTERRUPTED:
                _say_how_to_go_on(command, resumes=bool(_earlier(study, plans, request)))
                break
    return folders, code


def _earlier(study: Study, plans: Sequence[StudyPlan], request: StudyRequest) -> Runs:
    return finding.begun(study, plans, request.runs, request.choices)


def _rooms(study: Study, request: StudyRequest, plans: Sequence[StudyPlan]) -> dict[str, Path]:
    """Runs that ended before, of plans that say a room and are not run now. STUDY_NO_ROOM."""
    wanted = {plan.room_of for plan in plans if plan.room_of} - {plan.name for plan in plans}
    rooms = dict(finding.newest_ended(wanted, request.runs))
    for plan in plans:
        if plan.room_of in wanted - set(rooms):
            both = shlex.join(request.command(study, [plan.room_of, *request.only]))
            raise UllageError(
                STUDY_NO_ROOM, plan=plan.name, step=plan.room_of, runs=request.runs, command=both
            )
    return rooms


def _check(
    study: Study,
    request: StudyRequest,
    plans: Sequence[StudyPlan],
    texts: Mapping[str, bytes],
) -> None:
    """STUDY_TOO_LARGE, or what the only plan lacks on this host."""
    lacking: dict[str, UllageError] = {}
    with TemporaryDirectory(prefix="ullage-study-") as place:
        for plan in plans:
            file = Path(place) / plan.file
            file.write_bytes(texts[plan.name])
            try:
                _check_one(file, plan)
            except UllageError as fault:
                lacking[plan.name] = fault
    if not lacking:
        return
    first, error = next(iter(lacking.items()))
    if len(plans) == 1:
        raise error
    fitting = [plan.name for plan in plans if not {plan.name, plan.room_of} & set(lacking)]
    more = shlex.join(request.command(study, fitting)) if fitting else ""
    raise UllageError(
        STUDY_TOO_LARGE,
        count=f"{len(lacking)} of {many(len(plans), 'plan')}",
        study=study.name,
        first=first,
        reason=error.message,
        suggestion=f"`{more}` runs those that fit; {error.hint}" if more else error.hint,
    )


def _check_one(file: Path, plan: StudyPlan) -> None:
    """Raise what the plan lacks on this host."""
    if plan.clock:
        clockrun.check(file)
    elif plan.elastic:
        asyncio.run(elastic.load(file).check())
    else:
        planned, document = schema.load(file)
        preflight.refuse(planned, matrix.resolve(planned, document))
    free = _free_gib()
    if plan.disk_gib > free:
        raise UllageError(
            HOST_TOO_SMALL,
            asked=f"{plan.disk_gib:g} GiB of disk for the files of {plan.name}",
            has=f"{free:.0f} GiB free in {data_root()}",
        )


def _free_gib() -> float:
    """What ullage's data directory has room for."""
    root = data_root()
    place = next(path for path in (root, *root.parents) if path.is_dir())
    return shutil.disk_usage(place).free / (1 << 30)


def _say_length(study: Study, request: StudyRequest, plans: Sequence[StudyPlan]) -> None:
    """How long all of it takes, before anything starts."""
    seconds = 60 * sum(plan.minutes for plan in plans)
    form = "quick" if request.quick else "full"
    length = f"{many(len(plans), 'plan')}, about {format_seconds(seconds)} on two quiet CPUs"
    stderr.print(escape(f"{study.name}, {form}: {length}"), soft_wrap=True)
    for name, option in request.left_out(study):
        stderr.print(escape(f"left out: {name}; {option} runs it"), soft_wrap=True)


def _say(study: Study, plan: StudyPlan, number: int, plans: Sequence[StudyPlan]) -> None:
    where = f" ({number} of {len(plans)})" if len(plans) > 1 else ""
    stderr.print(
        escape(f"{study.name}: plan {plan.name}{where}, about {format_seconds(60 * plan.minutes)}"),
        soft_wrap=True,
    )


def _say_how_to_go_on(command: list[str], *, resumes: bool) -> None:
    """After what the run itself said: how to take up that one plan."""
    again = shlex.join([*command, *(["--resume"] if resumes else [])])
    stderr.print(
        escape(f"that was one plan of the study; to go on with the whole of it: {again}"),
        soft_wrap=True,
    )


def _begun(plan: StudyPlan, runs: Path, text: bytes) -> Path:
    """A new folder with its plan, from which a run is taken up that has not begun."""
    folder = writer.new_folder(runs, plan.name)
    put(folder / PLAN, text)
    return folder


def _run_one(plan: StudyPlan, folder: Path, views: Views) -> ExitCode:
    """Run or take up one plan, with its report.

    That some cells failed ends nothing. Whatever else a run ends with ends the study.
    """
    if plan.clock:
        clockrun.run(folder)
        return ExitCode.DONE
    return _elastic(folder, views) if plan.elastic else _ordinary(folder, views)


def _elastic(folder: Path, views: Views) -> ExitCode:
    task = elastic.load_again(folder)
    asyncio.run(task.check())
    with views.elastic(task.repetitions) as progress:
        code = elastic.run_plan(task, folder, progress, resume=True)
    if code != ExitCode.INTERRUPTED:
        elastic.conclude(folder, as_json=False)
    return code


def _ordinary(folder: Path, views: Views) -> ExitCode:
    plan, document = schema.load(folder / PLAN)
    cells = matrix.resolve(plan, document)
    Needs(cells).check()
    with views.ordinary(plan.blocks.max) as progress:
        outcome = ordinary.run_plan(plan, cells, folder, progress, resume=True)
    if outcome is None:
        return ExitCode.INTERRUPTED
    return ordinary.conclude(outcome, as_json=False)
