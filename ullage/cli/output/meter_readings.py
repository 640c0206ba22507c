"""What a file of readings says between two instants, for `ullage meter`: energy, time, a fit."""

from __future__ import annotations

import csv
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from ullage.analysis.comparison import rounding
from ullage.analysis.energy import series
from ullage.analysis.energy.integral import Integral, Missing, integrate
from ullage.analysis.energy.series import ChannelSeries, Stretch
from ullage.common.console import print_json, stderr, stdout
from ullage.common.errors import (
    ENERGY_BAD_INSTANT,
    ENERGY_FILE_GONE,
    ENERGY_FILE_REPLACED,
    ENERGY_FIT_POOR,
    ENERGY_LOGGER_SEVERAL,
    ENERGY_LOGGER_UNKNOWN,
    ENERGY_NOT_KNOWN,
    ENERGY_READINGS_BAD,
    ENERGY_READINGS_NONE,
    UllageError,
)
from ullage.common.quantities import Delay, Seconds
from ullage.common.regular import LONGEST_LINE, open_regular
from ullage.common.sums import BrokenSumError, Chain
from ullage.common.text import clean, inert, one_line
from ullage.host import clock
from ullage.meters.energy import logger as background
from ullage.meters.energy.logger import Logger
from ullage.meters.energy.model import Coefficients
from ullage.meters.energy.model import fit as line
from ullage.plan.meters import LABEL
from ullage.runs.readings import Closed, Fault, Line, Opened, Reading
from ullage.runs.records import Channel, addable
from ullage.runs.writer import now_ns

CHANGED_S: Final = 1.0
"""The wall clock was set when it is so far from where it should be."""

SET_S: Final = 60.0
"""Two sessions of one boot differ by no more in how far the two clocks are apart."""

_DELAY: TypeAdapter[float] = TypeAdapter(Delay)
_NUMBER: Final = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")


@dataclass(frozen=True)
class Window:
    """A time between two instants of the clock of the readings, ns."""

    start_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True)
class ChannelEnergy:
    """One channel over one window."""

    channel: Channel
    window: Window
    energy: Integral | Missing


def instant(text: str, stretches: Sequence[Stretch]) -> int:
    """`+90s` after the first start, seconds since 1970, or ISO 8601; ENERGY_BAD_INSTANT.

    What is said by the wall clock is taken by what it showed when the meter was started: setting
    it later changes nothing.
    """
    first = stretches[0].opened
    if text.startswith("+"):
        try:
            return first.at_ns + round(_DELAY.validate_python(_plain(text[1:])) * 1e9)
        except ValidationError:
            reason = "after the plus stands a duration such as 500ms, 90s, 10m or 1h30m"
            raise UllageError(ENERGY_BAD_INSTANT, found=repr(text), reason=reason) from None
    epoch_ns = _epoch_ns(text)
    before = [s.opened for s in stretches if s.opened.epoch_ns <= epoch_ns]
    opened = before[-1] if before else first
    return max(0, opened.at_ns + epoch_ns - opened.epoch_ns)


def covered_span(stretches: Sequence[Stretch]) -> Window | None:
    """From the first reading to the last; None: there are not two."""
    instants = [reading.at_ns for stretch in stretches for reading in stretch.readings]
    if not instants or instants[0] >= instants[-1]:
        return None
    return Window(instants[0], instants[-1])


def span_s(stretches: Sequence[Stretch]) -> float:
    """How long was measured: from the first reading of each stretch to its last."""
    spans = [covered_span([stretch]) for stretch in stretches]
    return sum(span.seconds for span in spans if span is not None)


def energies(stretches: Sequence[Stretch], window: Window) -> list[ChannelEnergy]:
    """Each channel over all of the window."""
    return [
        ChannelEnergy(channel, window, _over(stretches, channel.name, window))
        for channel in _channels(stretches)
    ]


def energies_of_parts(stretches: Sequence[Stretch], window: Window) -> list[ChannelEnergy]:
    """Each channel over the parts of the window in which it is known."""
    parts = []
    for channel in _channels(stretches):
        for stretch in stretches:
            if any(channel.name == opened.name for opened in stretch.opened.channels):
                readings = series.series(stretch, channel.name)
                parts += [
                    ChannelEnergy(channel, covered, _integral(readings, covered))
                    for covered in _covered(readings, window)
                ]
    return [part for part in parts if isinstance(part.energy, Integral)]


