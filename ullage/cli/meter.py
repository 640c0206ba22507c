"""`ullage meter …`: data on standard output, messages on standard error.

What reads meters and files is imported by the command that needs it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ullage.cli.options import Json
from ullage.common.console import escape, print_json, stderr, stdout
from ullage.common.errors import (
    ENERGY_FILE_GONE,
    ENERGY_LOGGER_BAD_NAME,
    ENERGY_NOT_KNOWN,
    ExitCode,
    UllageError,
)

if TYPE_CHECKING:
    from ullage.meters.energy.discovery import LocalMeter

meter_app = typer.Typer(rich_markup_mode=None)

NameOrFile = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME|FILE",
        help="A logger, or a file of readings; without one, the only logger that there is.",
        show_default=False,
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="`+90s` after the start, seconds since 1970, or ISO 8601; else the first reading.",
        show_default=False,
    ),
]
To = Annotated[
    str | None, typer.Option("--to", help="The same; else the last reading.", show_default=False)
]


@meter_app.command("list")
def list_command(as_json: Json = False) -> None:
    """List the meters and the loggers.

    Of each meter, what it needs and whether it can be read here.
    """
    from ullage.cli.output import meter_readings as readings
    from ullage.meters import energy
    from ullage.meters.energy import discovery, logger

    meters, loggers = discovery.find_meters(energy.ENERGY_METERS), logger.loggers()
    if as_json:
        print_json(
            {
                "meters": [meter.as_json() for meter in meters],
                "loggers": [readings.logger_json(running) for running in loggers],
            }
        )
        return
    for meter in meters:
        _show_meter(meter)
    for running in loggers:
        state = "" if running.alive else f", died: {readings.death(running)}"
        if running.file_gone:
            state += ", but that file is gone: it was removed or moved"
        line = f"logger {running.name}: {running.meter} since {running.since} into {running.file}"
        stdout.print(escape(line + state), soft_wrap=True)
    stderr.print(
        "`ullage meter start NAME` reads one in the background; `ullage meter energy` asks it"
    )


def _show_meter(meter: LocalMeter) -> None:
    style = {"readable": "green", "ask": "cyan", "absent": "yellow", "denied": "red"}[meter.state]
    stdout.print(
        f"[{style}]{meter.state:<8}[/] {meter.name:<10} {escape(meter.summary)}", soft_wrap=True
    )
    stdout.print(f"{'':20}{escape(meter.detail)}", soft_wrap=True)
    if meter.hint:
        stdout.print(f"{'':20}[cyan]hint:[/] {escape(meter.hint)}", soft_wrap=True)


@meter_app.command("start")
def start_command(
    meter: Annotated[str, typer.Argument(help="Its name; `ullage meter list` has them.")],
    *,
    to: Annotated[Path, typer.Option("--to", help="A new file for the readings.")],
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", "-o", help="`key=value`, as in a plan; may be repeated.", show_default=False
        ),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option("--every", help="Between two readings, `1s`.", show_default=False),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", help="What to call the logger.", show_default="the meter's"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Read a meter in the background, until it is stopped."""
    from ullage.cli.output import meter_readings as readings
    from ullage.meters.energy import discovery, logger
    from ullage.plan.meters import LABEL

    options = [*(option or ()), *([] if every is None else [f"every={every}"])]
    name = meter if name is None else name
    if not LABEL.fullmatch(name):
        raise UllageError(ENERGY_LOGGER_BAD_NAME, found=repr(name))
    before = logger.find(name)
    planned = discovery.planned_meter(name, meter, options)
    started = logger.start(name, planned, to.absolute())
    if caution := planned.make().caution():
        _warn(f"{name} ({meter}): {caution}")
    if before is not None and not before.alive:
        death = readings.death(before)
        _warn(f"the logger {name} of before died: {death}; its readings are in {before.file}")
    if as_json:
        print_json(readings.logger_json(started))
        return
    stderr.print(
        escape(
            f"{name} reads {meter} every {started.every_s:g} s into {started.file}; "
            f"`ullage meter stop {name}` ends it"
        ),
        soft_wrap=True,
    )


