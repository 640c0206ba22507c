"""The command line: data on standard output, everything else on standard error.

What takes long to import (Pydantic, asyncio, SciPy, PyArrow, DuckDB, Altair) is imported by the
command that needs it, and help is plain: rich's boxes take longer than all the rest of it.
"""

import errno
import io
import sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_group

from ullage import __version__
from ullage.cli.attempt import try_command
from ullage.cli.clean import clean_command
from ullage.cli.compare import compare_command
from ullage.cli.guarded import reads_folder
from ullage.cli.options import (
    Json,
    NodeConfigOption,
    NodeOption,
    NodeSudoOption,
    PlanArgument,
    ResumeOption,
    RunsOption,
    labelled,
)
from ullage.cli.profile import profile_command
from ullage.cli.results import RESULTS
from ullage.cli.tune import tune_command
from ullage.cli.weigh import weigh_command
from ullage.common.console import escape, print_json, stderr, stdout
from ullage.common.errors import FILE_FAILED, HOST_EXHAUSTED, ExitCode, UllageError
from ullage.runs import RUNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ullage.engine.progress import Progress
    from ullage.nodes.answers import Finding
    from ullage.plan.matrix import Matrix
    from ullage.plan.schema import Plan

app = typer.Typer(
    name="ullage",
    help="Measures the part of a machine that you pay for and don't get.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
GROUPS: Final = {
    "clock": "The clock: what it may promise here. And other machines' time.",
    "cloud": "Clouds that a plan may name: what runs have there.",
    "elastic": "How fast an environment grows and shrinks, and what users feel.",
    "gate": "Pass or fail a change in a pipeline, by figures before and after.",
    "image": "The root filesystem that every environment runs from.",
    "node": "Other machines, by ssh, for plans that name them.",
    "meter": "Energy meters for scripts. Read one in the background, and ask what it saw.",
    "study": "Published studies, recomputed and asked again here.",
}
"""Commands of commands, each in the file of its name, which is imported when it is called."""


GATES: Final = frozenset({"gate", "verify"})
"""Whose exit status must reach the caller, whatever becomes of their output."""


class _Group(TyperGroup):
    """One of GROUPS."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        self._load()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        self._load()
        return super().list_commands(ctx)

    def _load(self) -> None:
        if not self.commands:
            module = import_module(f"ullage.cli.{self.name}")
            self.commands = get_group(getattr(module, f"{self.name}_app")).commands


for name, summary in GROUPS.items():
    group = typer.Typer(cls=_Group, help=summary, no_args_is_help=True)
    app.add_typer(group, name=name)


def main() -> None:
    """Entry point: errors of the catalogue become one sentence, a hint and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # whatever the locale can show is shown
            stream.reconfigure(errors="replace")
    output = sys.stdout
    try:
        app()
    except UllageError as error:
        _fail(error)
    except SystemExit:
        # Typer put it away: whoever reads has enough, as `head` has. A gate has its status to say.
        if sys.stdout is not output and not GATES.intersection(sys.argv[1:2]):
            sys.exit(ExitCode.DONE)
        raise
    except OSError as error:
        _fail(_catalogued(error))
    except ExceptionGroup as several:  # of those who work side by side
        first = _first(several)
        if first is None:
            raise
        _fail(_catalogued(first))
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)


