"""Intervals over repetitions, and verdicts."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tests.experiments.elastic.elastic_made import SyntheticEnvironment, SyntheticRun, make
from ullage.experiments.elastic.analysis.contrasts import (
    Contrast,
    EnvironmentSide,
    contrasts,
    sides,
)
from ullage.experiments.elastic.analysis.definitions import BY_NAME, DEFINITIONS
from ullage.experiments.elastic.analysis.reading import ElasticRun
from ullage.experiments.elastic.analysis.summary import (
    EnvironmentSummary,
    MetricEstimate,
    Summary,
    summarise,
)
from ullage.experiments.elastic.analysis.words import effect_interval, figure
from ullage.experiments.elastic.report import answer, show, tables

TWO = {
    "lxc": SyntheticEnvironment(tar_s=0.4),
    "qemu": SyntheticEnvironment(label="qemu-tcg (emulated)", tar_s=2.0, stall=0.1),
}


def summary(tmp_path: Path, **fields: object) -> Summary:
    run, all_sides = opened(tmp_path, **fields)
    return summarise(run, all_sides)


def opened(tmp_path: Path, **fields: object) -> tuple[ElasticRun, tuple[EnvironmentSide, ...]]:
    plan = SyntheticRun(**({"environments": TWO, "viewers": 30} | fields))  # type: ignore[arg-type]
    run = ElasticRun.open(make(tmp_path, plan))
    return run, sides(run)


def contrast(summed: Summary, metric: str) -> Contrast:
    return next(c for c in summed.contrasts if c.metric == metric)


def test_the_repetition_is_the_unit(tmp_path: Path) -> None:
    summed = summary(tmp_path)
    blocked = summed.environment("qemu").estimate("blocked")
    assert blocked is not None
    values = [share for _, share in blocked.values]
    assert len(values) == 8
    low, high = stats.t.interval(0.95, 7, np.mean(values), stats.sem(values))
    assert (blocked.estimate, blocked.low, blocked.high) == pytest.approx(
        (np.mean(values), max(0.0, low), min(1.0, high))
    )


def test_times_are_averaged_on_their_logs(tmp_path: Path) -> None:
    tar = summary(tmp_path).environment("lxc").estimate("tar")
    assert tar is not None
    logs = np.log([t for _, t in tar.values])
    low, high = stats.t.interval(0.95, 7, np.mean(logs), stats.sem(logs))
    assert (tar.estimate, tar.low, tar.high) == pytest.approx(
        (math.exp(logs.mean()), math.exp(low), math.exp(high))
    )


def test_equal_repetitions_have_no_interval(tmp_path: Path) -> None:
    requests = summary(tmp_path).environment("lxc").estimate("requests")
    assert requests is not None
    assert requests.low is None and requests.why == "all 8 are equal"


def test_ratios_are_paired_by_repetition(tmp_path: Path) -> None:
    run, (lxc, qemu) = opened(tmp_path)
    compared = contrast(summarise(run, (lxc, qemu)), "tar")
    a, b = qemu.of("tar"), lxc.of("tar")
    logs = [math.log(a[n] / b[n]) for n in sorted(a)]
    assert compared.paired and compared.n == 8
    assert compared.estimate == pytest.approx(math.exp(np.mean(logs)))
    assert (compared.verdict, compared.why) == ("worse", "difference")


def test_shares_are_compared_by_their_difference(tmp_path: Path) -> None:
    run, (lxc, qemu) = opened(tmp_path)
    compared = contrast(summarise(run, (lxc, qemu)), "blocked")
    differences = [qemu.of("blocked")[n] - lxc.of("blocked")[n] for n in range(8)]
    assert compared.kind == "difference"
    low, high = stats.t.interval(0.95, 7, np.mean(differences), stats.sem(differences))
    assert (compared.estimate, compared.low, compared.high) == pytest.approx(
        (np.mean(differences), low, high)
    )
    assert compared.verdict == "worse"


BOUNDED = [d.name for d in DEFINITIONS if d.bounded]


@pytest.mark.parametrize("metric", BOUNDED)
@pytest.mark.parametrize("paired", [True, False])
def test_no_interval_of_shares_leaves_what_is_possible(
    tmp_path: Path, metric: str, *, paired: bool
) -> None:
    """Two repetitions that say opposite things: Student's t reaches far beyond every share."""
    _, (lxc, qemu) = opened(tmp_path, name="one", repetitions=2)
    if not paired:
        _, (lxc, _) = opened(tmp_path, name="two", repetitions=2, seed=99)
    for side, values in ((lxc, (0.5, 0.25)), (qemu, (0.25, 1.0))):
        for number, value in enumerate(values):
            side.figures[number].figures[metric] = value
    compared = next(c for c in contrasts([(qemu, lxc)], 0.95) if c.metric == metric)
    assert compared.paired is paired
    assert (compared.low, compared.estimate, compared.high) == (-1.0, 0.25, 1.0)
    assert effect_interval(compared) == "−100 to +100 points"


