"""Runs every benchmark of clouds, one after the other."""

from __future__ import annotations

from benchmarks.clouds import crowd
from benchmarks.figures import main_of_all

BENCHMARKS = {"crowd": crowd.measure}

if __name__ == "__main__":
    main_of_all(BENCHMARKS, __doc__ or "")
