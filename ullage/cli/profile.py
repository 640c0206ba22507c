"""`ullage profile`: what a command waits for. What runs and computes is imported when needed."""

import errno
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ullage.cli.options import Json, RunsOption, seconds
from ullage.common.console import escape, print_json, stderr
from ullage.common.errors import FILE_FAILED, ExitCode, UllageError
from ullage.runs import RUNS

if TYPE_CHECKING:
    from ullage.analysis.comparison.model import Analysis
    from ullage.analysis.profiles.model import Profile
    from ullage.experiments.profile.request import ProfileRequest
    from ullage.runs.records import Resource

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
    """Measure what a command waits for, and predict its cost elsewhere."""
    from ullage.analysis.profiles import model, prediction, words
    from ullage.cli.output import profile as output
    from ullage.common.files import put
    from ullage.experiments.profile.request import ProfileRequest
    from ullage.runs.reader import named

    if load is None and not command:
        raise typer.BadParameter("give a command after `--`, or a profile with --load")
    if load is not None and command:
        raise typer.BadParameter(
            "a command and --load are given, and only one of them may be: --load runs nothing"
        )
    slowed, budget_s = _resources(resources), seconds("--budget", budget)
    if save is not None:
        _writable(save)
    folder = None if run is None else named(run, runs)
    analysis, cpus_of_run = _analysed(folder)
    if load is not None:
        profile = model.load(load)
    else:
        request = ProfileRequest(
            argv=tuple(command or ()),
            directory=Path.cwd(),
            variables=dict(os.environ),
            resources=slowed,
            repeat=repeat,
            budget_s=budget_s,
            cpus=cpus or cpus_of_run or 1,
        )
        profile = _measured(request, profiles)
    if save is not None:
        put(save, profile.model_dump_json(indent=1).encode())
    held = words.unheld(profile) is None
    predicted = prediction.predict(profile, analysis) if analysis is not None and held else None
    if as_json:
        costs = None if predicted is None else predicted.model_dump(mode="json")
        print_json({"profile": profile.model_dump(mode="json"), "prediction": costs})
    else:
        output.show(profile, predicted, folder)


def _writable(file: Path) -> None:
    """What is measured for minutes is to have its place before; raises FILE_FAILED."""
    if file.is_dir():
        raise UllageError(FILE_FAILED, file=file, reason=os.strerror(errno.EISDIR))
    if not file.parent.is_dir():
        raise UllageError(FILE_FAILED, file=file, reason=os.strerror(errno.ENOENT))
    if not os.access(file.parent, os.W_OK):
        raise UllageError(FILE_FAILED, file=file, reason=os.strerror(errno.EACCES))


def _measured(request: "ProfileRequest", profiles: Path) -> "Profile":
    """The profile; Ctrl-C ends the command, and then ullage."""
    from asyncio import CancelledError

    from ullage.cli.live.terminal import RunProgress
    from ullage.common.signals import interruptible
    from ullage.engine.session import left
    from ullage.experiments.profile import run as running

    with RunProgress(request.repeat) as progress:
        try:
            return interruptible(running.run(request, profiles, progress), left)
        except CancelledError:
            stderr.print(escape("interrupted: there are no weights"), soft_wrap=True)
            raise typer.Exit(ExitCode.INTERRUPTED) from None


def _analysed(run: Path | None) -> "tuple[Analysis | None, int | None]":
    """The run to predict for, and the CPUs that its environments have."""
    if run is None:
        return None, None
    from ullage.analysis import overhead
    from ullage.runs.reader import RunFolder

    folder = RunFolder.open(run)
    cpus = folder.resolved.resources.get("cpus")
    return overhead.analyse(folder), math.ceil(cpus) if isinstance(cpus, int | float) else None


def _resources(text: str) -> "tuple[Resource, ...]":
    from ullage.analysis.weigh.weights import resource_of

    resources: list[Resource] = []
    for name in text.split(","):
        try:
            resource = resource_of(name.strip())
        except ValueError as error:
            raise typer.BadParameter(f"--resources: {error}") from None
        if resource == "other" or resource in resources:
            twice = resource in resources
            reason = "stands twice" if twice else f"cannot be slowed: give some of {EVERY}"
            raise typer.BadParameter(f"--resources: {resource} {reason}")
        resources.append(resource)
    return tuple(resources)
