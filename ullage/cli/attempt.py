"""`ullage try`: a first answer without a plan. What runs and computes is imported when needed."""

import errno
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ullage.cli.options import Json, RunsOption, seconds
from ullage.common.console import escape, stderr
from ullage.common.errors import FILE_FAILED, ExitCode, UllageError
from ullage.runs import RUNS

if TYPE_CHECKING:
    from ullage.experiments.attempt import TryRequest


def try_command(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="A program and its arguments, after `--`.", show_default=False),
    ] = None,
    *,
    image: Annotated[
        str | None,
        typer.Option(
            "--image",
            help="A container image to run in: a name of Docker or Podman here, or as skopeo writes"
            " them. `host`: this host's own files, as without it; with `--in` of lxc or vm Debian"
            " with the program's package.",
            show_default=False,
        ),
    ] = None,
    root: Annotated[
        str | None,
        typer.Option(
            "--root",
            help="`writable`: it may write to the image's files, in a layer of each instance.",
            show_default=False,
        ),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            "--http", help="It is a server; load this, `:8080/`.", show_default=False, metavar="URL"
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            help="A figure that it prints, in place of its time: `NAME:UNIT:higher:REGEX`, with one"
            " (group).",
            show_default=False,
        ),
    ] = None,
    within: Annotated[
        str,
        typer.Option(
            "--within", help="How long it may take, about, once the image and packages are there."
        ),
    ] = "60s",
    where: Annotated[
        str | None,
        typer.Option(
            "--in",
            help="Some of native,container,lxc,vm, the baseline first. Else all that run here.",
            show_default=False,
        ),
    ] = None,
    cpus: Annotated[float, typer.Option("--cpus", min=0.1, help="Of each environment.")] = 1,
    save: Annotated[
        Path | None,
        typer.Option("--save", help="Write the plan that it ran here.", show_default=False),
    ] = None,
    runs: RunsOption = RUNS,
    as_json: Json = False,
) -> None:
    """Run a command, or a service of an image, in what this host has: no plan is needed."""
    if save is not None:
        _check_save(save)
    request = _request(
        command or [],
        image=image,
        root=root,
        http=http,
        metrics=metric or [],
        within=within,
        where=where,
        cpus=cpus,
    )
    code = _run(request, save, runs, as_json=as_json)
    if code:
        raise typer.Exit(code)


def _run(request: "TryRequest", save: Path | None, runs: Path, *, as_json: bool) -> int:
    """Choose, pilot, run, and say the answer."""
    import asyncio

    from ullage.cli.live.terminal import RunProgress
    from ullage.common.files import put
    from ullage.common.signals import interruptible
    from ullage.engine.session import left
    from ullage.experiments import attempt
    from ullage.experiments.run import conclude, run_plan
    from ullage.plan import matrix, schema
    from ullage.runs import writer
    from ullage.runs.records import PLAN

    choice = asyncio.run(attempt.choose(request))
    for name, reason in choice.absent.items():
        stderr.print(escape(f"left out: {name}: {reason}"), soft_wrap=True)
    folder = writer.new_folder(runs, request.name)
    pilot = folder / attempt.PILOT
    pilot.mkdir()
    try:
        with RunProgress(1) as progress:
            planning = attempt.plan_for(request, choice.names, pilot, progress)
            text = interruptible(planning, left)
    except asyncio.CancelledError:
        stderr.print("interrupted in the pilot: there is nothing to take up")
        return ExitCode.INTERRUPTED
    plan, document = schema.loads(text)
    put(folder / PLAN, text.encode())
    if save is not None:
        _save(save, text)
    with RunProgress(plan.blocks.max) as progress:
        cells = matrix.resolve(plan, document)
        outcome = run_plan(plan, cells, folder, progress, resume=False)
    return ExitCode.INTERRUPTED if outcome is None else conclude(outcome, as_json=as_json)


def _check_save(file: Path) -> None:
    """What can be seen before anything has run."""
    if file.exists():
        raise _there(file)
    reason = errno.EACCES if file.parent.is_dir() else errno.ENOENT
    if not os.access(file.parent, os.W_OK | os.X_OK) or reason == errno.ENOENT:
        raise UllageError(FILE_FAILED, file=file, reason=os.strerror(reason))


