"""The clock: strictly increasing, at about the cost of a counter read; and another clock's time.

Instants are whole nanoseconds. `now_ns`, `ordered_ns` and `stamp` read this process's own clock,
and `promise` says what may be expected of it here. `Synced` is the process's global clock: `lead`
makes this clock the global one, `learn` takes over what `synchronise_udp` found out about another;
`now` then costs no message, and says how wrong it may be. `Correction` says it better afterwards.

Two bounds go with every global instant: `bound_ns` holds in 99.9 % of all cases if the two ways of
a message are alike; `hard_ns` always, as long as the two oscillators keep within
`Drift.worst_ppb`. A bound that is None bounds nothing. `reasons` are names of `REASONS`.

What may go wrong here is an exception of this module: `ContradictionError`, `NoAnswerError`,
`ApartError`, or an `OSError` of the network. `docs/guide/clock.md` tells how to use it from
a shell.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ullage.common.clock_model import CounterFacts, CounterRate, Promise, Synchrony
from ullage.common.errors import CLOCK_BAD_DISTORTION, CLOCK_NOT_BUILT, UllageError

if TYPE_CHECKING:
    from ullage._clock import (
        ApartError,
        Client,
        ContradictionError,
        Correction,
        Counts,
        Drift,
        Fix,
        Global,
        Instant,
        NoAnswerError,
        Outcome,
        Pending,
        Reading,
        Rules,
        Served,
        Server,
        Standing,
        Synced,
        TcpServer,
        UdpServer,
        adopt,
        check,
        disruptions,
        facts_json,
        line,
        now_ns,
        ordered_ns,
        promise_json,
        rate_json,
        reason_meanings,
        refine_json,
        stamp,
        synchronise_tcp,
        synchronise_udp,
    )

    REASONS: Mapping[str, str]
    """Why a clock promises less than it could, or a time-stamp is worth less: name → meaning."""

VARIABLE: Final = "ULLAGE_CLOCK_DISTORT"
"""Makes the clock false on purpose, for experiments on one machine. The clock ignores a value that
it does not understand, so such a value is refused here."""
MOST_PPB: Final = 1_000_000
_MOST: Final = 2**63
"""Numbers are 64-bit integers."""


def check_distortion() -> None:
    """The same syntax as `rust/clock/src/distortion.rs`. CLOCK_BAD_DISTORTION."""
    text = os.environ.get(VARIABLE, "")
    if text and not _understood(text):
        raise UllageError(CLOCK_BAD_DISTORTION, variable=VARIABLE, found=repr(text))


def _understood(text: str) -> bool:
    numbers = [part.strip() for part in text.split(",")]
    if len(numbers) > 2 or not all(re.fullmatch("[+-]?[0-9]{1,30}", number) for number in numbers):
        return False
    ppb, *ahead = map(int, numbers)
    return abs(ppb) <= MOST_PPB and all(-_MOST <= ns < _MOST for ns in ahead)


__all__ = [
    "REASONS",
    "ApartError",
    "Client",
    "ContradictionError",
    "Correction",
    "CounterFacts",
    "CounterRate",
    "Counts",
    "Drift",
    "Fix",
    "Global",
    "Instant",
    "NoAnswerError",
    "Outcome",
    "Pending",
    "Promise",
    "Reading",
    "Rules",
    "Served",
    "Server",
    "Standing",
    "Synced",
    "Synchrony",
    "TcpServer",
    "UdpServer",
    "adopt",
    "check",
    "disruptions",
    "facts",
    "line",
    "now_ns",
    "ordered_ns",
    "promise",
    "rate",
    "refine",
    "stamp",
    "synchronise_tcp",
    "synchronise_udp",
]


_HIDDEN: Final = ("facts_json", "promise_json", "rate_json", "reason_meanings", "refine_json")


def require() -> None:
    """Load the extension module now. CLOCK_NOT_BUILT."""
    if "REASONS" in globals():
        return
    try:
        module = vars(import_module("ullage._clock"))
    except ImportError as error:
        raise UllageError(CLOCK_NOT_BUILT, reason=error) from error
    globals().update({name: module[name] for name in (*__all__, *_HIDDEN) if name in module})
    globals()["REASONS"] = MappingProxyType(dict(reason_meanings()))


if not TYPE_CHECKING:  # what needs no clock works where the extension module is not built

    def __getattr__(name: str) -> Any:
        if name in __all__:
            require()
        try:
            return globals()[name]
        except KeyError:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def facts() -> CounterFacts:
    """What was found out about this machine's counter. The first look takes about 25 ms."""
    require()
    return CounterFacts.model_validate_json(facts_json())


def promise() -> Promise:
    """What the clock promised at the start. `check` and `stamp` tell what has happened since."""
    require()
    return Promise.model_validate_json(promise_json())


def rate() -> CounterRate:
    """The rate in use now."""
    require()
    return CounterRate.model_validate_json(rate_json())


def refine() -> CounterRate:
    """Fit the counter's rate again, the later the better; used if it is better known. 2 ms."""
    require()
    return CounterRate.model_validate_json(refine_json())
