"""Coverage and false claims are counted right: right methods pass, wrong ones are found out."""

import math

import pytest

from benchmarks.statistics.injection import truth
from benchmarks.statistics.injection.recording import Recording
from tests.benchmarks.injection.records import Maker, Noise, wandering, white

CAMPAIGNS = 40


def with_blocks(noise: Noise, bias: dict[str, float] | None = None) -> Recording:
    maker = Maker(bias=bias)
    maker.blocks("blocks-0", 6 * CAMPAIGNS, noise)
    return maker.recording


def coverage(recording: Recording, factor: float) -> float:
    intervals = truth.intervals(recording)
    return truth.share(interval.holds for interval in intervals if interval.truth == factor).value


def error(p: float) -> float:
    """Three standard errors of a counted share."""
    return 3 * math.sqrt(p * (1 - p) / CAMPAIGNS)


@pytest.mark.parametrize("noise", [white(0.03, 1), wandering(0.01, 0.01, 2)], ids=["white", "walk"])
def test_intervals_hold_the_injected_factor(noise: Noise) -> None:
    recording = with_blocks(noise)
    assert len(truth.intervals(recording)) == 5 * CAMPAIGNS
    for factor in (1.05, 1.10, 1.25):
        assert coverage(recording, factor) >= 0.95 - error(0.95)


def test_a_truth_that_was_not_injected_is_not_held() -> None:
    recording = with_blocks(white(0.01, 3), bias={"x1.05": math.log(1.10 / 1.05)})
    assert coverage(recording, 1.05) < 0.1
    assert coverage(recording, 1.10) >= 0.95 - error(0.95)


def test_welch_one_after_the_other_loses_the_truth_where_the_machine_wanders() -> None:
    maker = Maker()
    maker.sequence("cpu-0", CAMPAIGNS, 18, wandering(0.01, 0.003, 4))
    drifting = truth.welch_holds(maker.recording)
    steady = Maker()
    steady.sequence("cpu-0", CAMPAIGNS, 18, white(0.01, 5))
    still = truth.welch_holds(steady.recording)
    assert drifting.of == still.of == CAMPAIGNS - 1
    assert still.value >= 0.95 - error(0.95)
    assert drifting.value < 0.8


def test_sequences_do_not_border_on_others() -> None:
    maker = Maker()
    for name in ("cpu-0", "cpu-1"):
        maker.sequence(name, 3, 18, white(0.01, 6))
    assert len(list(truth.borders(maker.recording))) == 4


def test_equal_environments_are_seldom_called_different() -> None:
    maker = Maker()
    maker.blocks("blocks-0", 6 * CAMPAIGNS, wandering(0.01, 0.02, 7))
    maker.sequence("cpu-0", CAMPAIGNS, 18, wandering(0.01, 0.02, 8))
    campaigns = truth.aa_campaigns(maker.recording)
    assert [campaign.claimed.of for campaign in campaigns] == [CAMPAIGNS] * 3
    for campaign in campaigns:
        assert campaign.claimed.value <= 0.05 + error(0.05)


def test_a_second_copy_that_is_slower_is_found_out() -> None:
    equal, divided, drawn = truth.aa_campaigns(made_biased())
    assert equal.claimed.value > 0.9
    assert divided.claimed.value <= 0.05 + error(0.05)
    assert drawn.claimed.of == 0


def made_biased() -> Recording:
    return with_blocks(white(0.01, 9), bias={"native~again": 0.05})
