"""Slices of two campaigns that are also programs of their own: changed journals and folders."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tests.lab.chaos import folders, journal, memory
from tests.lab.chaos.campaign import Campaign, Case, FaultFoundError, numbered

_FLIPS: Final = 10_000
_CHANGES: Final = 1000


def _journal_cases(seed: int) -> Iterable[str]:
    return ["truncations-0", *numbered("flips", 10)]


def _journal(case: Case) -> None:
    """Every truncation, or bits flipped, which the number of the slice draws."""
    kind, _, _ = case.name.partition("-")
    number = _FLIPS if kind == "flips" else 0
    for attack in journal.attacks(number, case.random.randrange(2**31)):
        case.counts[kind] += attack.changes
        if attack.bad:
            raise FaultFoundError(str(attack))


def _folder_cases(seed: int) -> Iterable[str]:
    return numbered("changes", 100)


def _folders(case: Case) -> None:
    """Values changed in a folder's JSON; the number of the slice says which."""
    first = (case.seed * 1_000_000) + int(case.name.rpartition("-")[2]) * _CHANGES
    faults = folders.go(first, _CHANGES)
    case.counts["changes"] += _CHANGES
    case.most("most_memory_mb", memory.memory_bytes("VmHWM") / 1e6)
    if faults:
        whole = "\n".join(f"--first {fault.number} --count 1: {fault}" for fault in faults)
        raise FaultFoundError(whole)


JOURNAL: Final = Campaign(
    name="journal",
    figure="journal: every truncation, flipped bits",
    reach="10⁵ flips; 0 accepted silently, 0 tracebacks",
    cases=_journal_cases,
    play=_journal,
)
FOLDERS: Final = Campaign(
    name="folders",
    figure="valid-JSON changes of folders",
    reach="≥ 10⁵; 0 tracebacks, 0 hangs, ≤ 1 GB",
    cases=_folder_cases,
    play=_folders,
)