def clock_set_by(stretches: Sequence[Stretch]) -> float:
    """Seconds by which the wall clock was set since the meter was started, on this same boot."""
    opened = stretches[-1].opened
    passed_ns, wall_ns = clock.ordered_ns() - opened.at_ns, now_ns() - opened.epoch_ns
    set_s = (wall_ns - passed_ns) / 1e9
    return set_s if passed_ns >= 0 and abs(set_s) >= CHANGED_S else 0.0


def read(file: Path) -> tuple[Stretch, ...]:
    """The stretches of a file, one at least. ENERGY_READINGS_NONE, ENERGY_READINGS_BAD."""
    stretches = series.read(file)
    if not stretches:
        reason = "it holds no readings" if file.exists() else "there is no such file"
        raise UllageError(ENERGY_READINGS_NONE, file=file, reason=reason)
    return stretches


def of_last_boot(stretches: Sequence[Stretch]) -> tuple[Stretch, ...]:
    """Those whose instants are of one clock: it begins anew when the machine does.

    It did when it stood lower than before, or when it and the wall clock are no longer as far apart
    as they were: somebody may also have set the wall clock, and then what came before is left out
    though it need not be.
    """
    if not stretches:
        return ()
    last = stretches[-1].opened
    same_clock: list[Stretch] = []
    for stretch in reversed(stretches):
        opened = stretch.opened
        apart = (last.epoch_ns - last.at_ns) - (opened.epoch_ns - opened.at_ns)
        if abs(apart) > SET_S * 1e9 or (same_clock and opened.at_ns > same_clock[-1].opened.at_ns):
            break
        same_clock.append(stretch)
    return tuple(reversed(same_clock))


def _over(stretches: Sequence[Stretch], name: str, window: Window) -> Integral | Missing:
    having = [s for s in stretches if any(c.name == name for c in s.opened.channels)]
    within = [s for s in having if (w := covered_span([s])) and w.start_ns <= window.start_ns]
    if not within:
        return Missing("before", f"{name} has no reading before its start")
    energy = _integral(series.series(within[-1], name), window)
    later = having.index(within[-1]) + 1 < len(having)
    if isinstance(energy, Missing) and energy.code == "after" and later:
        return Missing("gap", f"{name} was opened anew meanwhile")
    return energy


def _integral(readings: ChannelSeries, window: Window) -> Integral | Missing:
    return integrate(readings, window.start_ns, window.end_ns)


def _covered(readings: ChannelSeries, window: Window) -> list[Window]:
    """The window without what is cut out, and not beyond the readings."""
    if readings.at_ns.size == 0:
        return []
    start = max(window.start_ns, int(readings.at_ns[0]))
    end = min(window.end_ns, int(readings.at_ns[-1]))
    covered = []
    for cut in readings.cuts:
        if start < min(cut.start_ns, end):
            covered.append(Window(start, min(cut.start_ns, end)))
        start = max(start, cut.end_ns)
    return [*covered, Window(start, end)] if start < end else covered


def _channels(stretches: Sequence[Stretch]) -> list[Channel]:
    """Every channel of the file, as it was last."""
    by_name = {channel.name: channel for s in stretches for channel in s.opened.channels}
    return list(by_name.values())


def _epoch_ns(text: str) -> int:
    if _NUMBER.fullmatch(text):
        return int(Decimal(text).scaleb(9))
    try:
        return int(Decimal(datetime.fromisoformat(text).timestamp()) * 10**9)
    except (ValueError, OverflowError, OSError) as error:
        raise UllageError(ENERGY_BAD_INSTANT, found=repr(text), reason=error) from None


def _plain(text: str) -> str | float:
    return float(text) if _NUMBER.fullmatch(text) else text


_SECONDS: TypeAdapter[float] = TypeAdapter(Seconds)


