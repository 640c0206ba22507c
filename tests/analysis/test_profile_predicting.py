"""The overhead that a profile predicts for the environments of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.analysis.profilekit import made_profile
from tests.synthetic import TRUTH, make_run
from ullage import errors
from ullage.analysis import overhead
from ullage.analysis.model import Analysis
from ullage.analysis.profiles.predicting import predict
from ullage.errors import UllageError
from ullage.folder import RunFolder


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    folder = make_run(tmp_path_factory.mktemp("predict") / "run", raw=False)
    return overhead.analyse(RunFolder.open(folder))


def ratio(analysis: Analysis, key: str, resource: str) -> float:
    found = next(s for s in analysis.resources if (s.environment, s.resource) == (key, resource))
    assert found.ratio is not None
    return found.ratio


def test_the_prediction_is_the_weighted_sum_and_the_rest_is_as_it_was(analysis: Analysis) -> None:
    found = predict(made_profile({"cpu": 0.5, "disk": 0.3}), analysis)
    assert {each.environment for each in found.predictions} == {
        each.environment for each in analysis.resources
    }
    for each in found.predictions:
        cpu, disk = (ratio(analysis, each.environment, r) for r in ("cpu", "disk"))
        assert each.overhead.estimate == pytest.approx(0.5 * cpu + 0.3 * disk + 0.2)
        assert each.overhead.low < each.overhead.estimate < each.overhead.high
        assert each.rest == pytest.approx(0.2)
        assert sum(p.contribution for p in each.parts) + each.rest == pytest.approx(
            each.overhead.estimate
        )
    assert TRUTH


def test_it_is_the_same_each_time_and_wider_with_less_sure_weights(analysis: Analysis) -> None:
    narrow = predict(made_profile({"cpu": 0.5, "disk": 0.3}, sd=0.01), analysis)
    assert narrow == predict(made_profile({"cpu": 0.5, "disk": 0.3}, sd=0.01), analysis)
    wide = predict(made_profile({"cpu": 0.5, "disk": 0.3}, sd=0.1), analysis)
    for one, other in zip(narrow.predictions, wide.predictions, strict=True):
        if one.environment == "vm":
            assert other.overhead.high - other.overhead.low > one.overhead.high - one.overhead.low


def test_with_the_weight_on_one_resource_it_is_that_ratio_and_its_interval(
    analysis: Analysis,
) -> None:
    found = predict(made_profile({"cpu": 1.0}, sd=0.0), analysis)
    for each in found.predictions:
        summary = next(
            s
            for s in analysis.resources
            if (s.environment, s.resource) == (each.environment, "cpu")
        )
        assert summary.interval is not None
        assert each.overhead.estimate == pytest.approx(summary.interval.estimate)
        logs = np.log([each.overhead.low, each.overhead.high])
        expected = np.log([summary.interval.low, summary.interval.high])
        # 20,000 draws: a bound scatters by some percent of the width.
        width = float(expected[1] - expected[0])
        assert logs == pytest.approx(expected, abs=0.1 * width)


def test_what_could_not_be_told_apart_may_be_either(analysis: Analysis) -> None:
    found = predict(made_profile({"cpu+disk": 0.8}, sd=0.0), analysis)
    for each in found.predictions:
        ratios = [ratio(analysis, each.environment, r) for r in ("cpu", "disk")]
        assert each.overhead.estimate == pytest.approx(0.8 * float(np.mean(ratios)) + 0.2)
        assert each.overhead.low <= 0.8 * min(ratios) + 0.2
        assert each.overhead.high >= 0.8 * max(ratios) + 0.2


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
    found = predict(made_profile({"cpu": 0.9}), overhead.analyse(RunFolder.open(again)))
    assert found.baseline_label == "native"
