"""What so many trials could not have seen."""

from __future__ import annotations

import pytest

from ullage.stats.unseen import trials_to_see, unseen


@pytest.mark.parametrize(("trials", "share"), [(12, 0.2209), (59, 0.0495), (299, 0.00997)])
def test_the_rule_of_three_exactly(trials: int, share: float) -> None:
    assert unseen(trials) == pytest.approx(share, rel=1e-3)
    assert (1 - unseen(trials)) ** trials == pytest.approx(0.05)


def test_no_trial_sees_nothing() -> None:
    assert unseen(0) == 1.0


@pytest.mark.parametrize(("share", "trials"), [(0.02, 149), (0.05, 59), (0.5, 5), (0.999, 1)])
def test_the_fewest_that_see_it(share: float, trials: int) -> None:
    assert trials_to_see(share) == trials
    assert 1 - (1 - share) ** trials >= 0.95
    assert trials == 1 or 1 - (1 - share) ** (trials - 1) < 0.95


@pytest.mark.parametrize("trials", [1, 6, 12, 40, 1000])
def test_each_is_the_other_way_round(trials: int) -> None:
    assert trials_to_see(unseen(trials)) == trials


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1])
def test_a_share_lies_between_0_and_1(share: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        trials_to_see(share)