@meter_app.command("log")
def log_command(
    name: NameOrFile = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until it is stopped.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, a line for a value.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, a line for a reading, as in the file.")
    ] = False,
) -> None:
    """Print the readings."""
    if as_csv and as_json:
        raise typer.BadParameter("either --csv or --json")
    from ullage.cli.output import meter_readings as readings

    file, logger = readings.source(name)
    readings.stretches_of(file, logger)
    form: readings.OutputForm = "csv" if as_csv else "json" if as_json else "text"
    readings.print_log(file, form, logger if follow else None, follow=follow)


@meter_app.command("energy")
def energy_command(
    name: NameOrFile = None,
    start: From = None,
    end: To = None,
    parts: Annotated[
        bool, typer.Option("--parts", help="Each part that is known, where not all is.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print the energy of a time, in J, with its uncertainty."""
    from ullage.cli.output import meter_readings as readings

    file, logger = readings.source(name)
    stretches = readings.stretches_of(file, logger)
    if any(text is not None and not text.startswith("+") for text in (start, end)):
        readings.warn_if_clock_was_set(stretches, logger)
    window = readings.window_of(file, stretches, start, end)
    whole = readings.energies(stretches, window)
    energies = readings.energies_of_parts(stretches, window) if parts else whole
    readings.show_energies(energies, as_json=as_json)
    if not (parts and energies):
        readings.refuse_unknown(whole)


@meter_app.command("time")
def time_command(name: NameOrFile = None, as_json: Json = False) -> None:
    """Print how long was measured, in s."""
    from ullage.cli.output import meter_readings as readings

    stretches = readings.stretches_of(*readings.source(name))
    seconds = readings.span_s(stretches)
    if as_json:
        count = sum(len(stretch.readings) for stretch in stretches)
        faults = sum(len(stretch.faults) for stretch in stretches)
        print_json({"seconds": seconds, "readings": count, "faults": faults})
    else:
        stdout.print(f"{seconds:.3f} s")


@meter_app.command("stop")
def stop_command(name: NameOrFile = None, as_json: Json = False) -> None:
    """End a logger; print the total energy and the total time."""
    from ullage.cli.output import meter_readings as readings
    from ullage.meters.energy import logger as background

    logger = readings.logger_named(name)
    alive = background.stop(logger)
    if logger.file_gone:
        end = "was stopped" if alive else f"had died before: {readings.death(logger)}"
        raise UllageError(ENERGY_FILE_GONE, name=logger.name, what=end, file=logger.file)
    if not alive:
        death = readings.death(logger)
        _warn(f"{logger.name} had died before: {death}; what it had written is in {logger.file}")
    stretches = readings.stretches_of(logger.file)
    window = readings.covered_span(stretches)
    if window is None:
        raise UllageError(ENERGY_NOT_KNOWN, what=logger.name, reason="there are not two readings")
    totals = readings.energies(stretches, window)
    readings.show_energies(totals, as_json=as_json)
    if not as_json:
        stdout.print(f"time: {readings.span_s(stretches):.3f} s")
    readings.refuse_unknown(totals)
    if not alive:
        raise typer.Exit(ExitCode.GATE_FAILED)


@meter_app.command("fit")
def fit_command(
    power: Annotated[
        Path, typer.Argument(help="Readings of an instrument, at the wall or of packages.")
    ],
    load: Annotated[
        Path,
        typer.Argument(
            help="Readings of `model` with `-o idle_watts=0 -o core_watts=1`, at the same time."
        ),
    ],
    window: Annotated[
        str, typer.Option("--window", help="Mean power and load are taken over so long.")
    ] = "5s",
) -> None:
    """Print the coefficients of the meter `model`.

    As its `fit` option reads them.
    """
    from ullage.cli.output.meter_readings import fitted_model

    print(fitted_model(power, load, window).model_dump_json(indent=1))


def _warn(text: str) -> None:
    stderr.print(f"[yellow]warning:[/] {escape(text)}", soft_wrap=True)
