"""`ullage compare`: tables and runs. What reads, analyses and prints is imported when needed."""

import os
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import typer

from ullage.cli.options import Json, ReadRunsOption, pairs, run_folders, share
from ullage.common.console import print_json
from ullage.common.text import nearest
from ullage.runs import RUNS

MIN_RUNS: Final = 2


def compare_command(
    ctx: typer.Context,
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE | RUN RUN …",
            help="A CSV or Parquet file with a row for each measurement: `environment`, `value`,"
            " and where known `block`, `generation`, `workload`, `metric`, `unit`, `better`."
            " Or run folders, their names in --runs, or addresses of archives (https://, s3://):"
            " the overheads of the others against those of the first.",
        ),
    ],
    *,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            help="Of a table: the environment that all others are compared with.",
            show_default=False,
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            help="A column with another name: `value=time_s`; may be repeated.",
            show_default=False,
        ),
    ] = None,
    better: Annotated[
        str | None,
        typer.Option(
            "--better",
            help="higher or lower, of all metrics for which the table does not say.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="Without blocks: welch (geometric means, as with blocks; sound for skewed times),"
            " fieller or delta (arithmetic means; zeros may stand in it).",
        ),
    ] = "welch",
    quantile: Annotated[
        str | None,
        typer.Option("--quantile", help="Compare this quantile, such as 0.99.", show_default=False),
    ] = None,
    margin: Annotated[
        str, typer.Option("--margin", help="Differences under it do not matter: 2% or 0.02.")
    ] = "2%",
    confidence: Annotated[
        str, typer.Option("--confidence", help="Of every interval: 95% or 0.95.")
    ] = "95%",
    correction: Annotated[
        str, typer.Option("--correction", help="holm or benjamini-hochberg, over all verdicts.")
    ] = "holm",
    again: Annotated[
        list[str] | None,
        typer.Option(
            "--again",
            help="NAME=OF: NAME is OF measured a second time, and makes the noise floor;"
            " may be repeated.",
            show_default=False,
        ),
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Also all that is known of each comparison.")
    ] = False,
    as_json: Json = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Also write the results as CSV here.", show_default=False),
    ] = None,
    runs: ReadRunsOption = RUNS,
) -> None:
    """Judge figures that somebody else measured. Or compare several runs.

    A table is judged as `show` judges a run.
    """
    with run_folders(tables, runs) as paths:
        if paths[0].is_dir():
            _refuse_options_of_tables(ctx)
            _runs(paths, as_json=as_json, out=out)
            return
    if len(tables) > 1:
        lacking = [name for name, path in zip(tables, paths, strict=True) if not path.exists()]
        reason = f"there is no {' nor '.join(lacking)} here or in {runs}; " if lacking else ""
        raise typer.BadParameter(f"{reason}give one table, or several run folders")
    if baseline is None:
        raise typer.BadParameter("a table needs --baseline ENVIRONMENT")
    # Read by NumPy when it loads: threads of BLAS beside ours would only wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from concurrent.futures import ThreadPoolExecutor

    from ullage.analysis.tables import file, table
    from ullage.analysis.tables.request import Criteria, IntervalMethod, TableRequest
    from ullage.runs.records import Better, Correction

    request = TableRequest(
        baseline=baseline,
        criteria=Criteria(
            margin=share("--margin", margin, "2%"),
            confidence=share("--confidence", confidence, "95%", above=0.5),
            method=_one_of("--method", method, get_args(IntervalMethod)),
            quantile=None if quantile is None else share("--quantile", quantile, "99%"),
        ),
        correction=_one_of("--correction", correction, get_args(Correction)),
        again=_second_copies(again, baseline),
    )
    columns = pairs("--column", column, "ROLE=NAME")
    for role in columns:
        _one_of("--column", role, file.ROLES)
    direction = None if better is None else _one_of("--better", better, get_args(Better))
    # SciPy takes as long to load as a large file to be read: both at once.
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(import_module, "ullage.cli.output.compare")
        sheet = table.read(Path(tables[0]), columns, direction)
        loading.result()
    from ullage.analysis.tables.answer import analyse
    from ullage.cli.output import compare as output

    answer = analyse(sheet, request)
    if out is not None:
        output.write(answer, out)
    if as_json:
        output.print_json(answer)
    else:
        output.show(answer, details=details)


def _refuse_options_of_tables(ctx: typer.Context) -> None:
    """Runs have all of this in their plans."""
    for name in ctx.params.keys() - {"tables", "as_json", "out", "runs"}:
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"--{name} is for a table: runs say it in their plans")


def _runs(paths: list[Path], *, as_json: bool, out: Path | None) -> None:
    """The overheads of several runs against those of the first."""
    from ullage.analysis import runchanges
    from ullage.cli.output import compare as output
    from ullage.common.files import put
    from ullage.runs.reader import RunFolder, another_kind, is_elastic, typed

    if len(paths) < MIN_RUNS:
        shows = f"`ullage show {typed(paths[0])}` shows one"
        raise typer.BadParameter(f"name at least two run folders; {shows}")
    if all(map(is_elastic, paths)):
        command = f"report {typed(paths[1])} --against {typed(paths[0])}"
        raise another_kind(paths[0], "elastic", command)
    first, *later = [runchanges.ComparedRun.of(RunFolder.open(path)) for path in paths]
    changes = runchanges.compare(first, later)
    if out is not None:
        put(out, output.as_csv(changes))
    if as_json:
        print_json(changes.model_dump(mode="json"))
    else:
        output.show_changes(changes)


def _one_of(option: str, word: str, allowed: Iterable[str]) -> Any:
    if word not in set(allowed):
        raise typer.BadParameter(f"{option}: {word!r}: {nearest(word, allowed)}")
    return word


def _second_copies(options: Iterable[str] | None, baseline: str) -> dict[str, str]:
    again = pairs("--again", options, "NAME=OF")
    if (of := again.get(baseline)) is not None:
        raise typer.BadParameter(
            f"--again: {baseline!r} is the baseline and cannot be the second copy; "
            f"write {f'{of}={baseline}'!r}, or choose another baseline"
        )
    return again
