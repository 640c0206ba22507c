"""Commands that read what runs left: list, show, report, export, history, query, verify, upload.

What reads, analyses and draws is imported by the command that needs it.
"""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, get_args

import typer

from ullage.cli.options import Json, OutOption, ReadOnly, ReadRunsOption, RunArgument, RunsOption
from ullage.common.console import LineTable, escape, print_json, stderr, stdout
from ullage.common.errors import EXPORT_NO_TABLE, ExitCode, UllageError
from ullage.runs import RUNS

if TYPE_CHECKING:
    from ullage.analysis.comparison.model import Analysis
    from ullage.runs.reader import RunFolder


UNVERIFIED: Final = (
    "unverified: this run is from before journals had checksums, so nobody can tell whether it was"
    " changed"
)


def list_command(runs: ReadRunsOption = RUNS, as_json: Json = False) -> None:
    """List the runs here, newest first; elastic ones after the others."""
    from ullage.experiments.elastic import listing
    from ullage.runs.listing import list_runs

    ordinary, elastic = list_runs(runs), listing.list_runs(runs)
    if as_json:
        print_json([run.model_dump(mode="json") for run in (*ordinary, *elastic)])
        return
    if not ordinary and not elastic:
        stderr.print(escape(f"no runs in {runs}; `ullage run` makes one, `--runs` looks elsewhere"))
        return
    table = LineTable()
    table.add_column("run", no_wrap=True, overflow="fold")
    for column in ("blocks", "trials", "without figures"):
        table.add_column(column, justify="right")
    table.add_column("ended by")
    for run in ordinary:
        counts = (str(run.blocks), str(run.trials), str(run.failed))
        ended = escape(run.problem) if run.problem else run.finished or "not finished"
        ended += ", unverified" if run.unverified else ""
        table.add_row(escape(run.path), *counts, ended)
    for elastic_run in elastic:
        ended = elastic_run.problem or "elastic: `ullage elastic show` has it"
        table.add_row(escape(elastic_run.path), "", "", "", escape(ended))
    stdout.print(table)


def show_command(
    run: RunArgument = None,
    details: Annotated[
        bool, typer.Option("--details", help="Also all that is known of each comparison.")
    ] = False,
    runs: ReadRunsOption = RUNS,
    as_json: Json = False,
    read_only: ReadOnly = False,
) -> None:
    """Print the answer of a run, and its table."""
    from ullage.analysis import sentences, trialfacts
    from ullage.analysis.causes import hotspots
    from ullage.analysis.comparison import money, rare
    from ullage.analysis.energy import words
    from ullage.report import energy_table, export

    folder, analysis = _analysed(run, runs, "show", read_only=read_only)
    if not folder.summed:
        stderr.print(UNVERIFIED, soft_wrap=True)
    if as_json:
        print_json(analysis.model_dump(mode="json"))
        return
    for sentence in sentences.answer(analysis):
        stdout.print(escape(sentence), soft_wrap=True)
    if not analysis.trials:
        return  # no table has anything in it
    stdout.print(export.rich_table(analysis))
    stdout.print(escape(export.ratio_note(analysis)), soft_wrap=True)
    if not_seen := rare.line(analysis):
        stdout.print(escape(not_seen), soft_wrap=True)
    if analysis.money:
        stdout.print(export.money_table(analysis))
        stdout.print(escape(money.note(analysis)), soft_wrap=True)
    for line in analysis.money_notes:
        stdout.print(escape(line), soft_wrap=True)
    if analysis.energy:
        stdout.print(energy_table.terminal(analysis))
        stdout.print(escape(words.note(analysis)), soft_wrap=True)
    for line in words.note_lines(analysis):
        stdout.print(escape(line), soft_wrap=True)
    if details:
        for line in (*export.lines(analysis), *trialfacts.lines(folder), *hotspots.lines(folder)):
            stdout.print(escape(line), soft_wrap=True)


