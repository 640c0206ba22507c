"""Slices of two campaigns that also are programs of their own: changed journals and folders."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from collections.abc import Iterable
from typing import Final

from tests.lab.chaos import folders
from tests.lab.chaos.campaign import Campaign, Case, FaultFoundError, numbered

_FLIPS: Final = 10_000
_CHANGES: Final = 250
_NUMBER: Final = r"([\d,]+)"


def _journal_cases(seed: int) -> Iterable[str]:
    return numbered("flips", 10)


def _journal(case: Case) -> None:
    """Every truncation, and bits flipped, which the number of the slice draws."""
    draw = case.random.randrange(2**31)
    report = _printed(case, "tests.lab.chaos.journal", "--flips", str(_FLIPS), "--seed", str(draw))
    bad = sum(_counts(rf"{_NUMBER} (?:silent|tracebacks)", report))
    case.counts["flips"] += sum(_counts(rf"{_NUMBER} flipped bits", report))
    case.counts["truncations"] += sum(_counts(rf"every truncation \({_NUMBER}\)", report))
    if bad or not case.counts["flips"]:
        raise FaultFoundError(f"{bad} silent or tracebacks: {report[-400:]}")


def _folder_cases(seed: int) -> Iterable[str]:
    return numbered("changes", 400)


def _folders(case: Case) -> None:
    """Values changed in a folder's JSON; the number of the slice says which."""
    first = (case.seed * 1_000_000) + int(case.name.rpartition("-")[2]) * _CHANGES
    faults = folders.go(first, _CHANGES)
    case.counts["changes"] += _CHANGES
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    case.most("most_memory_mb", peak * 1024 / 1e6)
    if faults:
        whole = "\n".join(f"--first {fault.number} --count 1: {fault}" for fault in faults)
        raise FaultFoundError(whole)


def _printed(case: Case, module: str, *argv: str) -> str:
    """What the program printed, which has to end well."""
    program = [sys.executable, "-m", module, *argv]
    done = subprocess.run(program, capture_output=True, text=True, errors="replace", check=False)
    (case.place / "said").write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode != 0:
        raise FaultFoundError(f"{' '.join(argv)}: {(done.stdout + done.stderr)[-400:]}")
    return done.stdout


def _counts(pattern: str, text: str) -> list[int]:
    return [int(number.replace(",", "")) for number in re.findall(pattern, text)]


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
