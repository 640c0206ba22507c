"""SIGKILL to controllers, at random instants and random system calls; `--resume`, `clean`."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final

from tests.lab.chaos.campaign import Campaign, Case, numbered
from tests.lab.chaos.controller import FOR_EVER, WHICHEVER, Controller, Fault
from tests.lab.chaos.studies import STUDY, AttackedStudy
from tests.lab.chaos.subjects import SUBJECTS, Attacked

KILLS: Final = 10
"""Of one run."""
_CASES: Final = {
    "native": 60,
    "live": 15,
    "oci": 25,
    "lxc": 15,
    "qemu": 6,
    "elastic": 10,
    "study": 10,
}
_CALLS: Final = {
    "native": 900,
    "live": 900,
    "oci": 1500,
    "lxc": 1500,
    "qemu": 2500,
    "elastic": 1500,
    "study": 1800,
}
"""About as many system calls of those that are counted has a small run."""


def _cases(seed: int) -> Iterable[str]:
    """Kinds of run take turns, so that a slice has some of each."""
    names = [name for kind, count in _CASES.items() for name in numbered(kind, count)]
    random.Random(seed).shuffle(names)
    return names


def play(case: Case) -> None:
    """One run whose controllers are all killed but the last."""
    kind = case.name.rpartition("-")[0]
    study = kind == STUDY.name
    attacked = AttackedStudy(case, STUDY) if study else Attacked(case, SUBJECTS[kind])
    chance = case.random
    for _ in range(KILLS):
        if chance.random() < 0.5:
            controller = _killed_at_call(attacked, chance)
        else:
            controller = _killed_at_instant(attacked, chance)
        if controller.status == 137:
            case.counts["kills"] += 1
        attacked.see()
        if controller.status == 0:
            break
    if chance.random() < 0.5:
        attacked.clean()
    last = attacked.run_on()
    if last.status not in {0, 3}:
        raise AssertionError(f"`--resume` ended with {last.status}: {last.stderr[-400:]}")
    attacked.check_whole()
    attacked.check_nothing_left("after `--resume`")
    case.counts["runs"] += 1


def _killed_at_instant(attacked: Attacked, chance: random.Random) -> Controller:
    controller = attacked.start()
    controller.gone(chance.triangular(0.0, attacked.subject.usual_s, 0.0))
    if controller.status is None:
        controller.kill()
    return controller


def _killed_at_call(attacked: Attacked, chance: random.Random) -> Controller:
    number = chance.randint(1, _CALLS[attacked.subject.name])
    controller = attacked.start(Fault(WHICHEVER, number, FOR_EVER))
    controller.gone(20 * attacked.subject.usual_s)
    if controller.status is None:
        controller.kill()
    return controller


CAMPAIGN: Final = Campaign(
    name="kills",
    figure="random kills of controllers",
    reach="≥ 1,000 over all kinds of run; 0 lost, 0 doubled, 0 left, 0 hung",
    cases=_cases,
    play=play,
)