def test_no_interval_of_one_share_leaves_what_is_possible(tmp_path: Path) -> None:
    run, mine = opened(tmp_path, repetitions=2)
    for metric in BOUNDED:
        for number, value in enumerate((0.0, 1.0)):
            mine[0].figures[number].figures[metric] = value
    lxc = summarise(run, mine).environment("lxc")
    for metric in BOUNDED:
        estimate = lxc.estimate(metric)
        assert estimate is not None and (estimate.low, estimate.high) == (0.0, 1.0)


def test_a_part_of_the_demand_that_is_missing_is_never_more_than_all() -> None:
    assert {"theta_u", "timeshare_u", "instability", "blocked"} <= set(BOUNDED)
    assert "theta_o" not in BOUNDED and "deviation" not in BOUNDED


def test_a_rate_is_turned_so_that_more_is_worse(tmp_path: Path) -> None:
    compared = contrast(summary(tmp_path), "bandwidth")
    assert compared.estimate is not None and compared.estimate > 1
    assert compared.verdict is None and not compared.primary


def test_equal_environments_are_not_told_apart(tmp_path: Path) -> None:
    same = {"a": SyntheticEnvironment(tar_s=1.0), "b": SyntheticEnvironment(tar_s=1.0)}
    summed = summary(tmp_path, environments=same, baseline="a")
    verdicts = {c.verdict for c in summed.contrasts if c.primary}
    assert verdicts <= {"inconclusive", None}
    zero = contrast(summed, "turned_away")
    assert zero.note == "it is 0 in every repetition of both"


def test_a_difference_within_a_point_is_equivalent(tmp_path: Path) -> None:
    """Shares of one viewer in 400, at random, in twelve repetitions of both."""
    run, (mine, theirs) = opened(tmp_path, repetitions=12)
    generator = np.random.default_rng(3)
    for side in (mine, theirs):
        for measured in side.figures.values():
            measured.figures["blocked"] = 0.2 + generator.integers(-1, 2) / 400
    compared = next(c for c in contrasts([(mine, theirs)], 0.95) if c.metric == "blocked")
    assert (compared.verdict, compared.why) == ("equivalent", "within-margin")
    assert run.resolved.repetitions == 12


def test_one_repetition_says_why_it_cannot_decide(tmp_path: Path) -> None:
    summed = summary(tmp_path, repetitions=1)
    tar = contrast(summed, "tar")
    assert (tar.verdict, tar.why, tar.more) == ("inconclusive", "too-few-blocks", 5)
    assert answer.undecided(tar) == (
        "1 repetition to compare, and a verdict needs 6: at least 5 more"
    )
    assert "at least 5 more" in answer.answer(summed)[-1]
    assert "so without intervals" in answer.answer(summed)[0]


def test_many_failed_repetitions_leave_no_verdict(tmp_path: Path) -> None:
    broken = TWO | {"qemu": SyntheticEnvironment(tar_s=2.0, fails=frozenset({0}))}
    compared = contrast(summary(tmp_path, environments=broken), "tar")
    assert compared.n == 7 and compared.verdict is None
    assert compared.note == "1 of 8 repetitions of qemu have no figures"


def test_a_repetition_that_failed_drops_its_pair_only(tmp_path: Path) -> None:
    broken = TWO | {"qemu": SyntheticEnvironment(tar_s=2.0, fails=frozenset({4}))}
    compared = contrast(summary(tmp_path, environments=broken, repetitions=12), "tar")
    assert compared.n == 11 and compared.verdict == "worse"


def test_wide_clocks_undo_a_verdict(tmp_path: Path) -> None:
    assert contrast(summary(tmp_path / "1"), "deviation").verdict == "worse"
    wide = {key: SyntheticEnvironment(tar_s=m.tar_s, bound_ns=2 * 10**8) for key, m in TWO.items()}
    compared = contrast(summary(tmp_path / "2", environments=wide), "deviation")
    assert (compared.verdict, compared.why) == ("inconclusive", "systematic")
    assert answer.undecided(compared) == "the bound of the clocks is too wide to tell"


def test_nothing_is_compared_without_a_baseline(tmp_path: Path) -> None:
    assert summary(tmp_path, baseline=None).contrasts == ()


