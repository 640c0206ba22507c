"""Runs every benchmark of environments, one after the other."""

from __future__ import annotations

from benchmarks.environments import own_share
from benchmarks.figures import main_of_all

BENCHMARKS = {"own_share": own_share.measure}

if __name__ == "__main__":
    main_of_all(BENCHMARKS, __doc__ or "")