def report_command(
    run: RunArgument = None,
    out: Annotated[Path | None, typer.Option("--out", help="Another place for the page.")] = None,
    charts: Annotated[
        Path | None,
        typer.Option("--charts", help="Also write the charts as SVG, PDF and PNG here."),
    ] = None,
    runs: ReadRunsOption = RUNS,
    read_only: ReadOnly = False,
) -> None:
    """Write the HTML report of a run (again)."""
    from ullage.report import page

    folder, analysis = _analysed(run, runs, "report", read_only=read_only)
    file = page.write(folder, analysis, out, read_only=read_only)
    stdout.print(escape(str(file)), soft_wrap=True)
    if charts:
        from ullage.report.pictures import export_charts

        for file in export_charts(folder, analysis, charts):
            stdout.print(escape(str(file)), soft_wrap=True)


def _analysed(
    run: Path | None, runs: Path, command: str, *, read_only: bool
) -> "tuple[RunFolder, Analysis]":
    """The run (None: the newest in `runs`), and its analysis.

    command: what is asked for; `ullage elastic` has it under the same name. Its derived tables are
    written, if its folder is ours to write in.
    """
    from ullage.analysis import overhead
    from ullage.runs import derived, parquet
    from ullage.runs.reader import RunFolder, chosen

    folder = RunFolder.open(chosen(run, runs), command)
    if not read_only and derived.is_own(folder.path):
        parquet.write(folder)
    return folder, overhead.analyse(folder)


def export_command(
    run: RunArgument = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="A table: csv, json, latex or parquet. A picture: svg, pdf or png. As another"
            " tool writes it: hyperfine, pytest-benchmark, google-benchmark, reframe, prometheus.",
        ),
    ] = "csv",
    picture: Annotated[
        str | None,
        typer.Option(
            "--picture",
            help="Which one: ratios (also without it), barrels, energy, timeline, or of a"
            " workload.",
            show_default=False,
        ),
    ] = None,
    *,
    width: Annotated[
        float | None,
        typer.Option("--width", min=20, max=1000, help="Of a picture, in mm.", show_default=False),
    ] = None,
    font: Annotated[
        str | None,
        typer.Option("--font", help="Of a picture's text, such as `Times`.", show_default=False),
    ] = None,
    caption: Annotated[
        str | None,
        typer.Option(
            "--caption",
            help="With latex: a `table` with this caption, and verdicts in one word.",
            show_default=False,
        ),
    ] = None,
    out: OutOption = None,
    energy: Annotated[
        bool, typer.Option("--energy", help="The table of energies instead of the results.")
    ] = False,
    runs: ReadRunsOption = RUNS,
    read_only: ReadOnly = False,
) -> None:
    """Write a run's results as a table, or a picture for a paper."""
    from ullage.common.files import give
    from ullage.report import energy_table, forms
    from ullage.report.export import PICTURES, TOOLS, captioned, export, refuse_picture

    refuse_picture(picture, form)
    if energy and form in PICTURES:
        raise UllageError(EXPORT_NO_TABLE, form=form)
    if (width is not None or font is not None) and form not in PICTURES:
        raise typer.BadParameter("--width and --font are a picture's")
    if font is not None and not re.fullmatch(r"[A-Za-z0-9 ,-]{1,100}", font):
        raise typer.BadParameter("--font is the name of a family: letters, digits, spaces, commas")
    if caption is not None and (form != "latex" or energy):
        raise typer.BadParameter("--caption goes with the results as latex")
    folder, analysis = _analysed(run, runs, "export", read_only=read_only)
    if form in TOOLS and not energy:
        give(forms.write(folder, analysis, form), out)
        return
    if energy:
        data = energy_table.export(analysis, form)
    elif form in PICTURES:
        from ullage.report.pictures import PictureStyle, picture_named

        data = picture_named(folder, analysis, picture or "ratios", form, PictureStyle(width, font))
    elif caption is not None:
        data = captioned(analysis, caption)
    else:
        data = export(analysis, form)
    give(data, out)


