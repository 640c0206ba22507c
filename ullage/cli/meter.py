"""`ullage meter …`: the options. `meter_readings` does the work, imported when needed."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from ullage.cli.options import Json

meter_app = typer.Typer(rich_markup_mode=None)

Which = Annotated[
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


def _bodies() -> ModuleType:
    from ullage.cli import meter_readings

    return meter_readings


def _exit(code: int) -> None:
    if code:
        raise typer.Exit(code)


@meter_app.command("list")
def list_command(as_json: Json = False) -> None:
    """List the meters and the loggers.

    Of each meter, what it needs and whether it can be read here.
    """
    _bodies().list_all(as_json=as_json)


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
    options = [*(option or ()), *([] if every is None else [f"every={every}"])]
    _bodies().start(meter, to, options, name=meter if name is None else name, as_json=as_json)


@meter_app.command("log")
def log_command(
    which: Which = None,
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
    form = "csv" if as_csv else "json" if as_json else "text"
    _bodies().log(which, form=form, follow=follow)


@meter_app.command("energy")
def energy_command(
    which: Which = None,
    start: From = None,
    end: To = None,
    parts: Annotated[
        bool, typer.Option("--parts", help="Each part that is known, where not all is.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print the energy of a time, in J, with its uncertainty."""
    _exit(_bodies().energy(which, start, end, parts=parts, as_json=as_json))


@meter_app.command("time")
def time_command(which: Which = None, as_json: Json = False) -> None:
    """Print how long was measured, in s."""
    _bodies().elapsed(which, as_json=as_json)


@meter_app.command("stop")
def stop_command(which: Which = None, as_json: Json = False) -> None:
    """End a logger; print the total energy and the total time."""
    _exit(_bodies().stop(which, as_json=as_json))


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
    _bodies().fit(power, load, window=window)
