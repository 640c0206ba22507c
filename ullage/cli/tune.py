"""`ullage tune`: which settings buy how much. What runs and computes is imported when needed."""

import errno
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ullage.cli.options import Json, RunsOption
from ullage.common.console import escape, print_json, stderr
from ullage.common.errors import FILE_FAILED, ExitCode, UllageError
from ullage.runs import RUNS

if TYPE_CHECKING:
    from ullage.experiments.tuning.plan import TuneRequest
    from ullage.experiments.tuning.settings import Selection


class Tuned(StrEnum):
    """What has settings to tune."""

    VM = "vm"


class Accel(StrEnum):
    AUTO = "auto"
    KVM = "kvm"
    TCG = "tcg"


def tune_command(
    what: Annotated[Tuned, typer.Argument(help="`vm`: a VM under QEMU.")],
    workload: Annotated[
        str, typer.Option("--workload", help="What it is tuned for, such as `iperf3`.")
    ],
    *,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter",
            help="Of the workload, `time_s=2`; may be repeated.",
            show_default=False,
            metavar="NAME=VALUE",
        ),
    ] = None,
    settings: Annotated[
        str | None,
        typer.Option(
            "--settings",
            help="Just these, `vhost,disk.cache`; else those that the workload may feel.",
            show_default=False,
        ),
    ] = None,
    blocks: Annotated[
        int, typer.Option("--blocks", min=2, max=1000, help="Each runs the design once.")
    ] = 3,
    cpus: Annotated[int, typer.Option("--cpus", min=1, help="Of a VM.")] = 1,
    memory: Annotated[str, typer.Option("--memory", help="Of a VM.")] = "512MiB",
    accel: Annotated[Accel, typer.Option("--accel", help="As in a plan.")] = Accel.AUTO,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            help="Write a plan here that compares what seems better with settings as they were.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show settings, trials and time; run nothing.")
    ] = False,
    runs: RunsOption = RUNS,
    as_json: Json = False,
) -> None:
    """Find which settings of a VM buy how much for a workload, in few trials."""
    from ullage.experiments.tuning.plan import TuneRequest

    if save is not None and save.exists():
        raise UllageError(FILE_FAILED, file=save, reason=os.strerror(errno.EEXIST))
    options: dict[str, Any] = {} if accel is Accel.AUTO else {"accel": accel.value}
    if accel is Accel.TCG:
        options["boot_deadline_s"] = 400
    request = TuneRequest(
        workload={"name": workload, **_parameters(parameter or [])},
        blocks=blocks,
        cpus=cpus,
        memory=memory,
        options=options,
    )
    names = tuple(name.strip() for name in settings.split(",")) if settings else ()
    selection = _selection(request, names, accel)
    code = _run(request, selection, save, runs, dry_run=dry_run, as_json=as_json)
    if code:
        raise typer.Exit(code)


def _selection(request: "TuneRequest", names: tuple[str, ...], accel: Accel) -> "Selection":
    from ullage import workloads
    from ullage.environments.qemu.probe import no_device
    from ullage.experiments.tuning.settings import TuneHost, select

    name = str(request.workload["name"])
    try:
        resource = workloads.get(name).resource
    except KeyError:
        raise typer.BadParameter(f"--workload: there is no {name}; see docs/reference") from None
    kvm = accel is not Accel.TCG and no_device() is None
    return select(resource, TuneHost(cpus=request.cpus, kvm=kvm), names)


def _run(
    request: "TuneRequest",
    selection: "Selection",
    save: Path | None,
    runs: Path,
    *,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Run the design and say what came of it."""
    from ullage.cli.live.terminal import RunProgress
    from ullage.cli.output import dryrun
    from ullage.cli.output import tune as output
    from ullage.common.files import put
    from ullage.engine.forecast import foresee
    from ullage.experiments import preflight
    from ullage.experiments.run import run_plan
    from ullage.experiments.tuning.outcome import outcome
    from ullage.experiments.tuning.plan import campaign, confirmation
    from ullage.plan import matrix, schema
    from ullage.runs import writer
    from ullage.runs.reader import RunFolder
    from ullage.runs.records import PLAN

    text = campaign(request, selection.settings)
    plan, document = schema.loads(text)
    cells = matrix.resolve(plan, document)
    if dry_run:
        forecast = foresee(plan, cells, None, runs)
        if as_json:
            print_json({**output.selected(selection), **dryrun.as_dict(forecast)})
        else:
            output.show_selection(selection, request.blocks, dryrun.time(forecast.time, plan))
        return ExitCode.DONE
    preflight.refuse(plan, cells)
    folder = writer.new_folder(runs, plan.name)
    put(folder / PLAN, text.encode())
    with RunProgress(plan.blocks.max) as progress:
        ended = run_plan(plan, cells, folder, progress, resume=False)
    if ended is None:
        return ExitCode.INTERRUPTED
    tuned = outcome(RunFolder.open(folder), selection.settings)
    if as_json:
        print_json({"folder": str(folder), **output.as_dict(tuned)})
    else:
        output.show(tuned)
    if save is not None and tuned.better:
        plan_text = confirmation(request, selection.settings, tuned.proven, tuned.better)
        put(save, plan_text.encode())
        stderr.print(escape(f"wrote {save}; next: ullage run {save}"), soft_wrap=True)
    return ExitCode.SOME_CELLS_FAILED if ended.failed else ExitCode.DONE


def _parameters(words: list[str]) -> dict[str, Any]:
    """`time_s=2` as a field of a plan."""
    import yaml

    fields = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"--parameter: {word!r} is not `NAME=VALUE`")
        try:
            fields[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise typer.BadParameter(f"--parameter: {value!r} is no value of a plan") from None
    return fields
