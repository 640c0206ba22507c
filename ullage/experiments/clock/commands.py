"""The bodies of `ullage clock …`: measure, then show it as text, JSON or a page."""

from __future__ import annotations

import signal
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from rich.markup import escape

from ullage.common.clock_model import Model
from ullage.common.console import stderr, stdout
from ullage.common.errors import FILE_FAILED, ExitCode, UllageError
from ullage.common.files import put
from ullage.common.quantities import many
from ullage.experiments.clock import check, cost, peer, serve, sync, view
from ullage.experiments.clock.lab import Bar
from ullage.experiments.clock.view import View, show

M = TypeVar("M", bound=Model)


def run_check(*, quick: bool, as_json: bool, html: Path | None) -> ExitCode:
    """This machine's clock. GATE_FAILED when the tests found it wrong."""
    writable(html)
    with Bar() as bar:
        report = check.measure(bar, quick=quick)
    conclude(report, check.view, as_json=as_json, html=html)
    return ExitCode.DONE if report.kept else ExitCode.GATE_FAILED


def run_cost(*, quick: bool, as_json: bool, html: Path | None) -> None:
    writable(html)
    with Bar() as bar:
        report = cost.measure(bar, quick=quick)
    conclude(report, cost.view, as_json=as_json, html=html)


def run_serve(
    address: str,
    *,
    token_file: Path | None,
    follow: str | None,
    tcp: bool,
    seconds: float | None,
    as_json: bool,
    html: Path | None,
) -> None:
    writable(html)
    where, key = peer.resolve(address), peer.token(token_file, create=True)
    follower = None
    if follow is not None:
        server = peer.resolve(follow)
        follower = serve.Follower(server, key, tcp=tcp, warn=_warn)
    interruption = _Interruption()
    with interruption:
        report = serve.serve(
            where,
            key,
            follower=follower,
            tcp=tcp,
            seconds=seconds,
            ready=_serving,
            stopped=lambda: interruption.interrupted,
        )
    conclude(report, _served, as_json=as_json, html=html)


def run_sync(
    address: str,
    *,
    token_file: Path | None,
    tcp: bool,
    seconds: float,
    as_json: bool,
    html: Path | None,
) -> ExitCode:
    """Another machine's time. What was measured is shown, however it ends; then the error, if any.

    CLOCK_STOPPED_ANSWERING, and as `syncing.measure`.
    """
    writable(html)
    server, key = peer.resolve(address), peer.token(token_file)
    with _orderly(), Bar() as bar:
        advance = bar.stage(f"synchronising with {server}", seconds)
        report = sync.measure(
            server,
            key,
            seconds=seconds,
            tcp=tcp,
            advance=lambda done, of: advance(round(done * 1000), round(of * 1000)),
        )
    conclude(report, sync.view, as_json=as_json, html=html)
    if (error := sync.stopped(report)) is not None:
        raise error
    return ExitCode.INTERRUPTED if report.ended == "interrupted" else ExitCode.DONE


def run_scaling(*, quick: bool, processes: int | None, as_json: bool, html: Path | None) -> None:
    from ullage.experiments.clock import scaling

    writable(html)

    with _orderly(), Bar() as bar:
        report = scaling.measure(bar, quick=quick, processes=processes)
    conclude(report, scaling.view, as_json=as_json, html=html)


def run_ntp(
    *,
    intervals: list[float],
    error_ppm: float,
    observe_s: float,
    quick: bool,
    as_json: bool,
    html: Path | None,
) -> None:
    from ullage.experiments.clock.ntp import report as ntp
    from ullage.experiments.clock.ntp.outcome import NtpOptions

    writable(html)
    options = NtpOptions(
        intervals_s=tuple(intervals),
        frequency_error_ppm=error_ppm,
        observe_s=observe_s,
        settle_s=10.0 if quick else 30.0,
    )
    with _orderly(), Bar() as bar:
        report = ntp.measure(bar, options)
    conclude(report, ntp.view, as_json=as_json, html=html)


def conclude(report: M, shown: Callable[[M], View], *, as_json: bool, html: Path | None) -> None:
    """The answer on standard output; the page, if there is to be one, where it is to be."""
    if as_json:
        sys.stdout.write(report.model_dump_json(indent=2) + "\n")
    else:
        show(shown(report), stdout)
    if html is not None:
        from ullage.experiments.clock.page import render

        when = time.strftime("%Y-%m-%d %H:%M:%S %Z")
        try:
            put(html, render(shown(report), when).encode())
        except OSError as error:
            raise _unwritable(html, error.strerror or str(error)) from error
        stderr.print(escape(f"page: {html}"), soft_wrap=True)


def writable(page: Path | None) -> None:
    """Before anything is measured: can a page be written there? FILE_FAILED."""
    if page is None:
        return
    try:
        with tempfile.TemporaryFile(dir=page.parent):
            pass
        irregular = page.exists() and not stat.S_ISREG(page.stat().st_mode)
    except OSError as error:
        raise _unwritable(page, error.strerror or str(error)) from error
    if irregular:
        raise _unwritable(page, "is there, and is not a regular file")


def _unwritable(page: Path, reason: str) -> UllageError:
    return UllageError(FILE_FAILED, file=page, reason=reason)


def _serving(address: str) -> None:
    stderr.print(escape(f"serving the clock at {address}; Ctrl-C ends it"), soft_wrap=True)


def _warn(text: str) -> None:
    stderr.print(f"[yellow]warning:[/] {escape(text)}", soft_wrap=True)


def _served(report: serve.ServeReport) -> View:
    lines = [
        f"{many(report.answered, 'request')} answered at {report.address} over"
        f" {report.protocol} in {view.span(report.seconds * 1e9)}.",
        f"Not answered: {report.foreign:,} with another token, {report.malformed:,} that were no"
        " requests.",
    ]
    if report.follows is not None:
        lines.append(
            f"It followed {report.follows}:"
            f" {many(report.synchronisations, 'synchronisation')},"
            f" {report.failed} of which failed; in the end it was right to {_bounds(report)}."
        )
    return View("A served clock", tuple(lines), ())


def _bounds(report: serve.ServeReport) -> str:
    hard = f"{view.span(report.hard_ns)} (hard)"
    if report.bound_ns == report.hard_ns:
        return hard
    return f"{view.span(report.bound_ns)} (99.9 %), {hard}"


@contextmanager
def _orderly() -> Iterator[None]:
    """A SIGTERM ends it as Ctrl-C does: nothing is left."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Interruption:
    """Whether somebody wants an end of it: the first Ctrl-C or SIGTERM ends it in order."""

    def __init__(self) -> None:
        self.interrupted = False

    def __enter__(self) -> _Interruption:
        self._before = {
            number: signal.signal(number, self._interrupt)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _interrupt(self, *_: object) -> None:
        self.interrupted = True
