"""What `ullage meter …` does: data on standard output, messages on standard error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.markup import escape

from ullage import energy as meters
from ullage import meterfile, meterlog
from ullage.analysis import rounding
from ullage.analysis.energy.integrate import Missing
from ullage.analysis.energy.series import Stretch
from ullage.console import stderr, stdout
from ullage.energy import background
from ullage.energy.background import Logger
from ullage.energy.chosen import chosen
from ullage.energy.finding import Found, look
from ullage.energy.plan import LABEL
from ullage.errors import (
    ENERGY_FILE_GONE,
    ENERGY_LOGGER_BAD_NAME,
    ENERGY_LOGGER_SEVERAL,
    ENERGY_LOGGER_UNKNOWN,
    ENERGY_NOT_KNOWN,
    ExitCode,
    UllageError,
)
from ullage.meterfile import Measured, Window
from ullage.resultscli import print_json

_MARKS = {"readable": "green", "ask": "cyan", "absent": "yellow", "denied": "red"}


def list_all(*, as_json: bool) -> None:
    """All meters, tried with their defaults where they have them; and the loggers."""
    found = look(meters.ENERGY_METERS)
    loggers = background.loggers()
    if as_json:
        print_json(
            {
                "meters": [each.as_json() for each in found],
                "loggers": [_logger(each) for each in loggers],
            }
        )
        return
    for each in found:
        _show_meter(each)
    for logger in loggers:
        state = "" if logger.alive else f", died: {_death(logger)}"
        if logger.file_gone:
            state += ", but that file is gone: it was removed or moved"
        stdout.print(
            escape(
                f"logger {logger.name}: {logger.meter} since {logger.since} into "
                f"{logger.file}{state}"
            ),
            soft_wrap=True,
        )


def _show_meter(found: Found) -> None:
    stdout.print(
        f"[{_MARKS[found.state]}]{found.state:<8}[/] {found.name:<10} {escape(found.summary)}",
        soft_wrap=True,
    )
    stdout.print(f"{'':20}{escape(found.detail)}", soft_wrap=True)
    if found.hint:
        stdout.print(f"{'':20}[cyan]hint:[/] {escape(found.hint)}", soft_wrap=True)


def start(meter: str, file: Path, options: list[str], *, name: str, as_json: bool) -> None:
    """Begin to read in the background."""
    if not LABEL.fullmatch(name):
        raise UllageError(ENERGY_LOGGER_BAD_NAME, found=repr(name))
    before = background.find(name)
    planned = chosen(name, meter, options)
    logger = background.start(name, planned, file.absolute())
    if caution := planned.make().caution():
        stderr.print(
            f"[yellow]warning:[/] {escape(f'{name} ({meter}): {caution}')}", soft_wrap=True
        )
    if before is not None and not before.alive:
        stderr.print(
            f"[yellow]warning:[/] the logger {name} of before died: "
            f"{escape(f'{_death(before)}; its readings are in {before.file}')}",
            soft_wrap=True,
        )
    if as_json:
        print_json(_logger(logger))
        return
    stderr.print(
        escape(
            f"{name} reads {meter} every {logger.every_s:g} s into {logger.file}; "
            f"`ullage meter stop {name}` ends it"
        ),
        soft_wrap=True,
    )


def log(which: str | None, *, form: meterlog.Form, follow: bool) -> None:
    """The readings of a logger or a file."""
    file, logger = _file(which)
    _some(file, logger)
    meterlog.show(file, form, logger if follow else None, follow=follow)


def energy(
    which: str | None, start: str | None, end: str | None, *, parts: bool, as_json: bool
) -> int:
    """The energy between two instants; the exit code."""
    file, logger = _file(which)
    stretches = _some(file, logger)
    if any(text is not None and not text.startswith("+") for text in (start, end)):
        _say_if_clock_was_set(stretches, logger)
    window = _window(file, stretches, start, end)
    if parts:
        _show(known := meterfile.parts(stretches, window), as_json=as_json)
        if known:
            return ExitCode.DONE
        _refuse_unknown(meterfile.measured(stretches, window))
    found = meterfile.measured(stretches, window)
    _show(found, as_json=as_json)
    _refuse_unknown(found)
    return ExitCode.DONE


def elapsed(which: str | None, *, as_json: bool) -> None:
    """How long was measured."""
    stretches = _some(*_file(which))
    seconds = meterfile.seconds(stretches)
    if as_json:
        readings = sum(len(each.readings) for each in stretches)
        faults = sum(len(each.faults) for each in stretches)
        print_json({"seconds": seconds, "readings": readings, "faults": faults})
    else:
        stdout.print(f"{seconds:.3f} s")


def stop(which: str | None, *, as_json: bool) -> int:
    """End a logger, and say what it saw; the exit code."""
    logger = _named(which)
    alive = background.stop(logger)
    if logger.file_gone:
        what = "was stopped" if alive else f"had died before: {_death(logger)}"
        raise UllageError(ENERGY_FILE_GONE, name=logger.name, what=what, file=logger.file)
    if not alive:
        stderr.print(
            f"[yellow]warning:[/] {logger.name} had died before: "
            f"{escape(f'{_death(logger)}; what it had written is in {logger.file}')}",
            soft_wrap=True,
        )
    stretches = _some(logger.file)
    window = meterfile.covered(stretches)
    if window is None:
        raise UllageError(ENERGY_NOT_KNOWN, what=logger.name, reason="there are not two readings")
    found = meterfile.measured(stretches, window)
    _show(found, as_json=as_json)
    if not as_json:
        stdout.print(f"time: {meterfile.seconds(stretches):.3f} s")
    _refuse_unknown(found)
    return ExitCode.DONE if alive else ExitCode.GATE_FAILED


def fit(power: Path, load: Path, *, window: str) -> None:
    """Coefficients for the meter `model`, from two files of the same time."""
    from ullage import meterfit  # noqa: PLC0415

    print(meterfit.fit(power, load, window).model_dump_json(indent=1))


# --- which ----------------------------------------------------------------------------------------
def _named(name: str | None) -> Logger:
    """The logger of that name, or the only one. ENERGY_LOGGER_UNKNOWN, ENERGY_LOGGER_SEVERAL."""
    known = background.loggers()
    found = [each for each in known if name in (None, each.name)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(each.name for each in known)
    if name is None and known:
        raise UllageError(ENERGY_LOGGER_SEVERAL, known=names, first=known[0].name)
    what = "there is no logger" if name is None else f"no logger and no file is named {name}"
    raise UllageError(ENERGY_LOGGER_UNKNOWN, what=what, known=names or "none")


def _file(which: str | None) -> tuple[Path, Logger | None]:
    """A file of readings, and who writes it."""
    file = Path(which) if which is not None else None
    if file is not None and not LABEL.fullmatch(str(which)):
        return file, None
    known = [each.name for each in background.loggers()]
    if file is not None and which not in known and file.exists():
        return file, None
    logger = _named(which)
    return logger.file, logger


def _some(file: Path, logger: Logger | None = None) -> tuple[Stretch, ...]:
    """The stretches of a file that has some.

    ENERGY_FILE_GONE where a logger writes it, ENERGY_READINGS_NONE, ENERGY_READINGS_BAD.
    """
    if logger is not None and logger.file_gone:
        what = "still runs" if logger.alive else f"died: {_death(logger)}"
        raise UllageError(ENERGY_FILE_GONE, name=logger.name, what=what, file=file)
    stretches = meterfile.read(file)
    kept = meterfile.of_last_boot(stretches)
    if len(kept) < len(stretches):
        left = len(stretches) - len(kept)
        stderr.print(
            f"[cyan]note:[/] {left} of {len(stretches)} sessions are of another boot, or of before "
            "the clock was set; told is what came afterwards"
        )
    return kept


def _window(
    file: Path, stretches: tuple[Stretch, ...], start: str | None, end: str | None
) -> Window:
    covered = meterfile.covered(stretches)
    if covered is None:
        raise UllageError(ENERGY_NOT_KNOWN, what=file, reason="there are not two readings yet")
    window = Window(
        covered.start_ns if start is None else meterfile.instant(start, stretches),
        covered.end_ns if end is None else meterfile.instant(end, stretches),
    )
    if window.start_ns >= window.end_ns:
        raise UllageError(ENERGY_NOT_KNOWN, what=file, reason="it ends before it starts")
    return window


def _say_if_clock_was_set(stretches: tuple[Stretch, ...], logger: Logger | None) -> None:
    """Only of a logger that runs: its clock is this machine's, since this boot."""
    if logger is not None and logger.alive and (by := meterfile.clock_set_by(stretches)):
        stderr.print(
            f"[yellow]warning:[/] this machine's time was set by {by:+.1f} s since {logger.name} "
            "began; instants are taken as its clock went on from then: better use `+90s`",
            soft_wrap=True,
        )


