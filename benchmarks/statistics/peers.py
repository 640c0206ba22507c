"""What others do with the same noise: one environment after the other, and their own decisions.

A session runs the baseline first and then each environment; within one, workload after workload,
all repetitions of one after the other. Which tool does what: `docs/method/benchmarks.md`; each
design names the file that its rule is from.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.statistics.design import Plan
from benchmarks.statistics.noise import Regime, Rng
from ullage.stats import Floats

Claims = NDArray[np.int8]
"""1: slower than the baseline, −1: faster, 0: nothing claimed."""
Repeats = Callable[[Floats], tuple[Floats, NDArray[np.int64]]]
"""From the times that a cell would have (campaigns × most) to those that are kept, NaN for none,
and the number of trials that were run."""
Decide = Callable[[Floats, Floats], Claims]
"""From the times of environment and baseline (campaigns × most, NaN for none) to claims."""
ALPHA = 0.05
TRIALS = 12
"""Trials a side of the designs without a number of their own: as many as ours has blocks."""


def fixed(times: Floats) -> tuple[Floats, NDArray[np.int64]]:
    return times, np.full(len(times), times.shape[1])


def until_steady(times: Floats, most_cv: float, least: int) -> tuple[Floats, NDArray[np.int64]]:
    """One more trial while the coefficient of variation is not below `most_cv`."""
    n = np.arange(1, times.shape[1] + 1)
    mean = np.cumsum(times, axis=1) / n
    squares = np.maximum(np.cumsum(times**2, axis=1) - n * mean**2, 0.0)
    deviation = np.sqrt(squares / np.maximum(n - 1, 1))
    steady = deviation < most_cv * mean
    steady[:, : least - 1] = False
    steady[:, -1] = True
    used = steady.argmax(axis=1) + 1
    return np.where(n <= used[:, None], times, np.nan), used


def until_quiet(times: Floats, most_cv: float, size: int) -> tuple[Floats, NDArray[np.int64]]:
    """A whole set again while its coefficient of variation is not below `most_cv`.

    What is left of a cell whose sets all fail is nothing.
    """
    sets = times.reshape(len(times), -1, size)
    quiet = sets.std(axis=2, ddof=1) < most_cv * sets.mean(axis=2)
    first = quiet.argmax(axis=1)
    any_quiet = quiet.any(axis=1)
    chosen = np.where(any_quiet[:, None], sets[np.arange(len(sets)), first], np.nan)
    return chosen, np.where(any_quiet, (first + 1) * size, times.shape[1])


def welch(environment: Floats, baseline: Floats) -> Claims:
    """Welch's t test of the means at 5 %; a cell without a result claims nothing."""
    # SciPy would go row by row if one were NaN.
    whole = np.isfinite(environment).all(axis=1) & np.isfinite(baseline).all(axis=1)
    p = np.ones(len(environment))
    test = stats.ttest_ind(environment[whole], baseline[whole], axis=1, equal_var=False)
    p[whole] = test.pvalue
    return _sign(environment, baseline, p <= ALPHA)


def student(environment: Floats, baseline: Floats) -> Claims:
    """Student's t test with pooled variance at 5 %."""
    p = stats.ttest_ind(environment, baseline, axis=1).pvalue
    return _sign(environment, baseline, np.asarray(p) <= ALPHA)


def ranges_apart(environment: Floats, baseline: Floats) -> Claims:
    """The ranges of the times do not overlap."""
    apart = (environment.min(axis=1) > baseline.max(axis=1)) | (
        environment.max(axis=1) < baseline.min(axis=1)
    )
    return _sign(environment, baseline, apart)


def means_apart(environment: Floats, baseline: Floats, share: float) -> Claims:
    """The means differ by more than a fixed share of the baseline's."""
    ratio = np.nanmean(environment, axis=1) / np.nanmean(baseline, axis=1)
    return _sign(environment, baseline, np.abs(ratio - 1) > share)


def bars_apart(environment: Floats, baseline: Floats, deviations: float) -> Claims:
    """The bars of mean ± so many standard deviations do not overlap."""
    gap = np.abs(environment.mean(axis=1) - baseline.mean(axis=1))
    reach = deviations * (environment.std(axis=1, ddof=1) + baseline.std(axis=1, ddof=1))
    return _sign(environment, baseline, gap > reach)


