"""`ullage profile`: the options. What runs, computes and prints is imported when needed."""

from __future__ import annotations

import asyncio
import errno
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from pydantic import TypeAdapter, ValidationError
from rich.markup import escape
from rich.table import Table

from ullage.analysis.comparison import words as shared
from ullage.analysis.comparison.rounding import share
from ullage.analysis.profiles import words
from ullage.analysis.profiles.model import Predicted, Prediction, Profile
from ullage.cli.options import Json, RunsOption
from ullage.common.console import print_json, stdout
from ullage.common.errors import FILE_FAILED, ExitCode, UllageError
from ullage.common.files import put
from ullage.common.quantities import Seconds
from ullage.common.signals import interruptible
from ullage.common.text import clean
from ullage.runs.reader import RUNS, typed

if TYPE_CHECKING:
    from ullage.analysis.comparison.model import Analysis
    from ullage.analysis.profiles.model import Predicted, Profile
    from ullage.experiments.profile.request import Asked
    from ullage.runs.records import Resource

# What `ullage profile` prints: the weights, the line to paste, and what is predicted.


def show(profile: Profile, predicted: Predicted | None, run: Path | None) -> None:
    """Print it. run: the folder that was predicted for."""
    stdout.print(escape(words.lead(profile)), soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    table.add_column("waits for")
    for column in ("weight", f"{profile.confidence:.0%} interval"):
        table.add_column(column, justify="right")
    for weight in profile.weights:
        table.add_row(words.named(weight), *words.shares(weight.share))
    table.add_row("nothing that was slowed", *words.shares(profile.rest))
    stdout.print(table)
    for note in words.notes(profile):
        stdout.print(escape(clean(note)), soft_wrap=True)
    weighed = None if run is None else typed(run)
    stdout.print(escape(words.paste(profile, weighed)), soft_wrap=True)
    if (more := words.left_out(profile)) is not None:
        stdout.print(escape(more), soft_wrap=True)
    if predicted is not None:
        _show_predicted(predicted)


def _show_predicted(predicted: Predicted) -> None:
    label = clean(predicted.baseline_label, 60)
    stdout.print(escape(f"\nHow many times longer than {label} it will take:"), soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    table.add_column("environment")
    for column in ("times", f"{predicted.confidence:.0%} interval"):
        table.add_column(column, justify="right")
    table.add_column("of which")
    for each in predicted.predictions:
        table.add_row(*map(escape, _row(each)))
    stdout.print(table)


def _row(found: Prediction) -> tuple[str, str, str, str]:
    label = shared.name(found.label, emulated=found.emulated, unequal=found.unequal)
    span = found.overhead
    parts = [
        f"{part.name} {share(round(part.share, 2))} × {part.ratio:.3g}" for part in found.parts
    ]
    if found.rest >= 0.005:
        parts.append(f"rest {share(round(found.rest, 2))} × 1")
    between = f"{span.low:.3g} to {span.high:.3g}"
    return clean(label, 120), f"{span.estimate:.3g}", between, ", ".join(parts)


EVERY: Final = "cpu,memory,disk,network"
PROFILES: Final = Path("profiles")


def profile_command(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="A program and its arguments, after `--`.", show_default=False),
    ] = None,
    *,
    repeat: Annotated[int, typer.Option("--repeat", min=2, max=1000, help="Most blocks.")] = 6,
    budget: Annotated[
        str, typer.Option("--budget", help="Start no block that would end after this long.")
    ] = "10m",
    resources: Annotated[
        str, typer.Option("--resources", help="What is slowed, one at a time.")
    ] = EVERY,
    cpus: Annotated[
        int | None,
        typer.Option(
            "--cpus", min=1, max=1024, help="CPUs that it may use; else those of the run, or 1."
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", help="Also write the profile here.", show_default=False),
    ] = None,
    load: Annotated[
        Path | None,
        typer.Option(
            "--load", help="Use a profile that was saved, and run nothing.", show_default=False
        ),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            "--run",
            help="A run, or its name in --runs: predict the overhead in its environments.",
            show_default=False,
        ),
    ] = None,
    profiles: Annotated[
        Path, typer.Option("--profiles", help="Where what is measured is kept.")
    ] = PROFILES,
    runs: RunsOption = RUNS,
    as_json: Json = False,
) -> None:
    """Measure what a command waits for, and predict what it costs elsewhere."""
    from ullage.analysis.profiles.model import load as saved
    from ullage.experiments.profile.request import Asked
    from ullage.runs.reader import named

    if load is None and not command:
        raise typer.BadParameter("give a command after `--`, or a profile with --load")
    if load is not None and command:
        raise typer.BadParameter(
            "a command and --load are given, and only one of them may be: --load runs nothing"
        )
    wanted, seconds = _resources(resources), _seconds(budget)
    if save is not None:
        _writable(save)
    of = None if run is None else named(run, runs)
    analysis, of_run = _analysed(of)
    if load is not None:
        found = saved(load)
    else:
        asked = Asked(
            argv=tuple(command or ()),
            directory=Path.cwd(),
            variables=dict(os.environ),
            resources=wanted,
            repeat=repeat,
            budget_s=seconds,
            cpus=cpus or of_run or 1,
        )
        found = _measured(asked, profiles)
    if save is not None:
        put(save, found.model_dump_json(indent=1).encode())
    predicted = None
    if analysis is not None:
        from ullage.analysis.profiles.prediction import predict

        predicted = predict(found, analysis)
    _print(found, predicted, of, as_json=as_json)


