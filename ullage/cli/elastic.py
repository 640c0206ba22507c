"""`ullage elastic …`: the options. `ullage.experiments.elastic` does the work, when needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ullage.cli.guarded import reads_folder
from ullage.cli.options import (
    FormatOption,
    Json,
    OutOption,
    PlanArgument,
    ResumeOption,
    RunsOption,
)
from ullage.common.errors import ExitCode
from ullage.common.files import put
from ullage.runs import RUNS

if TYPE_CHECKING:
    from ullage.experiments.elastic.run.run import ElasticTask

elastic_app = typer.Typer(rich_markup_mode=None)

ElasticRunArgument = Annotated[
    Path | None,
    typer.Argument(
        help="The folder of an elastic run, or its name in --runs; without one, the newest there.",
        show_default=False,
    ),
]


@elastic_app.command("run")
def run_command(
    file: PlanArgument = None,
    resume: ResumeOption = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show environments, order, time and parity; run nothing."),
    ] = False,
    *,
    runs: RunsOption = RUNS,
    as_json: Json = False,
) -> None:
    """Run a plan: viewers come, nodes are made and removed."""
    import asyncio

    from ullage.cli.live.terminal import ElasticProgress
    from ullage.experiments.elastic import folder as folders
    from ullage.experiments.elastic.run import run
    from ullage.runs.reader import named
    from ullage.runs.records import PLAN
    from ullage.runs.writer import new_folder

    if (file is None) == (resume is None):
        raise typer.BadParameter("give a plan, or --resume RUN")
    resume = None if resume is None else folders.begun(named(resume, runs))
    task = run.load(file) if file is not None else run.load_again(Path(resume or ""))
    if dry_run:
        _forecast(task, resume, runs=runs, as_json=as_json)
        return
    asyncio.run(task.check())
    if resume is not None:
        folder = resume
    else:
        folder = new_folder(runs, task.plan.name)
        put(folder / PLAN, Path(file or "").read_bytes())
        task = replace(task, plan=run.keep_trace(task.plan, folder))
    with ElasticProgress(task.repetitions) as progress:
        code = run.run_plan(task, folder, progress, resume=resume is not None)
    if code != ExitCode.INTERRUPTED:
        run.conclude(folder, as_json=as_json)
    if code:
        raise typer.Exit(code)


def _forecast(task: ElasticTask, resume: Path | None, *, runs: Path, as_json: bool) -> None:
    """What the plan would do; a run that has begun has its order drawn already."""
    from ullage.cli.output import elastic_dryrun
    from ullage.experiments.elastic import folder as folders
    from ullage.runs.reader import is_elastic

    if resume is not None and is_elastic(resume):
        seed = folders.read_resolved(resume).seed
        task = replace(task, plan=task.plan.model_copy(update={"seed": seed}))
    elastic_dryrun.show(task, runs=runs, as_json=as_json)


@elastic_app.command("show")
@reads_folder
def show_command(
    run: ElasticRunArgument = None, runs: RunsOption = RUNS, as_json: Json = False
) -> None:
    """Say what a run found.

    Blocked viewers, violations, allocation times, elasticity.
    """
    from ullage.experiments.elastic.report import show

    show.command(run, runs=runs, as_json=as_json)


@elastic_app.command("report")
@reads_folder
def report_command(
    run: ElasticRunArgument = None,
    against: Annotated[
        Path | None,
        typer.Option("--against", help="Another run, to compare with.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Another place for the page.", show_default=False),
    ] = None,
    charts: Annotated[
        Path | None,
        typer.Option(
            "--charts", help="Also write the charts as SVG, PDF and PNG here.", show_default=False
        ),
    ] = None,
    *,
    runs: RunsOption = RUNS,
) -> None:
    """Write a run's page: nodes and viewers over time, every metric."""
    from ullage.experiments.elastic.report import page

    page.report(run, runs=runs, other=against, out=out, charts=charts)


@elastic_app.command("export")
@reads_folder
def export_command(
    run: ElasticRunArgument = None,
    form: FormatOption = "csv",
    picture: Annotated[
        str | None,
        typer.Option(
            "--picture",
            help="Which one: field (also without it), field-ENVIRONMENT, allocations or waits.",
            show_default=False,
        ),
    ] = None,
    *,
    out: OutOption = None,
    runs: RunsOption = RUNS,
) -> None:
    """Write a run's figures as a table, or a picture for a paper."""
    from ullage.experiments.elastic.report import export

    export.command(run, form, picture, runs=runs, out=out)


@elastic_app.command("simulate")
@reads_folder
def simulate_command(
    file: Annotated[Path, typer.Argument(help="What to simulate.")],
    as_json: Json = False,
) -> None:
    """Run the same decisions in simulated time, for many viewers."""
    from ullage.experiments.elastic.simulator import simulate

    simulate.command(file, as_json=as_json)


@elastic_app.command("sweep")
def sweep_command(
    file: Annotated[Path, typer.Argument(help="What to simulate, and what to vary.")],
    cluster: Annotated[
        str | None,
        typer.Option(
            "--dask",
            help="Where workers simulate: at a Dask scheduler, tcp://host:8786; or slurm:4, in so"
            " many jobs of Slurm.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Simulate over seeds and parameters, with intervals."""
    from ullage.common.packages import need_library

    need_library("dask")
    from ullage.experiments.elastic.simulator import sweep
    from ullage.experiments.elastic.simulator.cluster import need_libraries

    if cluster is not None:
        need_libraries(cluster)
    sweep.command(file, as_json=as_json, cluster=cluster)