def test_two_runs_of_one_seed_are_paired(tmp_path: Path) -> None:
    run, mine = opened(tmp_path, name="one")
    slower = {"lxc": SyntheticEnvironment(tar_s=0.8), "qemu": TWO["qemu"]}
    other, theirs = opened(tmp_path, name="two", environments=slower)
    against = show.compare(run, mine, other, theirs)
    tar = next(c for c in against.contrasts if (c.environment, c.metric) == ("lxc", "tar"))
    assert tar.paired and tar.verdict == "better"
    assert against.notes[-1].startswith("The runs were made one after the other")
    assert len(answer.against(against)) == 3


def test_two_runs_of_different_seeds_are_two_samples(tmp_path: Path) -> None:
    run, mine = opened(tmp_path, name="one")
    other, theirs = opened(tmp_path, name="two", seed=99, repetitions=7)
    against = show.compare(run, mine, other, theirs)
    tar = next(c for c in against.contrasts if (c.environment, c.metric) == ("lxc", "tar"))
    assert not tar.paired and tar.sizes == (8, 7) and tar.n == 7
    x, y = (np.log(list(side.of("tar").values())) for side in (mine[0], theirs[0]))
    error = math.hypot(stats.sem(x), stats.sem(y))
    middle = x.mean() - y.mean()
    half = stats.t.ppf(0.975, 6) * error
    assert (tar.low, tar.high) == pytest.approx((math.exp(middle - half), math.exp(middle + half)))


def test_against_one_repetition_says_why(tmp_path: Path) -> None:
    run, mine = opened(tmp_path, name="one")
    other, theirs = opened(tmp_path, name="two", repetitions=1, seed=7)
    against = show.compare(run, mine, other, theirs)
    (first, *_) = answer.against(against)
    assert "8 against 1 repetition, not paired" in first
    assert "1 repetition to compare, and a verdict needs 6: at least 5 more" in first


def test_what_differs_between_two_runs_is_named(tmp_path: Path) -> None:
    run, mine = opened(tmp_path, name="one", environments={"lxc": SyntheticEnvironment()})
    other, theirs = opened(
        tmp_path,
        name="two",
        environments={"docker": SyntheticEnvironment(boot_delay_s=1.0)},
        room=7,
        baseline=None,
    )
    against = show.compare(run, mine, other, theirs)
    assert {(c.environment, c.baseline) for c in against.contrasts} == {("lxc", "docker")}
    assert "room 5, there 7" in against.notes[0] and "boot delay of lxc" in against.notes[0]


def test_what_differs_is_told_as_the_plan_has_it(tmp_path: Path) -> None:
    run, mine = opened(
        tmp_path, name="one", environments={"lxc": SyntheticEnvironment(boot_delay_s=0.5)}
    )
    slower = {"lxc": SyntheticEnvironment(max_nodes=4)}
    other, theirs = opened(
        tmp_path,
        name="two",
        environments=slower,
        patience_s=0.5,
        rate_hz=2.0,
        length_s=3.0,
        viewers=1,
    )
    against = show.compare(run, mine, other, theirs)
    note = next(note for note in against.notes if note.startswith("What differs"))
    for sentence in (
        "patience 1 min, there 30 s",
        "arrivals poisson, rate 0.0666667/s, 30 viewers, there poisson, rate 0.0333333/s, 1 viewer",
        "length of the video 6 min, there 3 min",
        "nodes: max of lxc none, there 4",
        "boot delay of lxc 30 s, there 0 s",
    ):
        assert sentence in note
    assert "{" not in note and "[" not in note


def test_the_same_plan_at_another_scale_differs_in_the_scale_only(tmp_path: Path) -> None:
    run, mine = opened(tmp_path, name="one", environments={"lxc": SyntheticEnvironment()})
    fast = {"rate_hz": 8.0, "length_s": 3.0, "patience_s": 0.5, "time_scale": 120.0}
    other, theirs = opened(
        tmp_path, name="two", environments={"lxc": SyntheticEnvironment()}, **fast
    )
    against = show.compare(run, mine, other, theirs)
    note = next(note for note in against.notes if note.startswith("What differs"))
    assert note.endswith("in every difference: time scale ×60, there ×120.")


def test_where_the_viewers_came_from_differs_too(tmp_path: Path) -> None:
    run, mine = opened(tmp_path, name="one")
    other, theirs = opened(tmp_path, name="two")
    machines = {"number": 2, "label": "crun", "options": {}, "resources": {"cpus": 1.0}}
    from_machines = other.resolved.model_copy(update={"generators": machines})
    against = show.compare(run, mine, replace(other, resolved=from_machines), theirs)
    note = next(note for note in against.notes if note.startswith("What differs"))
    assert "viewers' origin this host, there 2 × crun" in note


def test_runs_without_a_common_environment_are_not_compared(tmp_path: Path) -> None:
    run, mine = opened(tmp_path, name="one")
    others = {"a": SyntheticEnvironment(), "b": SyntheticEnvironment()}
    other, theirs = opened(tmp_path, name="two", environments=others, baseline=None)
    against = show.compare(run, mine, other, theirs)
    assert against.contrasts == () and answer.against(against) == list(against.notes)
    assert "no environment of the same name" in against.notes[0]


