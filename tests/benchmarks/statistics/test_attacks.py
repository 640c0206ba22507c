"""Attacks hurt as they say, and what is counted is what the product says of a run."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.statistics.attacks import counts
from benchmarks.statistics.attacks import figures as attack_figures
from benchmarks.statistics.attacks.counts import Struck, false
from benchmarks.statistics.attacks.folders import Layout, folder
from benchmarks.statistics.attacks.regimes import ATTACKS, E0, Attack
from benchmarks.statistics.attacks.tables import doubts, unheard
from benchmarks.statistics.table import Share
from ullage.analysis import overhead
from ullage.stats import Verdict

WIDE = Layout(1, 400, 12)
BIASED = {"coarse", "biased baseline", "slowest"}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_the_truth_is_that_of_geometric_means(attack: Attack) -> None:
    """Loss, rounding and a slot's own slowness are what hides it; nothing else moves the mean."""
    times, lost = attack.make(np.random.default_rng(3), WIDE)
    assert times.shape == WIDE.shape
    if any(attack.name.startswith(name) for name in BIASED):
        return
    assert lost is None
    mean = float(np.log(times[E0]).mean() - np.log(times[0]).mean())
    assert mean == pytest.approx(math.log(attack.truth), abs=0.01)


def test_the_slowest_are_lost() -> None:
    (attack,) = (attack for attack in ATTACKS if attack.name == "slowest 9 % missing")
    times, lost = attack.make(np.random.default_rng(3), WIDE)
    assert lost is not None
    assert not lost[:E0].any()
    assert lost.mean() * len(lost) == pytest.approx(0.09, abs=0.01)
    assert times[lost].min() > times[E0][~lost[E0]].max()


def test_a_campaign_is_read_as_a_run() -> None:
    layout = Layout(2, 3, 6)
    times = np.exp(0.01 * np.random.default_rng(1).standard_normal(layout.shape))
    times[E0] *= 1.5
    lost = np.zeros(layout.shape, dtype=bool)
    lost[E0, 0, 4] = True
    run = folder(layout, times, lost, 7)
    run.check_cells()
    assert len(run.trials) == 4 * 3 * 6
    analysis = overhead.analyse(run)
    assert analysis.family == layout.family == len(analysis.primary())
    slow = [c for c in analysis.primary() if c.environment == "e0"]
    assert slow[1].verdict == "worse"
    assert slow[1].ratio == pytest.approx(1.5, rel=0.02)
    assert slow[0].environment_cell.failed == 1
    assert {cost.environment for cost in analysis.money} == {"native", "e0", "e1"}


@pytest.mark.parametrize(
    ("truth", "verdict", "expected"),
    [
        (1.0, "worse", True),
        (1.0, "equivalent", False),
        (1.0, "inconclusive", False),
        (1.0, None, False),
        (1.02, "equivalent", True),
        (1.02, "worse", False),
        (1.02, "better", True),
    ],
)
def test_what_is_false(truth: float, verdict: Verdict | None, expected: bool) -> None:
    attack = Attack("", "", ATTACKS[0].make, truth=truth)
    assert false(attack, verdict) is expected


@pytest.mark.parametrize("name", ["slowest 9 % missing", "AR 0.5, 12 blocks"])
def test_what_is_judged_alone_is_what_a_whole_analysis_says(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    attack = next(attack for attack in ATTACKS if attack.name == name)
    whole = counts.strike(attack, 12, 1)
    assert whole.shares["refused"].of == 12
    monkeypatch.setattr(counts, "READ_WHOLE", 4)
    partly = counts.strike(attack, 12, 1)
    assert partly.shares["refused"].of == 4
    told_of_all = {"refused", "covered or refused", "told"}
    assert {k: v for k, v in partly.shares.items() if k not in told_of_all} == {
        k: v for k, v in whole.shares.items() if k not in told_of_all
    }


def test_doubts_are_counted_beside_false_verdicts() -> None:
    clean = Struck(ATTACKS[0], 10, comparisons=40)
    clean.spoke_at_all.update({"drift": 2})
    bad = Struck(ATTACKS[-1], 10, false_verdicts=20, comparisons=20)
    bad.spoke.update({"drift": 5, counts.ANY: 5})
    rows = {row[0]: row[1:] for row in doubts([clean, bad]).rows}
    assert rows["drift"] == ["25.0", f"{ATTACKS[-1].name}: 25.0", "5.0"]
    assert unheard([clean, bad]).rows == [[ATTACKS[-1].name, "20", "25.0", "drift 25.0"]]


def test_misses_that_are_told_make_up_for_coverage() -> None:
    attack = next(attack for attack in ATTACKS if attack.name == attack_figures.MEMORY[0])
    for hits, holds in ((45, True), (10, False)):
        struck = Struck(attack, 200, {"covered": Share(150, 200), "told": Share(hits, 50)})
        (figure,) = attack_figures.figures([struck], [])
        assert figure.holds is holds
