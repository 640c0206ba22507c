"""`ullage clock …`: measure, then show it as text, JSON or a page.

What measures is imported by the command that needs it.
"""

from __future__ import annotations

import signal
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self, TypeVar

import typer

from ullage.cli.options import Json
from ullage.cli.options import seconds as duration
from ullage.common.console import escape, stderr, stdout
from ullage.common.errors import FILE_FAILED, ExitCode, UllageError
from ullage.common.files import put
from ullage.common.signals import orderly

if TYPE_CHECKING:
    from ullage.common.clock_model import FrozenModel
    from ullage.experiments.clock.view import View

M = TypeVar("M", bound="FrozenModel")

clock_app = typer.Typer(rich_markup_mode=None)

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


def _seconds(value: float | None) -> float | None:
    if value is not None and not 0 <= value <= _YEAR_S:
        raise typer.BadParameter(f"{value:g} is not a finite number of seconds from 0 to a year")
    return value


@clock_app.command("check")
def check_command(quick: Quick = False, as_json: Json = False, html: Html = None) -> None:
    """Explain what this clock may promise, and put it to the test."""
    _ready(html)
    from ullage.experiments.clock import check, lab

    with lab.Bar() as bar:
        report = check.measure(bar, quick=quick)
    _conclude(report, check.view, as_json=as_json, html=html)
    if not report.kept:
        raise typer.Exit(ExitCode.GATE_FAILED)


@clock_app.command("cost")
def cost_command(quick: Quick = False, as_json: Json = False, html: Html = None) -> None:
    """Measure what a read of each clock costs."""
    _ready(html)
    from ullage.experiments.clock import cost, lab

    with lab.Bar() as bar:
        report = cost.measure(bar, quick=quick)
    _conclude(report, cost.view, as_json=as_json, html=html)


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
    _ready(html)
    from ullage.experiments.clock import peer, serve

    where, key = peer.resolve(address), peer.token(token_file, create=True)
    follower = None
    if follow is not None:
        follower = serve.Follower(peer.resolve(follow), key, tcp=tcp, warn=_warn)
    with _Interruption() as interruption:
        report = serve.serve(
            where,
            key,
            follower=follower,
            tcp=tcp,
            seconds=seconds,
            ready=_say_served,
            stopped=lambda: interruption.noted,
        )
    _conclude(report, serve.view, as_json=as_json, html=html)


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
    messages: Annotated[
        int,
        typer.Option("--messages", min=2, max=1_000_000, help="Of one synchronisation, at most."),
    ] = 200,
    longest: Annotated[
        str | None,
        typer.Option(
            "--time",
            metavar="DURATION",
            help="Of one synchronisation, at most: 5ms.",
            show_default="1ms, or 64 least round trips where that is more",
        ),
    ] = None,
    quick: Quick = False,
    as_json: Json = False,
    html: Html = None,
) -> None:
    """Say how another machine's clock differs from this one's.

    And how well that is known. What was measured is shown however it ends.
    """
    _ready(html)
    from ullage.experiments.clock import lab, peer, sync
    from ullage.host.clock import Rules

    if seconds is None:
        seconds = 2.0 if quick else 10.0
    time_ns = 0 if longest is None else max(1, round(1e9 * duration("--time", longest)))
    server, key = peer.resolve(address), peer.token(token_file)
    with orderly(), lab.Bar() as bar:
        stage = bar.stage(f"synchronising with {server}", seconds)
        report = sync.measure(
            server,
            key,
            seconds=seconds,
            tcp=tcp,
            rules=Rules(messages=messages, time_ns=time_ns),
            advance=lambda done, of: stage(round(done * 1000), round(of * 1000)),
        )
    _conclude(report, sync.view, as_json=as_json, html=html)
    if (error := sync.stopped(report)) is not None:
        raise error
    if report.ended == "interrupted":
        raise typer.Exit(ExitCode.INTERRUPTED)


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
    """Synchronise many nodes.

    Really as many as fit, and by simulation up to a million.
    """
    _ready(html)
    from ullage.experiments.clock import lab, scaling

    with orderly(), lab.Bar() as bar:
        report = scaling.measure(bar, quick=quick, processes=processes)
    _conclude(report, scaling.view, as_json=as_json, html=html)


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
    """Measure how chrony corrects a guest whose oscillator is wrong."""
    _ready(html)
    from ullage.experiments.clock import lab
    from ullage.experiments.clock.ntp import report as disciplining
    from ullage.experiments.clock.ntp.outcome import NtpOptions

    if observe_s is None:
        observe_s = 60.0 if quick else 150.0
    options = NtpOptions(
        intervals_s=tuple(intervals or [0.0]),
        frequency_error_ppm=error_ppm,
        observe_s=observe_s,
        settle_s=10.0 if quick else 30.0,
    )
    with orderly(), lab.Bar() as bar:
        report = disciplining.measure(bar, options)
    _conclude(report, disciplining.view, as_json=as_json, html=html)


