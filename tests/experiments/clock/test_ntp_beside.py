"""chrony's clock and ours in one guest, judged by exchanges whose truth is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ullage.environments.agent.clock import WORST_PPB
from ullage.experiments.clock.ntp import beside, report
from ullage.experiments.clock.ntp.outcome import (
    ChronyOutput,
    ClocksBeside,
    IntervalOutcome,
    NtpOptions,
    NtpOutcome,
    NtpReport,
    PublishedNtp,
    evaluate,
)
from ullage.experiments.clock.ntp.series import ClockExchange, ClockReadings
from ullage.experiments.clock.reports import published
from ullage.host import clock

SECOND = 1_000_000_000
SLOW = -50e-6
"""The guest's oscillator: 50 ppm slow."""
APART_NS = 1_700_000_000 * SECOND
"""The host's CLOCK_REALTIME is ahead of its CLOCK_MONOTONIC by so much."""
OFF_NS = 30_000
"""chrony holds the guest's clock so far ahead of the host's."""
HALF_NS = 100_000
SETTLED_NS = 30 * SECOND
DATA = Path(__file__).parent / "data"


def readings(seconds: int = 60) -> ClockReadings:
    """100 a second: a raw clock that is slow, and two that chrony keeps at the host's rate."""
    true = np.arange(seconds * 100, dtype=np.int64) * 10_000_000
    raw = 10 * SECOND + np.round(true * (1 + SLOW)).astype(np.int64)
    mono = 7 * SECOND + true
    real = APART_NS + 20 * SECOND + OFF_NS + true
    return ClockReadings(raw, real, mono, np.full(len(raw), 2_000), np.full(len(raw), 1 - SLOW))


def exchanges(seconds: int = 60, wrong_ns: int = 0) -> list[ClockExchange]:
    """One each 5 s; the host's CLOCK_MONOTONIC began 20 s before the first reading."""
    outcome = []
    for true in range(5 * SECOND, seconds * SECOND, 5 * SECOND):
        guest_ns = 3 * SECOND + round(true * (1 + SLOW))
        fix = clock.Fix(
            local_ns=guest_ns,
            offset_ns=20 * SECOND + true - guest_ns + wrong_ns,
            half_ns=HALF_NS,
            sure_ns=HALF_NS,
            noise_ns=1_000,
            rtt_ns=2 * HALF_NS,
        )
        outcome.append(ClockExchange(20 * SECOND + true, 7 * SECOND + true, HALF_NS, fix))
    return outcome


def outcome_of(settled_ns: int | None) -> IntervalOutcome:
    """Recorded chrony's words; all that counts here is the oscillator and when it settled."""
    series = readings()
    tracking = (
        "0AD52F01,10.213.47.1,11,1795278508.066835684,0.000022604,-0.000017125,0.000192152,"
        "-49.691,-0.034,4.150,0.000366596,0.000092679,8.1,Normal\n"
    )
    words = ChronyOutput(
        tracking, (DATA / "tracking.log").read_text(), (DATA / "measurements.log").read_text()
    )
    outcome = evaluate(0, NtpOptions(), series, exchanges(), words)
    assert outcome.error_ppb == pytest.approx(SLOW * 1e9, abs=5)
    return outcome.model_copy(update={"settled_ns": settled_ns})


def compared() -> ClocksBeside:
    held = beside.compare(outcome_of(SETTLED_NS), readings(), exchanges(), APART_NS)
    assert held is not None
    return held


def test_both_are_judged_by_what_came_after_chrony_had_settled() -> None:
    held = compared()
    assert held.learned == 5
    assert held.from_ns == pytest.approx(30 * SECOND, abs=100)
    assert held.until_ns == pytest.approx(55 * SECOND, abs=100)
    assert {errors.judge_ns for errors in held.errors} == {HALF_NS}
    off = {errors.clock: errors.off for errors in held.errors}
    assert {name: sizes.count for name, sizes in off.items()} == {
        "chrony": 6, "once": 6, "learned": 6, "corrected": 5,
    }  # fmt: skip
    assert off["chrony"].max_ns == pytest.approx(OFF_NS, abs=5)
    # 50 ppm of the 25 to 50 s since the one exchange.
    assert off["once"].max_ns == pytest.approx(50_000 * 50, rel=1e-3)
    assert off["learned"].max_ns < 50
    assert off["corrected"].max_ns < 50