def history_command(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN …]",
            help="Run folders, or their names in --runs; without any, all that are there.",
            show_default=False,
        ),
    ] = None,
    *,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", help="Of this name, primary or not; may be repeated."),
    ] = None,
    environment: Annotated[
        list[str] | None,
        typer.Option("--environment", help="Of this one only; may be repeated."),
    ] = None,
    values: Annotated[
        bool, typer.Option("--values", help="The environments' medians instead of overheads.")
    ] = False,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Also draw it: an svg, pdf or png file.")
    ] = None,
    runs: ReadRunsOption = RUNS,
    as_json: Json = False,
) -> None:
    """Follow figures over many runs, and say where they changed, and at which commit."""
    from ullage.analysis.history import history
    from ullage.report.pictures import FORMATS
    from ullage.runs.reader import RunFolder, find_runs, named

    if picture is not None and picture.suffix.removeprefix(".") not in FORMATS:
        raise typer.BadParameter(f"--picture: a file that ends in .{', .'.join(FORMATS)}")
    folders = []
    for path in [named(path, runs) for path in paths] if paths else find_runs(runs):
        try:
            folders.append(RunFolder.open(path, "history"))
        except UllageError as error:
            if paths:
                raise
            left_out = escape(f"left out {path}: {error.message}")
            stderr.print(f"[yellow]warning:[/] {left_out}", soft_wrap=True)
    course = history(
        folders,
        "value" if values else "overhead",
        metrics=metric or (),
        environments=environment or (),
    )
    from ullage.cli.output import history as output

    if picture is not None and course.series:
        output.draw(course, picture)
    if as_json:
        print_json(course.model_dump(mode="json"))
    else:
        output.show(course)


def query_command(
    sql: Annotated[
        str, typer.Argument(help="SQL over the views samples, events, meters and clocks.")
    ],
    runs: ReadRunsOption = RUNS,
    as_json: Json = False,
    read_only: ReadOnly = False,
) -> None:
    """Ask all runs at once, in DuckDB's SQL."""
    from ullage.runs import parquet

    def leave_out(path: Path, error: UllageError) -> None:
        left_out = escape(f"left out {path}: {error.message}")
        stderr.print(f"[yellow]warning:[/] {left_out}", soft_wrap=True)

    answer = parquet.query(sql, runs, leave_out, read_only=read_only)
    if as_json:
        print_json(answer.to_pylist())
        return
    table = LineTable(*map(escape, answer.column_names))
    for row in answer.to_pylist():
        table.add_row(*(escape("" if value is None else str(value)) for value in row.values()))
    stdout.print(table)


def verify_command(
    run: RunArgument = None, runs: ReadRunsOption = RUNS, as_json: Json = False
) -> None:
    """Say whether all that a run left is as it was written.

    By the checksums in its folder. They are no seal: who wants to deceive makes new ones.
    """
    from ullage.common.quantities import many
    from ullage.runs.reader import named, newest_run
    from ullage.runs.verify import Integrity, verify

    path = newest_run(runs) if run is None else named(run, runs)
    checked = verify(path)
    if as_json:
        print_json([file.model_dump(mode="json") for file in checked])
    else:
        for file in checked:
            if file.state != "holds":
                detail = f": {file.detail}" if file.detail else ""
                stdout.print(escape(f"{file.state} {file.file}{detail}"), soft_wrap=True)
        count = Counter(file.state for file in checked)
        counts = ", ".join(
            f"{count[state]} {state}" for state in get_args(Integrity) if count[state]
        )
        stderr.print(f"{many(len(checked), 'file')}: {counts}")
    if any(file.state in ("changed", "missing") for file in checked):
        raise typer.Exit(ExitCode.GATE_FAILED)


def upload_command(
    run: Annotated[Path, typer.Argument(help="A finished run's folder, or its name in --runs.")],
    store: Annotated[str, typer.Argument(help="s3://BUCKET/PREFIX")],
    *,
    raw: Annotated[
        bool, typer.Option("--raw/--no-raw", help="With the raw outputs of its trials.")
    ] = True,
    replace: Annotated[
        bool, typer.Option("--replace", help="In place of one of its name that is there.")
    ] = False,
    runs: RunsOption = RUNS,
) -> None:
    """Put a finished run into an object store, where `--runs s3://…` reads it."""
    from ullage.runs.elsewhere.stores import Store, upload
    from ullage.runs.reader import named

    place = Store.named(store)
    if place is None:
        raise typer.BadParameter(f"{store!r} is not s3://BUCKET/PREFIX")
    address = upload(named(run, runs), place, raw=raw, replace=replace)
    stdout.print(escape(address), soft_wrap=True)


RESULTS: Final[dict[str, Callable[..., None]]] = {
    "list": list_command,
    "show": show_command,
    "report": report_command,
    "export": export_command,
    "history": history_command,
    "query": query_command,
    "verify": verify_command,
    "upload": upload_command,
}
"""Command → what it does."""
