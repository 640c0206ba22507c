"""What was played of a seed: a line a case, so that a campaign goes on where it was stopped."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.lab.chaos.campaign import Campaign


@dataclass(frozen=True)
class Played:
    """How a case went."""

    campaign: str
    case: str
    counts: dict[str, int]
    seconds: float
    fault: str | None
    commit: str
    """Of what was attacked."""


class Ledger:
    """A file of them. The newest of a case counts."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.parent.mkdir(parents=True, exist_ok=True)

    def add(self, played: Played) -> None:
        """Write a line, at once."""
        line = json.dumps(asdict(played), ensure_ascii=False).encode() + b"\n"
        handle = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(handle, line)
        finally:
            os.close(handle)

    def of(self, campaign: str) -> dict[str, Played]:
        """Case → how it went last."""
        return {played.case: played for played in self._all() if played.campaign == campaign}

    def _all(self) -> Iterator[Played]:
        if self._file.exists():
            for line in self._file.read_text(encoding="utf-8").splitlines():
                yield Played(**json.loads(line))


def table(campaigns: Iterable[Campaign], ledger: Ledger, seed: int) -> str:
    """What was reached, as the docs have it."""
    lines = ["| figure | reach | reached | faults |", "|---|---|---|---|"]
    for campaign in campaigns:
        played = ledger.of(campaign.name)
        cases = sum(1 for _ in campaign.cases(seed))
        counts: Counter[str] = Counter()
        for case in played.values():
            for name, count in case.counts.items():
                most = name.startswith("most_")
                counts[name] = max(counts[name], count) if most else counts[name] + count
        figures = [f"{len(played):,} of {cases:,} cases"]
        figures += [
            f"{name.replace('_', ' ')}: {count:,}" for name, count in sorted(counts.items())
        ]
        faults = sum(case.fault is not None for case in played.values())
        lines.append(f"| {campaign.figure} | {campaign.reach} | {'; '.join(figures)} | {faults} |")
    return "\n".join(lines)