@clock_app.command("ocean")
def ocean_command(
    ranks: Annotated[
        list[int] | None,
        typer.Option(
            "--ranks",
            min=1,
            max=512,
            help="MPI processes; may be repeated.",
            show_default="4",
        ),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            "--runs", min=2, max=1000, help="With each clock.", show_default="10, --quick 4"
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            "--steps", min=2, max=1_000_000, help="Of the model.", show_default="200, --quick 10"
        ),
    ] = None,
    quick: Quick = False,
    as_json: Json = False,
    html: Html = None,
) -> None:
    """Time an ocean model under each clock: the library's, beside chronyd, and this one."""
    _ready(html)
    from ullage.experiments.clock import lab
    from ullage.experiments.clock.ocean import report as sailing
    from ullage.experiments.clock.ocean.outcome import OceanOptions

    options = OceanOptions(
        ranks=tuple(ranks or [4]),
        runs=runs or (4 if quick else 10),
        steps=steps or (10 if quick else 200),
    )
    with orderly(), lab.Bar() as bar:
        report = sailing.measure(bar, options)
    _conclude(report, sailing.view, as_json=as_json, html=html)


def _ready(html: Path | None) -> None:
    """Before anything is measured: is there a clock, and can the page be written? FILE_FAILED."""
    from ullage.host import clock

    clock.check_distortion()
    clock.require()
    if html is None:
        return
    try:
        with tempfile.TemporaryFile(dir=html.parent):
            pass
        irregular = html.exists() and not stat.S_ISREG(html.stat().st_mode)
    except OSError as error:
        raise _unwritable(html, error.strerror or str(error)) from error
    if irregular:
        raise _unwritable(html, "is there, and is not a regular file")


def _conclude(report: M, view: Callable[[M], View], *, as_json: bool, html: Path | None) -> None:
    """The answer on standard output; the page, if there is to be one, where it is to be."""
    from ullage.experiments.clock.view import show

    if as_json:
        sys.stdout.write(report.model_dump_json(indent=2) + "\n")
    else:
        show(view(report), stdout)
    if html is not None:
        from ullage.experiments.clock.page import render

        when = time.strftime("%Y-%m-%d %H:%M:%S %Z")
        try:
            put(html, render(view(report), when).encode())
        except OSError as error:
            raise _unwritable(html, error.strerror or str(error)) from error
        stderr.print(escape(f"page: {html}"), soft_wrap=True)


def _unwritable(page: Path, reason: str) -> UllageError:
    return UllageError(FILE_FAILED, file=page, reason=reason)


def _say_served(address: str) -> None:
    stderr.print(escape(f"serving the clock at {address}; Ctrl-C ends it"), soft_wrap=True)


def _warn(text: str) -> None:
    stderr.print(f"[yellow]warning:[/] {escape(text)}", soft_wrap=True)


class _Interruption:
    """Whether somebody wants an end: the first Ctrl-C or SIGTERM ends the server in order."""

    def __init__(self) -> None:
        self.noted = False

    def __enter__(self) -> Self:
        self._before = {
            number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, *_: object) -> None:
        self.noted = True
