"""Runs every benchmark of predictions, one after the other."""

from __future__ import annotations

from benchmarks.figures import main_of_all
from benchmarks.profile import prediction

BENCHMARKS = {
    "prediction": prediction.measure,
}

if __name__ == "__main__":
    main_of_all(BENCHMARKS, __doc__ or "")
