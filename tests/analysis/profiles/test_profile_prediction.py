"""The overhead that a profile predicts for the environments of a run."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testing.synthetic import TRUTH, make_run
from tests.analysis.profilekit import made_profile
from ullage.analysis import overhead
from ullage.analysis.comparison.model import Analysis, ResourceSummary
from ullage.analysis.profiles.model import Prediction
from ullage.analysis.profiles.prediction import predict
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.runs.reader import RunFolder
from ullage.stats.interval import IntervalEstimate


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    folder = make_run(tmp_path_factory.mktemp("predict") / "run", raw=False)
    return overhead.analyse(RunFolder.open(folder))


def ratio(analysis: Analysis, key: str, resource: str) -> float:
    summary = next(s for s in analysis.resources if (s.environment, s.resource) == (key, resource))
    assert summary.ratio is not None
    return summary.ratio


def certain(analysis: Analysis, ratios: Mapping[str, float], *, n: int = 6) -> Analysis:
    """One environment, with these ratios and no doubt of them; no other resource."""
    pattern = next(s for s in analysis.resources if s.environment == "vm")

    def summary(resource: str, value: float) -> ResourceSummary:
        span = IntervalEstimate(value, value, value, 0.95, n, "t")
        fields = {"resource": resource, "ratio": value, "interval": span}
        return pattern.model_copy(update=fields)

    return analysis.model_copy(
        update={
            "resources": tuple(summary(*pair) for pair in ratios.items()),
            "comparisons": tuple(c for c in analysis.comparisons if c.environment == "vm"),
        }
    )


def only(predictions: tuple[Prediction, ...]) -> Prediction:
    (prediction,) = predictions
    return prediction


ONES = {"cpu": 1.0, "memory": 1.0, "disk": 1.0}


@given(
    parts=st.tuples(*[st.floats(0, 1)] * 3).map(lambda p: np.array(p) / max(1.0, sum(p))),
    sd=st.tuples(*[st.floats(0, 0.3)] * 3),
)
def test_where_everything_lasts_as_long_the_overhead_is_one_and_sure(
    analysis: Analysis, parts: np.ndarray[tuple[int], np.dtype[np.float64]], sd: tuple[float, ...]
) -> None:
    shares = dict(zip(ONES, map(float, parts), strict=True))
    predicted = predict(made_profile(shares, sd=sd), certain(analysis, ONES))
    span = only(predicted.predictions).overhead
    assert (span.estimate, span.low, span.high) == (1.0, 1.0, 1.0)


def test_a_weight_of_nothing_that_is_not_sure_counts_with_its_own_ratio(
    analysis: Analysis,
) -> None:
    shares = {"cpu": 0.5, "memory": 0.0, "disk": 0.0}
    measured = made_profile(shares, sd=(0.0, 0.0, 0.08))
    slow = only(predict(measured, certain(analysis, ONES | {"disk": 3.0})).predictions).overhead
    assert (slow.estimate, slow.low) == (1.0, 1.0)
    # Student's 97.5 % point with 5 degrees of freedom.
    assert slow.high == pytest.approx(1 + 2 * 2.571 * 0.08, rel=0.05)


def test_a_weight_of_nothing_without_a_ratio_stays_in_the_rest(analysis: Analysis) -> None:
    shares = {"cpu": 0.5, "memory": 0.0, "disk": 0.0}
    run = certain(analysis, {"cpu": 1.0})
    prediction = only(predict(made_profile(shares, sd=(0.0, 0.08, 0.08)), run).predictions)
    assert (prediction.overhead.low, prediction.overhead.high, prediction.rest) == (1.0, 1.0, 0.5)


def test_bursts_may_be_the_cpus_or_not(analysis: Analysis) -> None:
    run = certain(analysis, {"cpu": 3.0})
    measured = made_profile({"cpu": 0.6}, sd=0.0, bursts=0.4)
    span = only(predict(measured, run).predictions).overhead
    assert span.estimate == pytest.approx(1 + 0.6 * 2)
    # The share is anything between 0.2 and 0.6; 95 % of that are drawn.
    assert span.low == pytest.approx(1 + 0.21 * 2, abs=0.01)
    assert span.high == span.estimate
    sure = only(predict(made_profile({"cpu": 0.6}, sd=0.0), run).predictions).overhead
    assert sure.low == pytest.approx(sure.high)


def test_two_weights_of_inseparable_resources_are_tried_in_every_combination(
    analysis: Analysis,
) -> None:
    ratios = {"cpu": 3.0, "memory": 1.0, "disk": 1.0, "network": 5.0}
    measured = made_profile({"cpu+memory": 0.5, "disk+network": 0.5}, sd=0.0)
    span = only(predict(measured, certain(analysis, ratios)).predictions).overhead
    means = [0.5 * a + 0.5 * b for a, b in product((3.0, 1.0), (1.0, 5.0))]
    assert (span.low, span.high) == pytest.approx((min(means), max(means)))


def test_two_blocks_of_a_run_give_a_wide_interval_that_is_a_number(analysis: Analysis) -> None:
    run = certain(analysis, ONES, n=2)
    wide = tuple(
        s.model_copy(update={"interval": IntervalEstimate(1.0, 0.02, 50.0, 0.95, 2, "t")})
        for s in run.resources
    )
    measured = made_profile({"cpu": 0.5, "memory": 0.0, "disk": 0.0}, sd=(0.0, 0.08, 0.0))
    span = only(predict(measured, run.model_copy(update={"resources": wide})).predictions).overhead
    assert span.low < 0.6
    assert 10 < span.high < 1000


def test_the_prediction_is_the_weighted_sum_and_the_rest_is_as_it_was(analysis: Analysis) -> None:
    predicted = predict(made_profile({"cpu": 0.5, "disk": 0.3}), analysis)
    assert {prediction.environment for prediction in predicted.predictions} == {
        summary.environment for summary in analysis.resources
    }
    for of_environment in predicted.predictions:
        cpu, disk = (ratio(analysis, of_environment.environment, r) for r in ("cpu", "disk"))
        assert of_environment.overhead.estimate == pytest.approx(0.5 * cpu + 0.3 * disk + 0.2)
        assert (
            of_environment.overhead.low
            < of_environment.overhead.estimate
            < of_environment.overhead.high
        )
        assert of_environment.rest == pytest.approx(0.2)
        assert sum(
            p.contribution for p in of_environment.parts
        ) + of_environment.rest == pytest.approx(of_environment.overhead.estimate)
    assert TRUTH


def test_it_is_the_same_each_time_and_wider_with_less_sure_weights(analysis: Analysis) -> None:
    narrow = predict(made_profile({"cpu": 0.5, "disk": 0.3}, sd=0.01), analysis)
    assert narrow == predict(made_profile({"cpu": 0.5, "disk": 0.3}, sd=0.01), analysis)
    wide = predict(made_profile({"cpu": 0.5, "disk": 0.3}, sd=0.1), analysis)
    for first, second in zip(narrow.predictions, wide.predictions, strict=True):
        if first.environment == "vm":
            assert (
                second.overhead.high - second.overhead.low
                > first.overhead.high - first.overhead.low
            )


def test_with_the_weight_on_one_resource_it_is_that_ratio_and_its_interval(
    analysis: Analysis,
) -> None:
    predicted = predict(made_profile({"cpu": 1.0}, sd=0.0), analysis)
    for prediction in predicted.predictions:
        summary = next(
            s
            for s in analysis.resources
            if (s.environment, s.resource) == (prediction.environment, "cpu")
        )
        assert summary.interval is not None
        assert prediction.overhead.estimate == pytest.approx(summary.interval.estimate)
        logs = np.log([prediction.overhead.low, prediction.overhead.high])
        expected = np.log([summary.interval.low, summary.interval.high])
        # 20,000 draws: a bound scatters by some percent of the width.
        width = float(expected[1] - expected[0])
        assert logs == pytest.approx(expected, abs=0.1 * width)


def test_what_could_not_be_told_apart_may_be_either(analysis: Analysis) -> None:
    predicted = predict(made_profile({"cpu+disk": 0.8}, sd=0.0), analysis)
    for prediction in predicted.predictions:
        ratios = [ratio(analysis, prediction.environment, r) for r in ("cpu", "disk")]
        assert prediction.overhead.estimate == pytest.approx(0.8 * float(np.mean(ratios)) + 0.2)
        assert prediction.overhead.low <= 0.8 * min(ratios) + 0.2
        assert prediction.overhead.high >= 0.8 * max(ratios) + 0.2


def test_a_resource_without_a_ratio_is_refused_and_one_without_a_weight_is_not(
    analysis: Analysis,
) -> None:
    lacking = analysis.model_copy(
        update={
            "resources": tuple(s for s in analysis.resources if s.resource != "disk"),
            "comparisons": tuple(c for c in analysis.comparisons if c.resource != "disk"),
        }
    )
    with pytest.raises(UllageError) as caught:
        predict(made_profile({"cpu": 0.5, "disk": 0.3}), lacking)
    assert caught.value.kind is errors.PROFILE_NO_RATIO
    assert "has no disk workload" in caught.value.message
    assert predict(made_profile({"cpu": 0.5, "disk": 0.0}), lacking).predictions


def test_an_unsound_ratio_is_refused(analysis: Analysis) -> None:
    unsound = analysis.model_copy(
        update={
            "comparisons": tuple(
                c.model_copy(update={"no_verdict": "over 10 % of the trials failed"})
                if c.resource == "cpu"
                else c
                for c in analysis.comparisons
            )
        }
    )
    with pytest.raises(UllageError) as caught:
        predict(made_profile({"cpu": 0.5}), unsound)
    assert "over 10 % of the trials failed" in caught.value.message
    bare = analysis.model_copy(
        update={
            "resources": tuple(s.model_copy(update={"interval": None}) for s in analysis.resources)
        }
    )
    with pytest.raises(UllageError) as caught:
        predict(made_profile({"cpu": 0.5}), bare)
    assert "no ratio with an interval" in caught.value.message


def test_the_run_folder_is_enough(tmp_path: Path) -> None:
    again = make_run(tmp_path / "run", raw=False, blocks=5)
    predicted = predict(made_profile({"cpu": 0.9}), overhead.analyse(RunFolder.open(again)))
    assert predicted.baseline_label == "native"