def fitted_model(power: Path, load: Path, window: str) -> Coefficients:
    """Mean power and mean load of each window in which both are known, and the line through them.

    ENERGY_FIT_POOR, ENERGY_READINGS_NONE, ENERGY_READINGS_BAD.
    """
    try:
        seconds = _SECONDS.validate_python(window)
    except ValidationError as error:
        reason = "a duration such as 5s"
        raise UllageError(ENERGY_BAD_INSTANT, found=repr(window), reason=reason) from error
    files = [of_last_boot(read(file)) for file in (power, load)]
    for stretch in files[1]:
        if not _is_load(stretch):
            reason = f"{load} is no load: record one with `ullage meter start model --option "
            raise UllageError(
                ENERGY_FIT_POOR, reason=f"{reason}idle_watts=0 --option core_watts=1`"
            )
    spans = [covered_span(stretches) for stretches in files]
    pairs: list[tuple[float, float]] = []
    scopes = {c.scope for stretch in files[0] for c in stretch.opened.channels}
    methods = {c.method for stretch in files[0] for c in stretch.opened.channels}
    if len(scopes) != 1 or methods != {"measured"} or not scopes <= {"wall", "package"}:
        words = ", ".join(sorted(scopes | methods)) or "no channel"
        reason = f"{power} has {words}: it needs what one instrument measures, at the wall or of"
        raise UllageError(ENERGY_FIT_POOR, reason=f"{reason} packages")
    if spans[0] is not None and spans[1] is not None:
        for part in _windows(spans[0], spans[1], seconds):
            means = [_mean_w(stretches, part) for stretches in files]
            if means[0] is not None and means[1] is not None:
                pairs.append((means[0], means[1]))
    scope = scopes.pop()
    source = files[0][-1].opened.channels[0].source
    watts, cpus = [p for p, _ in pairs], [c for _, c in pairs]
    return line(watts, cpus, "wall" if scope == "wall" else "package", source)


def _is_load(stretch: Stretch) -> bool:
    """A watt of it is a busy CPU."""
    opened, stated = stretch.opened, stretch.opened.options
    watts = (stated.get("idle_watts"), stated.get("core_watts"))
    return opened.meter == "model" and watts == (0, 1)


def _windows(power: Window, load: Window, seconds: float) -> Iterator[Window]:
    """The time that both have, cut into windows."""
    step = round(seconds * 1e9)
    start, end = max(power.start_ns, load.start_ns), min(power.end_ns, load.end_ns)
    for at in range(start, end - step + 1, step):
        yield Window(at, at + step)


def _mean_w(stretches: tuple[Stretch, ...], window: Window) -> float | None:
    """Of all channels together; None where one of them is not known."""
    first = stretches[0].opened.channels[0]
    adding = addable(stretches[-1].opened.channels, first.scope, first.method)
    parts = [e.energy for e in energies(stretches, window) if e.channel in adding]
    watts = [part.mean_w for part in parts if isinstance(part, Integral)]
    return sum(watts) if len(watts) == len(parts) else None


OutputForm = Literal["text", "csv", "json"]
COLUMNS: Final = ("time", "at_ns", "within_ns", "channel", "value", "unit", "fault", "message")
_UNITS: Final = {"power": "W", "energy": "J"}
_POLL_S: Final = 0.2
_LINE: TypeAdapter[Line] = TypeAdapter(Line)


def print_log(file: Path, form: OutputForm, logger: Logger | None, *, follow: bool) -> None:
    """The readings; with `follow` also what comes, until it is closed or its logger has died."""
    writer = csv.writer(sys.stdout)
    if form == "csv":
        writer.writerow(COLUMNS)
    opened: Opened | None = None
    chain = Chain()
    for number, text in enumerate(_lines(file, logger, follow=follow), start=1):
        if form == "json":
            sys.stdout.write(f"{one_line(text.decode(errors='replace'))}\n")
            line = None
        else:
            line = _parse(file, number, text, chain)
        if isinstance(line, Opened):
            opened = line
        if line is not None and opened is not None:
            if form == "csv":
                writer.writerows(map(inert, row) for row in _rows(line, opened))
            elif words := _words(line, opened):
                sys.stdout.write(f"{one_line(words)}\n")
        if follow:
            sys.stdout.flush()


def _lines(file: Path, logger: Logger | None, *, follow: bool) -> Iterator[bytes]:
    """ENERGY_READINGS_BAD for what is no file, ENERGY_FILE_REPLACED."""
    torn, closed = b"", False
    with _opened(file) as stream:
        while True:
            # Before it is read: what an ended logger wrote is in the file by now.
            _same(file, stream)
            ending = not follow or (logger is not None and not logger.alive)
            while piece := stream.readline(LONGEST_LINE):
                torn += piece
                if len(torn) > LONGEST_LINE:
                    raise _bad(file, 0, "a line of it is longer than any of a meter")
                if torn.endswith(b"\n"):
                    closed = b'"event":"closed"' in torn
                    yield torn[:-1]
                    torn = b""
            if ending or (logger is None and closed):
                return
            time.sleep(_POLL_S)


