"""Samples from a page in Prometheus's text exposition format."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from ullage.energy.base import FaultError


class Sample(NamedTuple):
    """What tells one series from the others."""

    metric: str
    labels: tuple[tuple[str, str], ...]
    """In the order of their names."""


def samples(page: str, metrics: Collection[str]) -> dict[Sample, float]:
    """The samples of these metrics; FaultError (`nonsense`) when they do not stand in the format.

    Other lines are left unread: a page has thousands of them, one for each process.
    """
    if not page.endswith("\n"):
        raise FaultError("nonsense", "the page ends in the middle of a line")
    lines = [line for line in page.split("\n") if _metric(line) in metrics]
    found: dict[Sample, float] = {}
    try:
        for family in text_string_to_metric_families("\n".join([*lines, ""])):
            for each in family.samples:
                sample = Sample(each.name, tuple(sorted(each.labels.items())))
                if sample in found:
                    raise FaultError("nonsense", f"{each.name} stands twice with equal labels")
                found[sample] = float(each.value)
    except (ValueError, IndexError, KeyError) as error:
        raise FaultError("nonsense", "a line that is not of the exposition format") from error
    return found


def _metric(line: str) -> str:
    """What the line begins with, up to its labels or value."""
    return line.partition("{")[0].split(" ", 1)[0].split("\t", 1)[0]