# --- shown ----------------------------------------------------------------------------------------
def _show(found: list[Measured], *, as_json: bool) -> None:
    """What is known."""
    if as_json:
        print_json([_measured(each) for each in found])
    for each in found:
        if not as_json and not isinstance(each.energy, Missing):
            stdout.print(_line(each), soft_wrap=True)


def _refuse_unknown(found: list[Measured]) -> None:
    """ENERGY_NOT_KNOWN where a channel has no energy, and why."""
    for each in found:
        if isinstance(each.energy, Missing):
            what, reason = each.channel.name, f"{each.energy.code}: {each.energy.message}"
            raise UllageError(ENERGY_NOT_KNOWN, what=what, reason=reason)


def _line(found: Measured) -> str:
    """`wall: 1234.5 J ± 1.2 J, 61.2 W over 20.163 s`."""
    energy = found.energy
    assert not isinstance(energy, Missing)
    low, high = energy.joules - energy.expanded, energy.joules + energy.expanded
    digits = rounding.decimals(low, high)
    half = f" ± {energy.expanded:.{digits}f} J" if energy.expanded else ""
    told = "" if found.channel.accuracy is not None else "; the meter's accuracy is not known"
    how = "" if found.channel.method == "measured" else f" ({found.channel.method})"
    return (
        f"{found.channel.name}: {energy.joules:.{digits}f} J{half}{how}, "
        f"{energy.mean_w:.4g} W over {energy.window_s:.3f} s{told}"
    )


def _measured(found: Measured) -> dict[str, Any]:
    energy = found.energy
    told: dict[str, Any] = {
        "channel": found.channel.name,
        "method": found.channel.method,
        "scope": found.channel.scope,
        "from_ns": found.window.start_ns,
        "to_ns": found.window.end_ns,
        "seconds": found.window.seconds,
    }
    if isinstance(energy, Missing):
        return {**told, "joules": None, "reason": {"code": energy.code, "message": energy.message}}
    return {
        **told,
        "joules": energy.joules,
        "half_width_joules": energy.expanded,
        "u_sampling": energy.u_sampling,
        "u_resolution": energy.u_resolution,
        "u_accuracy": energy.u_accuracy if found.channel.accuracy is not None else None,
        "mean_watts": energy.mean_w,
        "readings": energy.readings,
    }


def _logger(logger: Logger) -> dict[str, Any]:
    state = {"alive": logger.alive, "file_gone": logger.file_gone}
    return {**logger.model_dump(mode="json"), **state}


def _death(logger: Logger) -> str:
    return logger.ended or "it was killed, or the machine went down"