_EXHAUSTED: Final = {errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""No further process, open file, or memory."""


def _first(several: ExceptionGroup[Exception]) -> UllageError | OSError | None:
    """One that can be said in a sentence; None when an error of our own is among them."""
    known, unknown = several.split((UllageError, OSError))
    first: BaseException | None = known if unknown is None else None
    while isinstance(first, ExceptionGroup):
        first = first.exceptions[0]
    return first if isinstance(first, UllageError | OSError) else None


def _catalogued(error: UllageError | OSError) -> UllageError:
    """An OSError as an error of the catalogue."""
    if isinstance(error, UllageError):
        return error
    if error.errno in _EXHAUSTED and not error.filename:
        return UllageError(HOST_EXHAUSTED, reason=error.strerror)
    file = error.filename2 or error.filename or "standard output"
    return UllageError(FILE_FAILED, file=file, reason=error.strerror or error)


def _fail(error: UllageError) -> NoReturn:
    stderr.print(f"[red]error\\[{error.code}]:[/] {escape(error.message)}", soft_wrap=True)
    stderr.print(f"[cyan]hint:[/] {escape(error.hint)}", soft_wrap=True)
    sys.exit(error.kind.exit_code)


def _version(chosen: bool) -> None:
    if chosen:
        from ullage.host.build import build

        print(f"ullage {__version__} (build {build() or 'unknown'})")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Measures the part of a machine that you pay for and don't get."""


@app.command("doctor")
def doctor_command(
    as_json: Json = False,
    node: NodeOption = None,
    config: NodeConfigOption = None,
    sudo: NodeSudoOption = False,
) -> None:
    """Say what this host can do, and how to add what is missing."""
    import asyncio

    findings: Sequence[Finding]
    if node is not None:
        from ullage.cli.node import target
        from ullage.nodes import link

        diagnosis = asyncio.run(link.diagnosis(target(node, config, sudo=sudo)))
        findings, answer = diagnosis.findings, diagnosis.model_dump(mode="json")
    else:
        from ullage.nodes import doctor

        examined = asyncio.run(doctor.examine())
        findings, answer = examined, doctor.as_json(examined)
    if as_json:
        print_json(answer)
    else:
        marks = {
            "ok": "[green]ok[/]",
            "limited": "[yellow]limited[/]",
            "missing": "[red]missing[/]",
        }
        for finding in findings:
            stdout.print(
                f"{marks[finding.state]:<18} {finding.what:<16} {escape(finding.detail)}",
                soft_wrap=True,
            )
            if finding.hint:
                stdout.print(f"         [cyan]hint:[/] {escape(finding.hint)}", soft_wrap=True)
    if any(finding.state == "missing" for finding in findings):
        raise typer.Exit(ExitCode.GATE_FAILED)


@app.command("setup")
def setup_command(
    yes: Annotated[
        bool, typer.Option("--yes", help="Install them, by apt and as root.", show_default=False)
    ] = False,
) -> None:
    """Say which packages containers, VMs and the network need here, or install them."""
    from ullage.common.packages import apt, distribution, install_command, needed_to_run

    if distribution() != "debian":  # which of them are there only its own tools know
        stdout.print(escape(install_command(*needed_to_run())), soft_wrap=True)
        return
    missing = apt.missing_packages()
    if missing and yes:
        apt.install(missing)
    elif missing:
        stdout.print(escape(install_command(*missing)), soft_wrap=True)
        raise typer.Exit(ExitCode.GATE_FAILED)
    stderr.print("all packages are there; next: ullage doctor")


@app.command("init")
def init_command(
    file: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("plan.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite.")] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of plans instead.")
    ] = False,
) -> None:
    """Write a commented plan that runs as it is."""
    from ullage.plan import template
    from ullage.runs.reader import typed

    if schema:
        print(template.schema())
        return
    template.write(file, force=force)
    stderr.print(escape(f"wrote {file}; next: ullage run {typed(file)}"), soft_wrap=True)


