"""`ullage clock …`: the options. `experiments.clock.commands` does the work, when needed."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

clock_app = typer.Typer(
    help="The clock under everything: what it may promise here, and other machines' time.",
    no_args_is_help=True,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quick = Annotated[bool, typer.Option("--quick", help="A few seconds, with wider intervals.")]
Html = Annotated[Path | None, typer.Option("--html", help="Also write a page.", show_default=False)]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        help="The run's secret, 32 hexadecimal digits; else $ULLAGE_CLOCK_TOKEN.",
        show_default=False,
    ),
]
Tcp = Annotated[bool, typer.Option("--tcp", help="TCP, where UDP does not get through.")]


_YEAR_S = 366 * 86_400


def _bodies() -> ModuleType:
    from ullage.host import clock

    clock.check_distortion()
    clock.require()
    from ullage.experiments.clock import commands

    return commands


def _seconds(value: float | None) -> float | None:
    if value is not None and not 0 <= value <= _YEAR_S:
        raise typer.BadParameter(f"{value:g} is not a finite number of seconds from 0 to a year")
    return value


@clock_app.command("check")
def check_command(quick: Quick = False, as_json: Json = False, html: Html = None) -> None:
    """Explain what this machine's clock may promise, and put it to the test."""
    code = _bodies().run_check(quick=quick, as_json=as_json, html=html)
    if code:
        raise typer.Exit(code)


@clock_app.command("cost")
def cost_command(quick: Quick = False, as_json: Json = False, html: Html = None) -> None:
    """Measure what a read of each clock costs."""
    _bodies().run_cost(quick=quick, as_json=as_json, html=html)


@clock_app.command("serve")
def serve_command(
    address: Annotated[str, typer.Argument(help="Where to listen: HOST, HOST:PORT.")] = "127.0.0.1",
    token_file: TokenFile = None,
    follow: Annotated[
        str | None,
        typer.Option("--follow", help="Serve the time of the server there.", show_default=False),
    ] = None,
    tcp: Tcp = False,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", help="End by itself.", show_default=False, callback=_seconds),
    ] = None,
    as_json: Json = False,
    html: Html = None,
) -> None:
    """Answer other machines with this one's time, until Ctrl-C."""
    _bodies().run_serve(
        address,
        token_file=token_file,
        follow=follow,
        tcp=tcp,
        seconds=seconds,
        as_json=as_json,
        html=html,
    )


@clock_app.command("sync")
def sync_command(
    address: Annotated[str, typer.Argument(help="A server: HOST or HOST:PORT.")],
    token_file: TokenFile = None,
    tcp: Tcp = False,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            help="Go on for so long, for the rate; 0: once.",
            show_default="10, --quick 2",
            callback=_seconds,
        ),
    ] = None,
    quick: Quick = False,
    as_json: Json = False,
    html: Html = None,
) -> None:
    """Say how another machine's clock differs from this one's, and how well that is known."""
    if seconds is None:
        seconds = 2.0 if quick else 10.0
    code = _bodies().run_sync(
        address, token_file=token_file, tcp=tcp, seconds=seconds, as_json=as_json, html=html
    )
    if code:
        raise typer.Exit(code)


@clock_app.command("scaling")
def scaling_command(
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes", min=2, max=250, help="Real nodes; else as fit.", show_default=False
        ),
    ] = None,
    quick: Quick = False,
    as_json: Json = False,
    html: Html = None,
) -> None:
    """Synchronise many nodes: really as many as fit, and by simulation up to a million."""
    _bodies().run_scaling(quick=quick, processes=processes, as_json=as_json, html=html)


@clock_app.command("ntp")
def ntp_command(
    intervals: Annotated[
        list[float] | None,
        typer.Option("--interval", min=0, max=86_400, help="Polling interval, s; may be repeated."),
    ] = None,
    error_ppm: Annotated[
        float,
        typer.Option("--error", min=-400, max=400, help="Of the guest's oscillator, ppm."),
    ] = -50.0,
    observe_s: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            min=20,
            max=86_400,
            help="To watch each interval.",
            show_default="150, --quick 60",
        ),
    ] = None,
    quick: Quick = False,
    as_json: Json = False,
    html: Html = None,
) -> None:
    """Measure the corrections that chrony makes, in a guest whose oscillator is wrong."""
    if observe_s is None:
        observe_s = 60.0 if quick else 150.0
    _bodies().run_ntp(
        intervals=intervals or [0.0],
        error_ppm=error_ppm,
        observe_s=observe_s,
        quick=quick,
        as_json=as_json,
        html=html,
    )