def _sign(environment: Floats, baseline: Floats, claimed: NDArray[np.bool_]) -> Claims:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        slower = np.nanmean(environment, axis=1) > np.nanmean(baseline, axis=1)
    return np.where(claimed, np.where(slower, 1, -1), 0).astype(np.int8)


@dataclass(frozen=True)
class Design:
    """How somebody compares two environments."""

    name: str
    tool: str
    source: str
    most: int
    """Trials that a cell can have."""
    repeats: Repeats
    decide: Decide


DESIGNS = (
    Design(
        "Welch's t test",
        "hyperfine",
        "scripts/welch_ttest.py; src/benchmark/scheduler.rs",
        TRIALS,
        fixed,
        welch,
    ),
    Design("Student's t test", "pyperf", "pyperf/_utils.py is_significant", TRIALS, fixed, student),
    Design(
        "rerun until CV < 3 %, 3 to 12; ±1 %",
        "Phoronix Test Suite",
        "pts_test_run_manager.php increase_run_count_check; compare_results_two_way.php",
        12,
        partial(until_steady, most_cv=0.03, least=3),
        partial(means_apart, share=0.01),
    ),
    Design(
        "sets of 5 redone until CV < 5 %, Welch",
        "pbench (t test added here)",
        "agent/bench-scripts/pbench-fio",
        30,
        partial(until_quiet, most_cv=0.05, size=5),
        welch,
    ),
    Design("ranges apart", "lkp-tests", "lib/changed_stat.rb", TRIALS, fixed, ranges_apart),
    Design(
        "means differ by 10 %, 3 trials",
        "k8s-netperf",
        "pkg/results/result.go",
        3,
        fixed,
        partial(means_apart, share=0.1),
    ),
    Design(
        "mean ± sd apart", "bars of papers", "", TRIALS, fixed, partial(bars_apart, deviations=1.0)
    ),
    Design(
        "mean ± 1.96 sd apart",
        "MMTests",
        "bin/lib/MMTests/Stat.pm",
        TRIALS,
        fixed,
        partial(bars_apart, deviations=1.959964),
    ),
)


@dataclass(frozen=True)
class Session:
    """What one design saw in many campaigns."""

    cells: dict[tuple[int, int], Floats]
    """(environment, workload) → times that were kept; environment 0 is the baseline."""
    trials: NDArray[np.int64]
    """That each campaign ran."""


def session(design: Design, regime: Regime, rng: Rng, campaigns: int, plan: Plan) -> Session:
    """Run everything one after the other, at truth 1."""
    environments = range(len(plan.environments) + 1)
    order = [(e, w) for e in environments for w in range(len(plan.workloads))]
    series = regime.series(rng, campaigns, len(order) * design.most)
    now = np.zeros(campaigns, dtype=np.int64)
    cells = {}
    for environment, workload in order:
        window = now[:, None] + np.arange(design.most)
        logs = np.take_along_axis(series, window, axis=1)
        if environment:
            logs *= regime.lopsided
        if regime.instance:
            logs += regime.instance * rng.standard_normal((campaigns, 1))
        repeated, used = design.repeats(np.exp(logs))
        cells[environment, workload] = repeated
        now += used
    return Session(cells, now)


def claims(design: Design, session: Session, pairs: Sequence[tuple[int, int, float]]) -> Claims:
    """Claims of comparisons (environment, workload, truth): campaigns × comparisons.

    A truth multiplies all times of an environment; what was rerun does not depend on it, for the
    coefficient of variation does not.
    """
    return np.stack(
        [design.decide(session.cells[e, w] * truth, session.cells[0, w]) for e, w, truth in pairs],
        axis=1,
    )


def log_interval(environment: Floats, baseline: Floats) -> tuple[Floats, Floats]:
    """95 % interval of the log-ratio by Welch's t on log times, for the coverage of that design."""
    interval = stats.ttest_ind(
        np.log(environment), np.log(baseline), axis=1, equal_var=False
    ).confidence_interval(0.95)
    return np.asarray(interval.low), np.asarray(interval.high)