@app.command("run")
def run_command(
    file: PlanArgument = None,
    resume: ResumeOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show cells, order, time and power; run nothing.")
    ] = False,
    *,
    pilot: Annotated[
        Path | None,
        typer.Option(
            "--pilot",
            help="With --dry-run: the run (a folder, or its name in --runs) whose spreads to plan"
            " with; else the newest alike.",
            show_default=False,
        ),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Serve a page to this machine that follows the run.")
    ] = False,
    live_port: Annotated[
        int,
        typer.Option("--live-port", min=0, max=65535, help="Of the page; 0: any that is free."),
    ] = 0,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            help="NAME=TEXT, kept with the run for `ullage history`: commit=3f2a9c1; may be"
            " repeated.",
            show_default=False,
        ),
    ] = None,
    runs: RunsOption = RUNS,
    as_json: Json = False,
) -> None:
    """Run a plan, environments and workloads in interleaved blocks."""
    from ullage.common.files import put
    from ullage.plan import matrix, schema
    from ullage.runs import writer
    from ullage.runs.reader import RunFolder, begun, named
    from ullage.runs.records import PLAN

    if (file is None) == (resume is None):
        raise typer.BadParameter("give a plan, or --resume RUN")
    if pilot is not None and not dry_run:
        raise typer.BadParameter("--pilot goes with --dry-run")
    if label and resume is not None:
        raise typer.BadParameter("--label: a run that is taken up keeps those that it has")
    resume = None if resume is None else begun(named(resume, runs))
    source = file if file is not None else Path(resume or "") / PLAN
    checked, document = schema.load(source)
    checked = labelled(checked, label)
    cells = matrix.resolve(checked, document)
    if dry_run:
        from ullage.cli.output import dryrun

        learned = RunFolder.open(named(pilot, runs)) if pilot is not None else None
        dryrun.show(checked, cells, as_json=as_json, pilot=learned, runs=runs)
        _warn_of_this_host(checked, cells)
        _warn_of_meters(checked, cells)
        return
    from ullage.cli.live.terminal import RunProgress
    from ullage.experiments import preflight
    from ullage.experiments.run import conclude, run_plan

    preflight.refuse(checked, cells)
    if resume is not None:
        folder = resume
    else:
        folder = writer.new_folder(runs, checked.name)
        put(folder / PLAN, source.read_bytes())
    with ExitStack() as stack:
        progress: Progress = stack.enter_context(RunProgress(checked.blocks.max))
        if busy := preflight.busy():
            progress.warning(busy)
        if live:
            from ullage.cli.live.progress import followed

            progress = stack.enter_context(followed(progress, folder, checked, live_port))
        outcome = run_plan(checked, cells, folder, progress, resume=resume is not None)
        if outcome is None:  # the live page is told so too
            raise typer.Exit(ExitCode.INTERRUPTED)
    if code := conclude(outcome, as_json=as_json):
        raise typer.Exit(code)


def _warn_of_this_host(checked: "Plan", cells: "Matrix") -> None:
    """A plan may be for another host, so it is not refused."""
    from ullage.experiments import preflight

    for error in preflight.faults(checked, cells):
        stderr.print(
            f"[yellow]warning:[/] not on this host: {escape(f'{error.message}; {error.hint}')}",
            soft_wrap=True,
        )
    if busy := preflight.busy():
        stderr.print(f"[yellow]warning:[/] {escape(busy)}", soft_wrap=True)


def _warn_of_meters(checked: "Plan", cells: "Matrix") -> None:
    """Of energy meters that cannot be read here; and in a duet, of energy that two share."""
    import asyncio

    from ullage.meters.energy import metering

    for meter, error in asyncio.run(metering.absent(cells.meters)):
        otherwise = "the run goes on without it" if meter.optional else error.hint
        stderr.print(
            f"[yellow]warning:[/] not on this host: energy meter {meter.label}: "
            f"{escape(f'{error.message}; {otherwise}')}",
            soft_wrap=True,
        )
    if cells.meters and checked.design == "duet":
        stderr.print(f"[yellow]warning:[/] {metering.TWO_AT_ONCE}", soft_wrap=True)


app.command("try")(try_command)
for name, command in RESULTS.items():
    app.command(name)(reads_folder(command))
app.command("compare")(reads_folder(compare_command))
app.command("weigh")(reads_folder(weigh_command))
app.command("profile")(reads_folder(profile_command))
app.command("tune")(tune_command)
app.command("clean")(clean_command)
