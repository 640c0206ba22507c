"""The systematic part of the uncertainty, and the budget with it."""

import math

import numpy as np
import pytest

from tests.analysis.doubtkit import SECOND, clock, doubted, draft, role
from ullage.analysis.comparison.systematic import budget, components, systematic
from ullage.stats.interval import t_interval

EXACT = [1.0 + 0.001 * x for x in (0.37, 0.11, 0.93, 0.58, 0.71, 0.29)]


def sources(comparison: object) -> dict[str, float]:
    return {part.source: part.standard for part in components(comparison)}  # type: ignore[arg-type]


def test_fine_figures_of_one_clock_have_none() -> None:
    comparison = draft(EXACT, EXACT)
    assert components(comparison) == ()
    assert systematic(comparison) == 0


def test_a_coarse_step_counts_where_noise_does_not_average_it() -> None:
    """Figures of 0.23 and 0.24 ms: a step of 4.3 %, half a step off at most, to each side."""
    coarse = [0.24e-3, 0.23e-3, 0.23e-3, 0.23e-3, 0.23e-3, 0.23e-3, 0.23e-3]
    comparison = draft(coarse, [0.2e-3 * x for x in (*EXACT, 1.0007)])
    step = 0.01e-3 / np.mean(coarse)
    assert sources(comparison) == {"resolution": pytest.approx(step / math.sqrt(12), rel=0.02)}
    assert "qemu-kvm come in steps of 10 µs, 4.32 % of their mean" in components(comparison)[0].text
    assert systematic(comparison) == pytest.approx(-2 * math.log(1 - step / 2) / math.sqrt(3))


def test_a_coarse_step_under_noise_is_in_type_a_already() -> None:
    rng = np.random.default_rng(1)
    noisy = np.round(rng.normal(1.0, 0.02, 30), 2)
    assert components(draft(noisy, noisy[::-1])) == ()


def test_both_sides_count() -> None:
    coarse = [3.0, 3.0, 3.0, 3.0, 4.0, 3.0, 3.0, 3.0]
    parts = components(draft(coarse, coarse))
    assert [part.source for part in parts] == ["resolution", "resolution"]


def test_a_guests_clock_counts_for_what_it_timed() -> None:
    """11 ppm apart, known to 9 ppm: off by 20 ppm at most, evenly likely."""
    mine = {"instance": clock(drifted_ns=-11_000, unsure_ns=9_000)}
    comparison = draft(EXACT, EXACT, mine=mine)
    assert sources(comparison) == {"clock-rate": pytest.approx(20e-6 / math.sqrt(3))}
    assert "within 20 ppm of the controller's" in components(comparison)[0].text
    assert sources(draft(EXACT, EXACT, mine=mine, unit="B/s")) == sources(comparison)
    assert components(draft(EXACT, EXACT, mine=mine, unit="B")) == ()
    assert components(draft(EXACT, EXACT, mine=mine, unit="1")) == ()