def _writable(file: Path) -> None:
    """What is measured for minutes is to have its place before; raises FILE_FAILED."""
    if file.is_dir():
        raise UllageError(FILE_FAILED, file=file, reason=os.strerror(errno.EISDIR))
    if not file.parent.is_dir():
        raise UllageError(FILE_FAILED, file=file, reason=os.strerror(errno.ENOENT))
    if not os.access(file.parent, os.W_OK):
        raise UllageError(FILE_FAILED, file=file, reason=os.strerror(errno.EACCES))


def _measured(asked: Asked, profiles: Path) -> Profile:
    """The profile; Ctrl-C ends the command, and then ullage."""
    from ullage.cli.live.terminal import RunProgress
    from ullage.common.console import stderr
    from ullage.experiments.profile import run as running

    with RunProgress(asked.repeat) as progress:
        try:
            return interruptible(running.run(asked, profiles, progress))
        except asyncio.CancelledError:
            stderr.print(escape("interrupted: there are no weights"), soft_wrap=True)
            raise typer.Exit(ExitCode.INTERRUPTED) from None


def _analysed(run: Path | None) -> tuple[Analysis | None, int | None]:
    """The run to predict for, and the CPUs that its environments have."""
    if run is None:
        return None, None
    from ullage.analysis import overhead
    from ullage.runs.reader import RunFolder

    folder = RunFolder.open(run)
    cpus = folder.resolved.resources.get("cpus")
    return overhead.analyse(folder), math.ceil(cpus) if isinstance(cpus, int | float) else None


def _print(found: Profile, predicted: Predicted | None, run: Path | None, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "profile": found.model_dump(mode="json"),
                "prediction": predicted.model_dump(mode="json") if predicted else None,
            }
        )
        return
    pass

    show(found, predicted, run)


def _resources(text: str) -> tuple[Resource, ...]:
    from ullage.analysis.weigh.weights import resource_of

    found: list[Resource] = []
    for name in text.split(","):
        try:
            each = resource_of(name.strip())
        except ValueError as error:
            raise typer.BadParameter(f"--resources: {error}") from None
        if each == "other" or each in found:
            why = "stands twice" if each in found else f"cannot be slowed: give some of {EVERY}"
            raise typer.BadParameter(f"--resources: {each} {why}")
        found.append(each)
    return tuple(found)


def _seconds(text: str) -> float:
    try:
        return TypeAdapter(Seconds).validate_python(text)
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise typer.BadParameter(f"--budget: {reason}") from None
