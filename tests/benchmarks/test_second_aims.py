"""A row that a nearer aim was set for is judged by that one; a peer that is missing is said."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks import figures, second_aims
from benchmarks.elastic import viewers
from benchmarks.figures import Figure, aimed, needs
from benchmarks.records import read
from benchmarks.second_aims import SECOND_AIMS, SecondAim
from tests.support.packagelists import installed_by

TRIAL = Figure("seconds per trial, native", 0.01, "s", 0.009, 0.011, reach="at most 0.02 s")


def test_each_second_aim_is_of_a_row_that_is_recorded_or_named() -> None:
    recorded = {row.figure.name for row in read()}
    unseen = {
        "analysis, 1 × 5,000,000 pairs",
        "error right after, 2 ranks, shared memory, openmpi",
        "CPU time of 10^9 sessions",
    }
    for aim in SECOND_AIMS:
        assert any(second_aims.of(name) == aim for name in recorded | unseen), aim.rows


def test_both_aims_are_told_and_a_miss_of_the_second_is_a_miss() -> None:
    judged = aimed(replace(TRIAL, holds=True))
    assert (judged.reach, judged.holds) == ("at most 0.003 s", False)
    assert (judged.first, judged.first_holds) == ("at most 0.02 s", True)
    assert aimed(judged) == judged


@pytest.mark.parametrize(
    ("value", "low", "high", "holds"),
    [
        (0.002, 0.001, 0.0025, True),
        (0.002, 0.001, 0.0035, None),
        (0.004, 0.0031, 0.005, False),
        (0.003, None, None, True),
        (0.0031, None, None, False),
    ],
)
def test_the_whole_interval_is_on_the_aims_side(
    value: float, low: float | None, high: float | None, holds: bool | None
) -> None:
    row = replace(TRIAL, value=value, low=low, high=high, holds=True)
    assert aimed(row).holds is holds


def test_what_the_first_aim_did_not_judge_is_not_held_to_be_better() -> None:
    paced = Figure("paced viewers at once on one core", 400_000, "1", reach="at least 100,000")
    assert aimed(paced).holds is None
    assert aimed(replace(paced, holds=False)).holds is False
    assert aimed(replace(paced, holds=True)).holds is True
    assert aimed(replace(paced, value=math.nan)).holds is None
    pending = Figure("100,000 pending, x times: speed", 0.7, "×", 0.6, 0.9, reach="at least 0.8")
    assert aimed(pending).holds is False


def crowd(playing: int, broken: int = 0, why: str = "") -> viewers.ViewersRun:
    """A run of so many viewers."""
    summary = {
        "most_playing": playing,
        "violations": {"viewers": broken},
        "outcomes": {"failed": 0},
        "valid": not why,
        "why": [why],
        "lateness_s": {"p99": 1e-4},
        "shards": 6,
        "requests": 100,
        "seconds": 1.0,
        "cpu_share": 0.5,
    }
    return viewers.ViewersRun(summary, 0.0)


@pytest.mark.parametrize(
    ("more", "value", "holds"),
    [
        (None, 100_000, None),
        (crowd(300_000), 300_000, True),
        (crowd(300_000, broken=5), 299_995, False),
        (crowd(250_000), 250_000, False),
        (crowd(200_000, why="late"), 100_000, None),
    ],
)
def test_more_than_was_asked_for_is_not_judged(
    more: viewers.ViewersRun | None, value: int, holds: bool | None
) -> None:
    row = viewers.at_once(crowd(100_000), 1000, None if more is None else lambda: more)
    assert (row.value, row.holds) == (value, True)
    assert (aimed(row).holds, aimed(row).first_holds) == (holds, True)
    missed = viewers.at_once(crowd(90_000), 1000, lambda: pytest.fail("less did not hold"))
    assert (missed.value, aimed(missed).holds) == (90_000, False)


def test_a_row_without_a_second_aim_stays_as_it_is() -> None:
    row = Figure("agent binary", 1.0, "B", reach="at most 4000000 B", holds=True)
    assert aimed(row) is row


def test_words_are_those_of_the_issue() -> None:
    assert SecondAim("x", "at least", 300_000, besides="none with a violation").words == (
        "at least 300,000, none with a violation"
    )


@needs("no-such-peer", "sh")
def beside_a_peer(_quick: bool) -> Iterator[Figure]:
    raise AssertionError("the peer is missing")


def two_rows(_quick: bool) -> Iterator[Figure]:
    yield Figure("ours", 1.0, "s")
    raise OSError("its peer broke")


def test_a_benchmark_whose_peer_is_missing_says_so_and_the_others_go_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failed: list[str] = []
    rows = figures.rows_of_all(
        {"a.b": beside_a_peer, "a.c": two_rows, "a.d": beside_a_peer}, True, failed
    )
    figures.write((figure for _, figure in rows), as_json=True)
    missing, ours, again = json.loads(capsys.readouterr().out)
    assert missing["name"] == "benchmarks.test_second_aims"
    assert (missing["value"], missing["holds"]) == (None, None)
    assert missing["note"] == again["note"] == "not installed: no-such-peer"
    assert ours["value"] == 1.0
    assert failed == ["a.c"]


def test_the_peers_of_benchmarks_alone_are_installed_by_make_bench() -> None:
    assert {"netpipe-openmpi", "borgbackup", "restic", "nghttp2-client"} <= installed_by("bench")