def _opened(file: Path) -> IO[bytes]:
    try:
        return open_regular(file.resolve())
    except FileNotFoundError as error:
        reason = "there is no such file"
        raise UllageError(ENERGY_READINGS_NONE, file=file, reason=reason) from error
    except OSError as error:
        raise _bad(file, 0, error.strerror or str(error)) from error


def _bad(file: Path, number: int, reason: str) -> UllageError:
    return UllageError(ENERGY_READINGS_BAD, path=file, line=number, reason=reason)


def _same(file: Path, stream: IO[bytes]) -> None:
    """ENERGY_FILE_REPLACED: another has the name now, or what was read is no longer in it."""
    read = os.fstat(stream.fileno())
    with suppress(FileNotFoundError):  # a file without its name is still the same
        if not os.path.samestat(file.stat(), read) or read.st_size < stream.tell():
            raise UllageError(ENERGY_FILE_REPLACED, file=file)


def _parse(file: Path, number: int, text: bytes, chain: Chain) -> Line:
    try:
        return _LINE.validate_json(chain.opened(text))
    except (ValidationError, BrokenSumError) as error:
        raise _bad(file, number, "it is no line of a meter") from error


def _units(opened: Opened) -> dict[str, str]:
    """By channel; a reading may name one that its meter has not."""
    return {channel.name: _UNITS[channel.kind] for channel in opened.channels}


def _rows(line: Line, opened: Opened) -> Iterator[tuple[object, ...]]:
    if isinstance(line, Reading):
        units = _units(opened)
        for name, value in line.values.items():
            unit, when = units.get(name, ""), _time(line.at_ns, opened)
            yield when, line.at_ns, line.within_ns, name, value, unit, "", ""
    elif isinstance(line, Fault):
        when, message = _time(line.at_ns, opened), clean(line.message)
        yield when, line.at_ns, "", "", "", "", clean(line.code), message


def _words(line: Line, opened: Opened) -> str | None:
    when = _time(line.at_ns, opened)
    match line:
        case Opened():
            names = ", ".join(channel.name for channel in line.channels)
            return f"{when}  {clean(line.meter)} opened: {names}"
        case Reading():
            units = _units(opened)
            values = (f"{n} {v:.10g} {units.get(n, '')}".rstrip() for n, v in line.values.items())
            return f"{when}  {'  '.join(values)}"
        case Fault():
            return f"{when}  fault: {clean(line.code)}: {clean(line.message)}"
        case Closed():
            return f"{when}  closed"


def _time(at_ns: int, opened: Opened) -> str:
    """UTC, by the wall clock as it stood when the meter was opened."""
    epoch_ns = opened.epoch_ns + at_ns - opened.at_ns
    return f"{datetime.fromtimestamp(epoch_ns / 1e9, UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def logger_named(name: str | None) -> Logger:
    """The logger of that name, or the only one. ENERGY_LOGGER_UNKNOWN, ENERGY_LOGGER_SEVERAL."""
    loggers = background.loggers()
    matching = [logger for logger in loggers if name in (None, logger.name)]
    if len(matching) == 1:
        return matching[0]
    names = ", ".join(logger.name for logger in loggers)
    if name is None and loggers:
        raise UllageError(ENERGY_LOGGER_SEVERAL, known=names, first=loggers[0].name)
    fault = "there is no logger" if name is None else f"no logger and no file is named {name}"
    raise UllageError(ENERGY_LOGGER_UNKNOWN, what=fault, known=names or "none")


def source(name: str | None) -> tuple[Path, Logger | None]:
    """A file of readings, and who writes it. name: of a logger, or of a file."""
    file = Path(name) if name is not None else None
    if file is not None and not LABEL.fullmatch(str(name)):
        return file, None
    names = [logger.name for logger in background.loggers()]
    if file is not None and name not in names and file.exists():
        return file, None
    logger = logger_named(name)
    return logger.file, logger


