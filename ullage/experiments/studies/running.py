"""`ullage study run`: its plans, one after another, as `ullage run` and `ullage elastic run` do."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.markup import escape

from ullage.cli import main
from ullage.cli.options import RUNS
from ullage.common.console import stderr
from ullage.common.errors import STUDY_NOT_BEGUN, ExitCode, UllageError
from ullage.experiments.elastic.plan import schema as elastic_plan
from ullage.experiments.elastic.run import run as elastic_run
from ullage.experiments.elastic.run.checks import check as elastic_check
from ullage.experiments.studies import clockrun, finding
from ullage.experiments.studies.base import Study, StudyPlan
from ullage.experiments.studies.finding import Runs
from ullage.plan import matrix, schema
from ullage.plan.instances import Needs
from ullage.runs import writer


def run(study: Study, *, quick: bool, resume: bool, runs: Path, as_json: bool) -> tuple[Runs, int]:
    """Run all plans of a form; the folders, and SOME_CELLS_FAILED where that was said of one.

    All plans are checked against this host before the first of them starts. With `resume` the
    newest run of each plan goes on; one that has ended stays as it is; STUDY_NOT_BEGUN without any.
    Ctrl-C ends the whole, as it ends a run. Nothing but a run's JSON would stand on standard output
    with `as_json`, so what runs say goes to standard error then.
    """
    plans = study.plans(quick)
    command = ["ullage", "study", "run", study.name, "--quick" if quick else "--full"]
    command += ["--runs", str(runs)] if runs != RUNS else []
    command += ["--json"] if as_json else []
    earlier = finding.newest(plans, runs) if resume else {}
    if resume and not earlier:
        allowed = ", ".join(each.name for each in plans)
        again = shlex.join(command)
        raise UllageError(STUDY_NOT_BEGUN, allowed=allowed, runs=runs, command=again)
    for each in plans:
        _check(study.folder / each.file, each)
    found: dict[str, Path] = {}
    code = int(ExitCode.DONE)
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        for number, each in enumerate(plans, 1):
            _say(study, each, number, plans)
            folder = earlier.get(each.name) or _begun(study, each, runs)
            found[each.name] = folder
            try:
                code = max(code, _one(each, folder, runs))
            except (typer.Exit, KeyboardInterrupt):
                _say_how_to_go_on(command, resumes=bool(finding.newest(plans, runs)))
                raise
    return found, code


def _check(file: Path, each: StudyPlan) -> None:
    """Raise what the plan lacks on this host."""
    if each.clock:
        clockrun.check(file)
    elif each.elastic:
        loaded, document = elastic_plan.load(file)
        asyncio.run(elastic_check(loaded, elastic_plan.resolve(loaded, document), document))
    else:
        Needs(matrix.resolve(*schema.load(file))).check()


def _say(study: Study, each: StudyPlan, number: int, plans: Sequence[StudyPlan]) -> None:
    where = f" ({number} of {len(plans)})" if len(plans) > 1 else ""
    stderr.print(
        escape(f"{study.name}: plan {each.name}{where}, about {each.minutes:g} minutes"),
        soft_wrap=True,
    )


def _say_how_to_go_on(command: list[str], *, resumes: bool) -> None:
    """After what the run itself said: how to take up that one plan."""
    again = shlex.join([*command, *(["--resume"] if resumes else [])])
    stderr.print(
        escape(f"that was one plan of the study; to go on with the whole of it: {again}"),
        soft_wrap=True,
    )


def _begun(study: Study, each: StudyPlan, runs: Path) -> Path:
    """A new folder with its plan, from which a run is taken up that has not begun."""
    folder = writer.new_folder(runs, each.name)
    writer.put(folder / writer.PLAN, (study.folder / each.file).read_bytes())
    return folder


def _one(each: StudyPlan, folder: Path, runs: Path) -> int:
    """Run or take up one plan, with its report; the exit code that it asks for.

    That some cells failed ends nothing. Whatever else a run ends with ends the study.
    """
    code = int(ExitCode.DONE)
    if each.clock:
        clockrun.run(folder)
        return code
    try:
        if each.elastic:
            elastic_run.command(None, resume=folder, runs=runs, as_json=False)
        else:
            main.run_command(resume=folder, runs=runs)
    except typer.Exit as end:
        if end.exit_code != ExitCode.SOME_CELLS_FAILED:
            raise
        code = end.exit_code
    if each.elastic:
        from ullage.experiments.elastic.report import page, show  # noqa: PLC0415 - they draw

        page.write(show.find(folder, runs))
    return code