def _save(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise _there(file) from None


def _there(file: Path) -> UllageError:
    return UllageError(FILE_FAILED, file=file, reason=os.strerror(errno.EEXIST))


def _request(
    command: list[str],
    *,
    image: str | None,
    root: str | None,
    http: str | None,
    metrics: list[str],
    within: str,
    where: str | None,
    cpus: float,
) -> "TryRequest":
    """What was given, checked as far as it can be without the host."""
    from ullage.experiments import attempt

    if not command and (image in (None, attempt.HOST)):
        raise typer.BadParameter("give a command after `--`, or an image with --image")
    if any("\udc80" <= letter <= "\udcff" for word in command for letter in word):
        raise typer.BadParameter("the command is not UTF-8 text, which a plan could hold")
    workload: dict[str, Any] = {"name": "service" if http else "command"}
    if http:
        workload |= service(http)
    if metrics:
        workload["metrics"] = dict(_metric(text) for text in metrics)
    _check_fields(workload)
    names = _names(where)
    if image is None:
        files: Any = attempt.image_of(command[0], names)
    else:
        files = attempt.HOST if image == attempt.HOST else {"oci": image}
    if root is not None:
        files = _with_root(files, root)
    if command:
        program = attempt.on_host(command[0]) if files == attempt.HOST else command[0]
        workload["argv"] = [program, *command[1:]]
    return attempt.TryRequest(
        workload=workload,
        within_s=seconds("--within", within),
        name=f"try-{_plain(Path(command[0]).name if command else image or '')}",
        image=files,
        environments=names,
        cpus=cpus,
    )


def _with_root(files: Any, root: str) -> dict[str, Any]:
    """The image of a plan, with a root of that kind."""
    if root not in {"writable", "read-only"}:
        raise typer.BadParameter(f"--root: {root} is neither `writable` nor `read-only`")
    if not isinstance(files, dict):
        raise typer.BadParameter("--root: this host's own files are read-only; give an --image")
    return {**files, "root": root}


def _check_fields(workload: dict[str, Any]) -> None:
    """As the plan would, which says its lines and not the options."""
    from pydantic import ValidationError

    from ullage import workloads
    from ullage.common.faults import first_fault

    fields = {name: value for name, value in workload.items() if name != "name"}
    try:
        workloads.get(workload["name"]).parameters_model.model_validate(fields)
    except ValidationError as error:
        place = error.errors()[0]["loc"]
        of_metric = "metrics" in workload and (not place or place[0] == "metrics")
        option = "--metric" if of_metric else "--http"
        raise typer.BadParameter(f"{option}: {first_fault(error)}") from None


def service(http: str) -> dict[str, Any]:
    """`:8080/health` as the fields of a service."""
    match = re.fullmatch(r"(?:http://)?(?:localhost)?:(\d{1,5})(/[\x21-\x7e]*)?", http)
    if match is None:
        raise typer.BadParameter(f"--http: {http!r} is not `:PORT/PATH`")
    return {"port": int(match[1]), "path": match[2] or "/"}


def _metric(text: str) -> tuple[str, dict[str, Any]]:
    name, unit, better, regex = (*text.split(":", 3), "", "", "")[:4]
    if not regex:
        raise typer.BadParameter(f"--metric: {text!r} is not `NAME:UNIT:higher:REGEX`")
    return name, {"unit": unit, "better": better, "primary": True, "regex": regex}


def _names(where: str | None) -> tuple[str, ...]:
    from ullage.experiments.attempt import ENVIRONMENTS

    names = tuple(name.strip() for name in where.split(",")) if where is not None else ()
    for name in names:
        if name not in ENVIRONMENTS or names.count(name) > 1:
            what = "stands twice" if name in ENVIRONMENTS else "is none"
            raise typer.BadParameter(f"--in: {name} {what}: give some of {','.join(ENVIRONMENTS)}")
    return names


def _plain(text: str) -> str:
    """As a part of a plan's name: an image may be called `registry:5000/team/app:1.2`."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", text.rpartition("/")[2]).strip("-")
    return words[:30].rstrip("-") or "this"
