"""The n-th call of each kind fails, for every n of a small run; then `--resume`.

A disk that is full or broken and a process without descriptors are told in a sentence, cost no
finished trial, and leave nothing.
"""

from __future__ import annotations

import errno
import json
import random
import signal
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.lab.chaos.campaign import Campaign, Case
from tests.lab.chaos.controller import CALLS, FOR_EVER, GONE_S, Call, Fault
from tests.lab.chaos.studies import STUDY, AttackedStudy
from tests.lab.chaos.subjects import RESUMED_S, SMALL, Attacked, check_words, terminate
from ullage.experiments.elastic.report import page as elastic_page
from ullage.report import page

_FAULTS: Final[dict[Call, tuple[int, ...]]] = {
    "open": (errno.EIO, errno.EMFILE, errno.ENFILE),
    "create": (errno.ENOSPC, errno.EIO, errno.EMFILE),
    "write": (errno.ENOSPC, errno.EIO),
    "fsync": (errno.ENOSPC, errno.EIO),
    "rename": (errno.ENOSPC, errno.EIO),
    "mkdir": (errno.ENOSPC, errno.EIO),
    "fork": (errno.EAGAIN, errno.ENOMEM),
    "unlink": (errno.EIO, errno.EROFS),
    "truncate": (errno.EIO,),
    "socket": (errno.EMFILE,),
    "pipe": (errno.EMFILE,),
}
_KINDS: Final = ("native", "oci", "lxc", "elastic", "study")
_LUMP: Final = 8
"""Numbers of calls in one case."""
_OPENS: Final = 16
"""One lump in so many."""


def _cases(seed: int) -> Iterable[str]:
    """`native/write/8`: calls 9 to 16. Of files that are only read, which are thousands, a part.

    Those come last, and a kind of run after another: what was reached is whole kinds.
    """
    names = [
        f"{kind}/{call}/{first}"
        for kind in _KINDS
        for call, count in _counts(kind).items()
        for first in range(0, count, _LUMP * (_OPENS if call == "open" else 1))
    ]
    random.Random(seed).shuffle(names)
    return sorted(names, key=lambda name: ("/open/" in name, _KINDS.index(name.partition("/")[0])))


def _faults(case: Case) -> Iterable[Fault]:
    """How each fails, and whether all later ones do too, is drawn: another seed, another error."""
    _, call, first = case.name.split("/")
    kind = CALLS.index(next(known for known in CALLS if known == call))
    chance = case.random
    for number in range(int(first) + 1, int(first) + 1 + _LUMP):
        last = chance.choice((number, FOR_EVER))
        yield Fault(kind, number, last, chance.choice(_FAULTS[CALLS[kind]]))


def play(case: Case) -> None:
    """A run for each number of call."""
    _draw_no_pages()
    kind = case.name.partition("/")[0]
    for number, fault in enumerate(_faults(case)):
        place = case.place / str(number)
        place.mkdir()
        one = Case(case.name, case.seed, case.campaign, place, case.counts)
        try:
            _attack(_attacked(one, kind), fault)
        except Exception as error:
            raise AssertionError(f"{fault}: {error}") from error
        case.counts["faults"] += 1


def _draw_no_pages() -> None:
    """Pages are written as ever, but blank: to draw them takes two thirds of a run's CPU time."""
    for module in (page, elastic_page):
        module.render = lambda *_: "<!doctype html>\n" * 10_000  # type: ignore[attr-defined]


def _attacked(case: Case, kind: str) -> Attacked:
    """A small run of that kind."""
    return AttackedStudy(case, STUDY) if kind == STUDY.name else Attacked(case, SMALL[kind])


def _attack(attacked: Attacked, fault: Fault) -> None:
    controller = attacked.start(fault)
    if not controller.gone(RESUMED_S):
        terminate(controller, signal.SIGTERM, GONE_S)
        raise AssertionError(f"it hung, until it was told to end: {controller.stderr[-300:]}")
    attacked.see()
    check_words(controller)
    if controller.status not in range(128):
        raise AssertionError(f"it ended with {controller.status}: {controller.stderr[-300:]}")
    last = attacked.run_on()
    if last.status not in {0, 3}:
        raise AssertionError(f"`--resume` ended with {last.status}: {last.stderr[-400:]}")
    attacked.check_whole(failures=True)
    attacked.clean()  # a tear-down that failed after the last trial is not taken up again


@cache
def _counts(kind: str) -> dict[Call, int]:
    """Calls of each kind in an undisturbed run; kept, so that a seed's cases stay the same."""
    kept = Path("target/chaos/calls.json")
    known: dict[str, dict[Call, int]] = json.loads(kept.read_bytes()) if kept.exists() else {}
    if kind not in known:
        _draw_no_pages()
        with TemporaryDirectory(prefix="chaos-") as place:
            attacked = _attacked(Case(kind, 0, "calls", Path(place)), kind)
            counts = attacked.run_on().calls
        known[kind] = {call: counts[call] for call in CALLS}
        kept.write_text(json.dumps(known), encoding="utf-8")
    return known[kind]


CAMPAIGN: Final = Campaign(
    name="calls",
    figure="n-th call faults: ENOSPC, EIO, EMFILE, EAGAIN …",
    reach="every call of one small run of each kind; the same zeroes",
    cases=_cases,
    play=play,
)
