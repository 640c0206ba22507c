"""Do the intervals hold the truth, and are equal environments called equal?

The recorded blocks are cut into campaigns, each of which the product analyses as a run of its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from benchmarks.statistics.injection.recording import Recording, Row, folder
from benchmarks.statistics.table import Share
from ullage.analysis.comparison.model import Comparison
from ullage.analysis.overhead import analyse
from ullage.runs.records import Resolved

THREE = 3
"""Trials that make a block of an A/A campaign out of a sequence: a baseline and two equal ones."""


@dataclass(frozen=True)
class CampaignInterval:
    """One comparison of one campaign."""

    campaign: str
    workload: str
    environment: str
    truth: float
    """The factor."""
    comparison: Comparison

    @property
    def holds(self) -> bool:
        """Is the truth inside the interval? Without an interval it is not."""
        interval = self.comparison.interval
        return interval is not None and interval.low <= self.truth <= interval.high

    @property
    def half_width(self) -> float | None:
        """Half of the interval's width, relative."""
        interval = self.comparison.interval
        return (interval.high - interval.low) / (2 * interval.estimate) if interval else None


def chunks(rows: Sequence[Row], blocks: int) -> Iterator[list[Row]]:
    """So many blocks in a row, again and again; what remains is left out."""
    numbers = sorted({row.block for row in rows})
    for first in range(0, len(numbers) - blocks + 1, blocks):
        of = set(numbers[first : first + blocks])
        yield [row for row in rows if row.block in of]


def intervals(recording: Recording) -> list[CampaignInterval]:
    """Every primary comparison of every campaign, A/A comparisons too."""
    comparisons = []
    for name, rows in recording.of("blocks"):
        resolved = recording.about.resolved[name]
        for number, chunk in enumerate(chunks(rows, recording.about.block)):
            truths = {row.environment: row.percent / 100 for row in chunk}
            analysis = analyse(folder(resolved, chunk))
            comparisons += [
                CampaignInterval(
                    f"{name}-{number}", c.workload, c.environment, truths[c.environment], c
                )
                for c in (*analysis.comparisons, *analysis.again)
                if c.primary
            ]
    return comparisons


def share(truths: Iterable[bool]) -> Share:
    """How many are true."""
    hits = list(truths)
    return Share(sum(hits), len(hits))


def welch_holds(recording: Recording, confidence: float = 0.95) -> Share:
    """Peer: Welch's interval of one stretch of a sequence against the one before it.

    As many trials on each side as a campaign has blocks, next to the border between the two.
    """
    n = recording.about.block
    covered = []
    for before, after in borders(recording):
        old, new = np.log(before[-n:]), np.log(after[:n])
        interval = stats.ttest_ind(new, old, equal_var=False).confidence_interval(confidence)
        covered.append(bool(interval.low <= 0 <= interval.high))
    return share(covered)


def borders(recording: Recording) -> Iterator[tuple[list[float], list[float]]]:
    """Neighbouring stretches of a sequence: seconds over the factor."""
    last: list[Row] = []
    for _, rows in recording.of("sequence"):
        ok = [row for row in rows if row.status == "ok"]
        if last and ok and follows(last[-1], ok[0]):
            yield nominal_seconds(last), nominal_seconds(ok)
        last = ok


def follows(first: Row, second: Row) -> bool:
    """Are they of the same sequence? Its runs are called `NAME/0`, `NAME/1` …"""
    return first.run.rpartition("/")[0] == second.run.rpartition("/")[0]


def nominal_seconds(rows: Iterable[Row]) -> list[float]:
    """Seconds over the factor, of the trials that went well: equal trials, if the truth is."""
    return [row.seconds * 100 / row.percent for row in rows if row.seconds is not None]


@dataclass(frozen=True)
class AACampaigns:
    """A/A campaigns of one kind."""

    kind: str
    claimed: Share
    """Campaigns in which any of two equal environments is called worse or better, after Holm."""


def aa_campaigns(recording: Recording, seed: int = 1) -> list[AACampaigns]:
    """Three kinds of A/A campaign: one workload, a baseline, two environments that equal it.

    In none of them does a noise floor help: the second copies are what is compared.
    """
    equal, divided, drawn = [], [], []
    for name, rows in recording.of("blocks"):
        resolved = recording.about.resolved[name]
        for chunk in chunks(rows, recording.about.block):
            for workload in recording.about.works:
                of_workload = [row for row in chunk if row.workload == workload]
                base = resolved.baseline
                same = [row for row in of_workload if row.percent == 100]
                equal.append(_any_claim(resolved, same))
                more = [_divided(row, base) for row in of_workload if row.percent != 100]
                divided.append(_any_claim(resolved, more))
    resolved = next(iter(recording.about.resolved.values()))
    for rows in _sequences(recording, seed):
        drawn.append(_any_claim(resolved, rows))
    return [
        AACampaigns("the baseline's second copy and ×1.00 against the baseline", share(equal)),
        AACampaigns("×1.10 and ×1.25 against ×1.05, each over its factor", share(divided)),
        AACampaigns("threes of successive trials of a sequence, parts drawn by lot", share(drawn)),
    ]


def _any_claim(resolved: Resolved, rows: Sequence[Row]) -> bool:
    analysis = analyse(folder(resolved, rows, again=()))
    return any(c.verdict in ("worse", "better") for c in analysis.primary())


def _divided(row: Row, baseline: str) -> Row:
    """A slowed trial as an equal one: ×1.05 plays the baseline, the others its two copies."""
    name = {105: baseline, 110: f"{baseline}~again", 125: "x1.00"}[row.percent]
    return _as(row, name, row.order)


def _as(row: Row, environment: str, order: int, block: int | None = None) -> Row:
    seconds = None if row.seconds is None else row.seconds * 100 / row.percent
    changed = {"environment": environment, "seconds": seconds, "order": order}
    return row.model_copy(update=changed | ({} if block is None else {"block": block}))


def _sequences(recording: Recording, seed: int) -> Iterator[list[Row]]:
    """Campaigns out of stretches of equal trials."""
    base = next(iter(recording.about.resolved.values())).baseline
    names = [base, f"{base}~again", "x1.00"]
    rng = random.Random(seed)
    for _, rows in recording.of("sequence"):
        size = THREE * recording.about.block
        for first in range(0, len(rows) - size + 1, size):
            campaign = []
            for block in range(recording.about.block):
                threes = rows[first + THREE * block : first + THREE * (block + 1)]
                rng.shuffle(names)
                campaign += [
                    _as(row, name, THREE * block + i, block)
                    for i, (row, name) in enumerate(zip(threes, names, strict=True))
                ]
            yield campaign