def test_one_odd_trial_does_not_make_the_clock() -> None:
    clocks = [{"instance": clock(drifted_ns=5_000 if n else SECOND // 100)} for n in range(6)]
    assert sources(draft(EXACT, EXACT, fields=clocks))["clock-rate"] == pytest.approx(
        5e-6 / math.sqrt(3)
    )


def test_a_time_across_clocks_has_their_bound_and_not_their_rate() -> None:
    """Start and end within 50 µs each, of a second: 100 ppm. Their instants are corrected."""
    rough = [1.0, 1.25, 1.5, 1.1, 1.9, 1.7]
    comparison = draft(
        rough,
        [v * 0.9 for v in rough],
        fields=[
            {"roles": (role(v, bound_ns=50_000),), "instance": clock(drifted_ns=11_000)}
            for v in rough
        ],
    )
    by_source = sources(comparison)
    median = float(np.median([100e-6 / v for v in rough]))
    assert by_source == {"clock-bound": pytest.approx(median / math.sqrt(3))}


def test_a_curve_has_its_clock_and_the_mean_of_its_steps() -> None:
    """Whole numbers at size 1, where they vary less; at size 2 noise averages them out."""
    mine = [[(1.0, 3.0 + (n == 3)), (2.0, 400.0 + 3 * n)] for n in range(8)]
    theirs = [[(1.0, 3.0), (2.0, 400.0 + 5 * n)] for n in range(8)]
    comparison = draft(mine, theirs, mine={"instance": clock(drifted_ns=20_000)})
    assert set(sources(comparison)) == {"clock-rate", "resolution"}
    assert [step.baseline for step in comparison.steps] == pytest.approx([1 / 3, 0])
    at_first = -math.log(1 - 1 / 6) / math.sqrt(3)
    assert sources(draft(mine, theirs))["resolution"] == pytest.approx(at_first / 2)


def test_a_constant_has_the_step_of_the_other_side() -> None:
    """20.35 printed as 20, always: not a figure without any uncertainty."""
    noisy = [20.0, 21.0, 20.0, 20.0, 21.0, 22.0, 20.0, 19.0, 21.0, 20.0, 23.0, 21.0]
    comparison = draft(noisy, [20.0] * 12)
    assert sources(comparison) == {
        "resolution": pytest.approx(-math.log(1 - 1 / 40) / math.sqrt(3))
    }
    assert "native come in steps of 1 s, 5 % of their mean" in components(comparison)[0].text
    assert "coarse" in doubted(comparison)


def test_a_constant_beside_fine_figures_is_what_the_tool_saw() -> None:
    """One tool that prints eight digits printed the same eight each time."""
    assert components(draft([20 + x for x in EXACT], [20.0] * 6)) == ()


def test_what_the_tool_is_known_to_print_counts() -> None:
    """Means of three figures of 0.01 s each come in thirds of that, and are no finer for it."""
    figures = [0.05, 0.05 + 0.01 / 3, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05]
    unknown = sources(draft(figures, figures))["resolution"]
    known = sources(draft(figures, figures, resolution=0.01))["resolution"]
    assert known > 2.9 * unknown


def test_the_digits_that_were_printed_count() -> None:
    """Means of three whole numbers come in thirds, and are no finer for it; truth 1, as 20.33."""
    figures = [20.0, 20.0 + 1 / 3, 20.0, 20.0, 20.0 + 1 / 3, 20.0, 20.0, 20.0]
    printed = {"steps": {"time": 1.0}}
    unknown = draft(figures, [20.0] * 8)
    known = draft(figures, [20.0] * 8, mine=printed, theirs=printed)
    assert systematic(known) > 2.9 * systematic(unknown) > 0
    assert "native come in steps of 1 s, 5 % of their mean" in components(known)[-1].text
    assert "coarse" in doubted(known)


def test_the_finest_digits_of_either_side_are_the_programs() -> None:
    """A program that leaves zeros out printed 20 in one trial and 20.35 in another."""
    mine = [{"steps": {"time": 0.01 if n else 0.1}} for n in range(6)]
    figures = [20.35, 20.31, 20.42, 20.38, 20.33, 20.36]
    comparison = draft(figures, [20.0] * 6, fields=mine, theirs={"steps": {"time": 1.0}})
    assert comparison.steps[0].baseline == pytest.approx(0.01 / 20)


def test_a_step_as_large_as_the_figure_leaves_no_ratio() -> None:
    """Half a step is all of it: what was printed as 0.4 ms may have been nothing."""
    figures = [0.4e-3, 0.4e-3, 0.41e-3, 0.4e-3, 0.4e-3, 0.4e-3]
    comparison = draft(figures, [v * 30 for v in figures], resolution=1e-3)
    assert comparison.no_verdict == "the figures of qemu-kvm are no larger than half their step"
    assert "coarse" in doubted(comparison)
    assert [part.text for part in components(comparison)] != []
    assert all("qemu-kvm" not in part.text for part in components(comparison))


def test_the_budget_without_systematic_parts_is_the_interval() -> None:
    x = np.random.default_rng(2).normal(0.1, 0.03, 12)
    uncertainty, t = budget(draft(np.exp(x), np.ones(12))), t_interval(x, 0.95)
    assert uncertainty is not None
    assert (uncertainty.low, uncertainty.high) == pytest.approx((t.low, t.high))
    assert (uncertainty.type_b, uncertainty.precision, uncertainty.between) == (
        0,
        "repeatability",
        None,
    )
    assert uncertainty.within == pytest.approx(x.std(ddof=1))


def test_the_budget_with_them_is_wider() -> None:
    x = np.random.default_rng(3).normal(0.1, 0.001, 12)
    mine = {"instance": clock(drifted_ns=3_000_000)}
    uncertainty = budget(draft(np.exp(x), np.ones(12), mine=mine))
    assert uncertainty is not None
    assert uncertainty.type_b == pytest.approx(0.003 / math.sqrt(3))
    u = math.hypot(uncertainty.type_a, uncertainty.type_b)
    assert uncertainty.expanded == pytest.approx(1.96 * u, rel=0.01), (
        "mostly of Type B: k is near 1.96"
    )
    assert math.log(uncertainty.high / uncertainty.low) == pytest.approx(2 * uncertainty.expanded)


def test_within_and_between_makings() -> None:
    """400 makings of 3 pairs: 2 % from pair to pair, and 5 % that making them anew adds."""
    rng = np.random.default_rng(4)
    x = np.repeat(rng.normal(0, 0.05, 400), 3) + rng.normal(0, 0.02, 1200)
    uncertainty = budget(draft(np.exp(x), np.ones(1200), generations=[n // 3 for n in range(1200)]))
    assert uncertainty is not None
    assert uncertainty.precision == "intermediate"
    assert uncertainty.within == pytest.approx(0.02, rel=0.07)
    assert uncertainty.between == pytest.approx(0.05, rel=0.12)
    assert uncertainty.type_a == pytest.approx(math.sqrt(0.05**2 / 400 + 0.02**2 / 1200), rel=0.12)


def test_one_block_a_making_does_not_tell_its_own_spread() -> None:
    x = np.random.default_rng(5).normal(0, 0.05, 8)
    uncertainty = budget(draft(np.exp(x), np.ones(8), generations=list(range(8))))
    assert uncertainty is not None
    assert uncertainty.within is None
    assert uncertainty.between == pytest.approx(x.std(ddof=1))


def test_no_budget_of_one_pair_or_none() -> None:
    assert budget(draft([1.0], [1.0])) is None
    assert budget(draft([], [])) is None
    assert components(draft([], [])) == ()
    assert systematic(draft([], [])) == 0


def test_a_budget_beyond_all_numbers_is_none() -> None:
    assert budget(draft([1e-300, 1e300], [1.0, 1.0])) is None


def test_no_spread_and_a_clock_is_all_systematic() -> None:
    uncertainty = budget(draft([1.0] * 6, [1.0] * 6, mine={"instance": clock(drifted_ns=10_000)}))
    assert uncertainty is not None
    assert uncertainty.type_a == 0
    assert uncertainty.expanded == pytest.approx(1.959964 * 10e-6 / math.sqrt(3))


def test_it_is_doubted_when_the_margin_is_small_against_it() -> None:
    mine = {"instance": clock(drifted_ns=6_000_000)}
    doubts = doubted(draft(EXACT, EXACT, mine=mine, margin=0.02))
    assert doubts["systematic"].message.startswith(
        "No number of blocks tells this ratio better than ± 0.693 % (margin 2 %); most of it: "
        "qemu-kvm times itself"
    )
    assert "systematic" not in doubted(draft(EXACT, EXACT, mine=mine, margin=0.05))
    assert "systematic" not in doubted(draft(EXACT, EXACT))