def test_a_run_against_itself_says_so(tmp_path: Path) -> None:
    run, mine = opened(tmp_path)
    against = show.compare(run, mine, run, mine)
    assert "Both are the same run" in against.notes[0]
    assert {c.verdict for c in against.contrasts if c.primary} <= {"inconclusive", None}


FIGURES = [
    ("blocked", 0.0207, "2.07 %"),
    ("blocked", 0.0, "0 %"),
    ("tar", 0.0421, "42.1 ms"),
    ("jitter", -0.005, "−0.3 nodes/min"),
    ("accuracy_u", 0.25, "0.25 nodes"),
    ("speed_up", 1.5, "1.5×"),
    ("requests", 1234.0, "1,234"),
    ("node_seconds", 2.5, "2.5 node·s"),
]


@pytest.mark.parametrize(("metric", "value", "text"), FIGURES)
def test_figures_have_their_units(metric: str, value: float, text: str) -> None:
    assert figure(BY_NAME[metric], value) == text
    assert figure(BY_NAME[metric], None) == "–"


def test_a_bound_has_its_unit_once(tmp_path: Path) -> None:
    summed = summary(tmp_path)
    assert " to " in effect_interval(contrast(summed, "blocked"))
    assert effect_interval(contrast(summed, "blocked")).count("points") == 1
    lxc = summed.environment("lxc")
    tar = lxc.estimate("tar")
    assert tar is not None and answer.interval(BY_NAME["tar"], tar, 8).count("ms") == 1


def test_a_figure_that_some_repetitions_lack_says_so(tmp_path: Path) -> None:
    run, mine = opened(tmp_path)
    for number in (1, 2, 3):
        del mine[0].figures[number].figures["tar"]
    lxc = summarise(run, mine).environment("lxc")
    tar = lxc.estimate("tar")
    assert tar is not None
    assert answer.interval(BY_NAME["tar"], tar, lxc.ok).endswith(", 5 of 8 repetitions")


COVERAGES = [
    (6, 0.005, 0.0, 0.934),
    (6, 0.005, 0.02, 0.822),
    (6, 0.1, 0.02, 0.937),
    (20, 0.02, 0.02, 0.922),
    (20, 0.3, 0.0, 0.950),
]


@pytest.mark.parametrize(("repetitions", "share", "alike", "in_docs"), COVERAGES)
def test_intervals_of_shares_cover_as_often_as_the_docs_say(
    repetitions: int, share: float, alike: float, in_docs: float
) -> None:
    """Twenty thousand runs of repetitions of 200 viewers; alike: the intra-class correlation."""
    generator = np.random.default_rng(1)
    size = (20_000, repetitions)
    chance = np.full(size, share)
    if alike:
        k = 1 / alike - 1
        chance = generator.beta(share * k, (1 - share) * k, size)
    blocked = generator.binomial(200, chance) / 200
    error = blocked.std(axis=1, ddof=1) / math.sqrt(repetitions)
    half = stats.t.ppf(0.975, repetitions - 1) * error[error > 0]
    covered = np.abs(blocked.mean(axis=1)[error > 0] - share) <= half
    assert covered.mean() == pytest.approx(in_docs, abs=0.012)


@pytest.mark.parametrize(
    ("metric", "estimate", "low", "high", "expected"),
    [
        ("deviation", 0.0454, 0.012, 0.34, "4.54 (1.2 to 34) %"),
        ("tar", 0.6, 0.5, 0.7, "600 (500 to 700) ms"),
        ("tar", 0.6, 0.0004, 0.7, "600 ms (400 µs to 700 ms)"),
        ("tar", 0.6, 0.4, 1.2, "600 ms (400 ms to 1.2 s)"),
        ("tar", 0.6, None, None, "600 ms (all 2 are equal)"),
    ],
)
def test_a_unit_stands_once_in_a_cell_if_there_is_only_one(
    metric: str, estimate: float, low: float | None, high: float | None, expected: str
) -> None:
    estimated = MetricEstimate(
        metric=metric,
        values=((0, estimate), (1, estimate)),
        mean=estimate,
        deviation=0.0,
        least=estimate,
        most=estimate,
        estimate=estimate,
        low=low,
        high=high,
        why="" if low is not None else "all 2 are equal",
    )
    side = EnvironmentSummary(
        key="lxc",
        label="lxc",
        ended=2,
        ok=2,
        estimates=(estimated,),
        stages={},
        clock_share=0.0,
        standing_nodes=(),
    )
    assert tables._cell(BY_NAME[metric], side) == expected
