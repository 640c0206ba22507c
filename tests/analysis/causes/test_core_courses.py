"""Cores over time: parts that have enough looks, and blocks for the terminal."""

from __future__ import annotations

import pytest

from ullage.analysis.causes.hotspots import LEAST_LOOKS, core_courses, steps
from ullage.runs.symbols import CoreOverTime, Symbols


def table(hz: int, parts: int, *cores: CoreOverTime, short_ns: int = 0) -> Symbols:
    """Of parts of half a second."""
    return Symbols(
        hz=hz,
        cpus=256,
        start_ns=0,
        end_ns=parts * 500_000_000 - short_ns,
        bound_ns=0,
        lost=0,
        rows=(),
        rest=0,
        bin_ns=500_000_000,
        cores_over_time=cores,
    )


def course(core: int, *samples: int, group: str = "programs") -> CoreOverTime:
    return CoreOverTime(core=core, group=group, samples=samples)


def test_a_table_of_an_older_run_tells_nothing() -> None:
    assert core_courses(table(49, 8)) is None


def test_parts_are_as_they_were_counted_where_looks_are_many() -> None:
    courses = core_courses(table(48, 3, course(1, 24, 12, 0), course(1, 0, 6, 6, group="vhost")))
    assert courses is not None
    assert courses.edges_s == (0.0, 0.5, 1.0, 1.5)
    assert courses.cores == {1: {"programs": (1.0, 0.5, 0.0), "vhost": (0.0, 0.25, 0.25)}}
    assert courses.busy(1) == [1.0, 0.75, 0.25]
    assert courses.mean(1) == pytest.approx(2 / 3)


@pytest.mark.parametrize(("hz", "parts", "merged"), [(3, 60, 7), (3, 15, 1), (3, 5, 1), (12, 9, 4)])
def test_parts_with_few_looks_are_put_together(hz: int, parts: int, merged: int) -> None:
    """What is left over is in the last one, so that none is shorter; and no sample is lost."""
    courses = core_courses(table(hz, parts, course(7, *[1] * parts)))
    assert courses is not None
    assert courses.parts == merged
    lengths = [b - a for a, b in zip(courses.edges_s, courses.edges_s[1:], strict=False)]
    assert all(hz * length >= min(LEAST_LOOKS, hz * parts / 2) for length in lengths)
    observed = [hz * a * b for a, b in zip(courses.busy(7), lengths, strict=True)]
    assert sum(observed) == pytest.approx(parts)


def test_the_last_part_is_as_long_as_it_is() -> None:
    courses = core_courses(table(48, 2, course(0, 24, 12), short_ns=250_000_000))
    assert courses is not None
    assert courses.edges_s == (0.0, 0.5, 0.75)
    assert courses.busy(0) == [1.0, 1.0]


def test_blocks() -> None:
    assert steps([0.0, 0.01, 0.124, 0.126, 0.5, 0.99, 1.0, 1.2]) == " ▁▁▂▅███"