def test_ours_says_how_far_off_it_may_be() -> None:
    held = compared()
    assert [errors.clock for errors in held.errors if errors.bound_ns is None] == ["chrony"]
    bounds = {errors.clock: errors.bound_ns or 0.0 for errors in held.errors}
    assert min(bounds["once"], bounds["learned"], bounds["corrected"]) >= HALF_NS
    assert bounds["once"] > bounds["learned"], "without a rate the bound grows by the worst one"


@pytest.mark.parametrize("settled_ns", [None, 8 * SECOND, 52 * SECOND])
def test_what_was_not_watched_for_so_long_is_not_compared(settled_ns: int | None) -> None:
    """Never settled; one exchange before it; one after it."""
    assert beside.compare(outcome_of(settled_ns), readings(), exchanges(), APART_NS) is None


def test_exchanges_that_cannot_all_be_true_are_refused() -> None:
    wrong = [*exchanges()[:1], *exchanges(wrong_ns=60 * WORST_PPB)[1:]]
    with pytest.raises(clock.ContradictionError):
        beside.compare(outcome_of(SETTLED_NS), readings(), wrong, APART_NS)


def test_exchanges_that_cannot_be_true_cost_no_figure_of_chrony() -> None:
    wrong = [*exchanges()[:1], *exchanges(wrong_ns=60 * WORST_PPB)[1:]]
    outcome = outcome_of(SETTLED_NS)
    joined = beside.joined(outcome, readings(), wrong, APART_NS)
    assert joined.beside is None and joined.beside_why
    assert joined.model_copy(update={"beside_why": None}) == outcome
    assert IntervalOutcome.model_validate_json(joined.model_dump_json()) == joined
    unsettled = beside.joined(outcome_of(None), readings(), exchanges(), APART_NS)
    assert unsettled.beside_why == beside.UNSETTLED
    right = beside.joined(outcome, readings(), exchanges(), APART_NS)
    assert right.beside == compared()
    assert "beside_why" not in right.model_dump(mode="json")


@pytest.mark.parametrize("others", [0, 1])
def test_why_they_are_not_compared_is_shown(others: int) -> None:
    """Alone, and with an interval that is."""
    unsettled = beside.joined(outcome_of(None), readings(), exchanges(), APART_NS)
    right = beside.joined(outcome_of(SETTLED_NS), readings(), exchanges(), APART_NS)
    measured = NtpOutcome(
        options=NtpOptions(), counter_khz=2e6, server="s", versions={},
        intervals=[unsettled, *[right] * others],
    )  # fmt: skip
    kept = NtpReport(measured=measured, published=published("ntp", PublishedNtp))
    section = report.view(kept).sections[1]
    assert section.lines[-1].endswith(f"not compared: {beside.UNSETTLED}.")
    assert len(section.lines) == 1 + others


def test_it_is_kept_and_shown() -> None:
    outcome = outcome_of(SETTLED_NS)
    assert "beside" not in outcome.model_dump(mode="json"), "as records were before"
    with_ours = outcome.model_copy(update={"beside": compared()})
    assert IntervalOutcome.model_validate_json(with_ours.model_dump_json()) == with_ours
    for interval, titles in ((outcome, 2), (with_ours, 3)):
        measured = NtpOutcome(
            options=NtpOptions(), counter_khz=2e6, server="s", versions={}, intervals=[interval]
        )
        kept = NtpReport(measured=measured, published=published("ntp", PublishedNtp))
        assert len(report.view(kept).sections) == titles
    (shown,) = report.view(kept).sections[1].tables
    assert any("disciplined by chrony" in str(row) for row in shown.rows)
