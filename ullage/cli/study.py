"""`ullage study …`: the options. What recomputes, runs and draws is imported when needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ullage.cli.guarded import reads_folder
from ullage.cli.options import Json, RunsOption
from ullage.common.console import LineTable, escape, print_json, stderr, stdout
from ullage.common.errors import ExitCode
from ullage.runs import RUNS

if TYPE_CHECKING:
    from ullage.experiments.studies.showing import StudyReport

study_app = typer.Typer(rich_markup_mode=None)

StudyName = Annotated[str, typer.Argument(help="Its name; `ullage study list` has them.")]


@study_app.command("list")
def list_command(as_json: Json = False) -> None:
    """List the studies: name, question, and what a run of each needs."""
    from ullage.experiments.studies import STUDIES

    studies = [study() for study in STUDIES]
    if as_json:
        print_json(
            [
                {
                    "name": study.name,
                    "title": study.title,
                    "question": study.question,
                    "source": study.source,
                    "needs": study.needs,
                    "quick": [plan.model_dump() for plan in study.plans(True)],
                    "full": [plan.model_dump() for plan in study.plans(False)],
                }
                for study in studies
            ]
        )
        return
    table = LineTable()
    table.add_column("study", no_wrap=True)
    for column in ("quick", "full"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("question, and what a run needs")
    for study in studies:
        lengths = (_length(sum(p.minutes for p in study.plans(quick))) for quick in (True, False))
        table.add_row(study.name, *lengths, escape(study.question))
        table.add_row("", "", "", escape("needs " + "; ".join(study.needs)))
    stdout.print(table)


def _length(minutes: float) -> str:
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.0f} h"


@study_app.command("show")
@reads_folder
def show_command(
    name: StudyName,
    run: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Runs of the study, or their names in --runs; without any, the newest there.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Also write the page here.", show_default=False),
    ] = None,
    runs: RunsOption = RUNS,
    as_json: Json = False,
) -> None:
    """Recompute what was published, beside our own runs.

    What disagrees is marked.
    """
    from ullage.experiments.studies import finding, get, showing
    from ullage.runs.reader import named

    study = get(name)
    of_runs = (
        finding.named_by_user(study, [named(path, runs) for path in run])
        if run
        else finding.latest(study, runs)
    )
    view = showing.recompute(study, of_runs)
    if as_json:
        print_json(showing.dumped(view))
    else:
        showing.show(view, stdout)
    if out is not None:
        _write(view, out)


@study_app.command("run")
def run_command(
    name: StudyName,
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="The short form: minutes on two cores.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="The whole series.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the newest run of each plan.")
    ] = False,
    plan: Annotated[
        list[str] | None,
        typer.Option("--plan", help="Only this plan; may be given again.", show_default=False),
    ] = None,
    disk: Annotated[
        list[Path] | None,
        typer.Option(
            "--disk",
            help="A directory on a disk to compare; once for each, the first is the baseline.",
            show_default=False,
        ),
    ] = None,
    cloud: Annotated[
        Path | None,
        typer.Option(
            "--cloud",
            help="A plan of yours: the study asks the clouds that it names.",
            show_default=False,
        ),
    ] = None,
    runs: RunsOption = RUNS,
    as_json: Json = False,
) -> None:
    """Run a study's plans, show its tables and write study.html."""
    from ullage.cli.live.terminal import ElasticProgress, RunProgress
    from ullage.experiments.studies import get, page, running, showing, yourclouds
    from ullage.experiments.studies.plantexts import Choices

    if quick == full:
        raise typer.BadParameter(f"say --quick or --full{', not both' if full else ''}")
    study = get(name)
    views = running.Views(RunProgress, ElasticProgress)
    disks = tuple(map(Path.resolve, disk or ()))
    choices = Choices(disks, None if cloud is None else yourclouds.read(cloud.resolve()))
    request = running.StudyRequest(quick, resume, runs, as_json, tuple(plan or ()), choices)
    of_runs, code = running.run(study, views, request)
    if code == ExitCode.INTERRUPTED:
        raise typer.Exit(code)
    view = showing.recompute(study, of_runs)
    if as_json:
        print_json(showing.dumped(view))
    else:
        showing.show(view, stdout)
    _write(view, next(iter(of_runs.values())) / page.NAME)
    if code:
        raise typer.Exit(code)


def _write(view: StudyReport, out: Path) -> None:
    from ullage.experiments.studies import page

    page.write(view, out)
    stderr.print(f"study: {escape(str(out))}", soft_wrap=True)
