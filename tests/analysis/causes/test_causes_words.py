"""What changed beside a figure, in words."""

from __future__ import annotations

from ullage.analysis.causes import causes
from ullage.analysis.comparison.model import Cause


def test_digits_are_those_that_the_interval_bears() -> None:
    """And a bound above nothing does not read as nothing."""
    cause = Cause.model_validate(
        {
            "counter": "threads.hypervisor",
            "words": "QEMU",
            "unit": "CPU",
            "environment_mean": 0.286,
            "baseline_mean": 0.0,
            "ratio": {
                "estimate": 9,
                "low": 2,
                "high": 30,
                "confidence": 0.99,
                "n": 6,
                "method": "",
            },
            "difference": 0.2861,
            "difference_low": 0.00278,
            "difference_high": 0.5688,
            "from_nothing": True,
        }
    )
    assert causes.cause_words(cause) == (
        "QEMU: 28.6 % of a CPU against 0 %, 28.6 % of a CPU more (0.2 % to 56.9 %)"
    )
    less = {"difference": -0.1, "difference_low": -0.12, "difference_high": -0.08}
    less_of_it = cause.model_copy(update=less)
    assert causes.change(less_of_it) == "10 % of a CPU less"
    assert causes.bounds(less_of_it) == "8 % to 12 %"