def stretches_of(file: Path, logger: Logger | None = None) -> tuple[Stretch, ...]:
    """The stretches of a file that has some.

    ENERGY_FILE_GONE where a logger writes it, ENERGY_READINGS_NONE, ENERGY_READINGS_BAD.
    """
    if logger is not None and logger.file_gone:
        state = "still runs" if logger.alive else f"died: {death(logger)}"
        raise UllageError(ENERGY_FILE_GONE, name=logger.name, what=state, file=file)
    stretches = read(file)
    newest = of_last_boot(stretches)
    if (earlier := len(stretches) - len(newest)) > 0:
        stderr.print(
            f"[cyan]note:[/] {earlier} of {len(stretches)} sessions are of another boot, or of "
            "before the clock was set, and are left out"
        )
    return newest


def window_of(
    file: Path, stretches: tuple[Stretch, ...], start: str | None, end: str | None
) -> Window:
    covered = covered_span(stretches)
    if covered is None:
        raise UllageError(ENERGY_NOT_KNOWN, what=file, reason="there are not two readings yet")
    window = Window(
        covered.start_ns if start is None else instant(start, stretches),
        covered.end_ns if end is None else instant(end, stretches),
    )
    if window.start_ns >= window.end_ns:
        raise UllageError(ENERGY_NOT_KNOWN, what=file, reason="it ends before it starts")
    return window


def warn_if_clock_was_set(stretches: tuple[Stretch, ...], logger: Logger | None) -> None:
    """Only of a logger that runs: its clock is this machine's, since this boot."""
    if logger is not None and logger.alive and (by := clock_set_by(stretches)):
        stderr.print(
            f"[yellow]warning:[/] this machine's time was set by {by:+.1f} s since {logger.name} "
            "began; instants are taken as its clock went on from then: better use `+90s`",
            soft_wrap=True,
        )


def show_energies(parts: list[ChannelEnergy], *, as_json: bool) -> None:
    if as_json:
        print_json([_as_json(part) for part in parts])
    for part in parts:
        if not as_json and not isinstance(part.energy, Missing):
            stdout.print(_line(part.channel, part.energy), soft_wrap=True)


def refuse_unknown(parts: list[ChannelEnergy]) -> None:
    """ENERGY_NOT_KNOWN where a channel has no energy, and why."""
    for part in parts:
        if isinstance(part.energy, Missing):
            reason = f"{part.energy.code}: {part.energy.message}"
            raise UllageError(ENERGY_NOT_KNOWN, what=part.channel.name, reason=reason)


def _line(channel: Channel, energy: Integral) -> str:
    """`wall: 1234.5 J ± 1.2 J, 61.2 W over 20.163 s`."""
    low, high = energy.joules - energy.expanded, energy.joules + energy.expanded
    digits = rounding.decimals(low, high)
    half = f" ± {energy.expanded:.{digits}f} J" if energy.expanded else ""
    caution = "" if channel.accuracy is not None else "; the meter's accuracy is not known"
    method = "" if channel.method == "measured" else f" ({channel.method})"
    return (
        f"{channel.name}: {energy.joules:.{digits}f} J{half}{method}, "
        f"{energy.mean_w:.4g} W over {energy.window_s:.3f} s{caution}"
    )


def _as_json(part: ChannelEnergy) -> dict[str, Any]:
    energy = part.energy
    document: dict[str, Any] = {
        "channel": part.channel.name,
        "method": part.channel.method,
        "scope": part.channel.scope,
        "from_ns": part.window.start_ns,
        "to_ns": part.window.end_ns,
        "seconds": part.window.seconds,
    }
    if isinstance(energy, Missing):
        reason = {"code": energy.code, "message": energy.message}
        return {**document, "joules": None, "reason": reason}
    return {
        **document,
        "joules": energy.joules,
        "half_width_joules": energy.expanded,
        "u_sampling": energy.u_sampling,
        "u_resolution": energy.u_resolution,
        "u_accuracy": energy.u_accuracy if part.channel.accuracy is not None else None,
        "mean_watts": energy.mean_w,
        "readings": energy.readings,
    }


def logger_json(logger: Logger) -> dict[str, Any]:
    state = {"alive": logger.alive, "file_gone": logger.file_gone}
    return {**logger.model_dump(mode="json"), **state}


def death(logger: Logger) -> str:
    return logger.ended or "it was killed, or the machine went down"
