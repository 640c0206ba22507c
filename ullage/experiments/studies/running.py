"""`ullage study run`: its plans, one after another, as `ullage run` and `ullage elastic run` do."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from ullage.common.console import escape, stderr
from ullage.common.errors import STUDY_NOT_BEGUN, ExitCode, UllageError
from ullage.common.files import put
from ullage.engine.progress import Progress
from ullage.experiments import run as ordinary
from ullage.experiments.elastic.run import run as elastic
from ullage.experiments.studies import clockrun, finding
from ullage.experiments.studies.base import Study, StudyPlan
from ullage.experiments.studies.finding import Runs
from ullage.plan import matrix, schema
from ullage.plan.instances import Needs
from ullage.runs import RUNS, writer
from ullage.runs.records import PLAN


@dataclass(frozen=True)
class Views:
    """Who is told how runs go on: made anew for each of them, of a number of steps."""

    ordinary: Callable[[int], AbstractContextManager[Progress]]
    elastic: Callable[[int], AbstractContextManager[elastic.ElasticRunProgress]]


def run(
    study: Study, views: Views, *, quick: bool, resume: bool, runs: Path, as_json: bool
) -> tuple[Runs, ExitCode]:
    """Run all plans of a form; the folders, and SOME_CELLS_FAILED where that was said of one.

    All plans are checked against this host before the first of them starts. With `resume` the
    newest run of each plan goes on; one that has ended stays as it is; STUDY_NOT_BEGUN without any.
    Ctrl-C ends the whole, as it ends a run: INTERRUPTED. Nothing but a run's JSON would stand on
    standard output with `as_json`, so what runs say goes to standard error then.
    """
    plans = study.plans(quick)
    command = ["ullage", "study", "run", study.name, "--quick" if quick else "--full"]
    command += ["--runs", str(runs)] if runs != RUNS else []
    command += ["--json"] if as_json else []
    earlier = finding.begun(study, plans, runs) if resume else {}
    if resume and not earlier:
        allowed = ", ".join(plan.name for plan in plans)
        again = shlex.join(command)
        raise UllageError(STUDY_NOT_BEGUN, allowed=allowed, runs=runs, command=again)
    for plan in plans:
        _check(study.folder / plan.file, plan)
    folders: dict[str, Path] = {}
    code = ExitCode.DONE
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        for number, plan in enumerate(plans, 1):
            _say(study, plan, number, plans)
            folder = earlier.get(plan.name) or _begun(study, plan, runs)
            folders[plan.name] = folder
            try:
                code = max(code, _run_one(plan, folder, views))
            except KeyboardInterrupt:
                code = ExitCode.INTERRUPTED
            if code == ExitCode.INTERRUPTED:
                _say_how_to_go_on(command, resumes=bool(finding.begun(study, plans, runs)))
                break
    return folders, code


def _check(file: Path, plan: StudyPlan) -> None:
    """Raise what the plan lacks on this host."""
    if plan.clock:
        clockrun.check(file)
    elif plan.elastic:
        asyncio.run(elastic.load(file).check())
    else:
        Needs(matrix.resolve(*schema.load(file))).check()


def _say(study: Study, plan: StudyPlan, number: int, plans: Sequence[StudyPlan]) -> None:
    where = f" ({number} of {len(plans)})" if len(plans) > 1 else ""
    stderr.print(
        escape(f"{study.name}: plan {plan.name}{where}, about {plan.minutes:g} minutes"),
        soft_wrap=True,
    )


def _say_how_to_go_on(command: list[str], *, resumes: bool) -> None:
    """After what the run itself said: how to take up that one plan."""
    again = shlex.join([*command, *(["--resume"] if resumes else [])])
    stderr.print(
        escape(f"that was one plan of the study; to go on with the whole of it: {again}"),
        soft_wrap=True,
    )


def _begun(study: Study, plan: StudyPlan, runs: Path) -> Path:
    """A new folder with its plan, from which a run is taken up that has not begun."""
    folder = writer.new_folder(runs, plan.name)
    put(folder / PLAN, (study.folder / plan.file).read_bytes())
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
