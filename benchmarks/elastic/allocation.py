"""What it takes to make instances, one and several at once: TaR and TlR by environment and number.

`docs/plans/allocation.yaml` is run, or with `--quick` a part of it: 1 and 2 instances, three times.
Each row is the geometric mean over the blocks with its 95 % t interval: of the time from the first
request until the last instance is up, with its parts, and of the time until nothing is left of any.
There is no aim: it is the host's speed, of which the ratios in the run's own report say more.

The published rows are from other machines (2015: OpenStack and OpenNebula, a 2.8 GB image, without
OpenStack's 30 s of contextualisation, mean ± t over 20 runs; 2017: two instances at once, one run).
They stand there as facts; nothing here is compared with them.
"""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from scipy import stats

from benchmarks.figures import Figure, main
from ullage.common import text
from ullage.common.errors import ExitCode
from ullage.runs.events import Trial
from ullage.runs.reader import RunFolder
from ullage.runs.records import Curve, Scalar
from ullage.stats.interval import t_interval

CONFIDENCE: Final = 0.95
PLAN: Final = Path(__file__).resolve().parents[2] / "docs/plans/allocation.yaml"
QUICK: Final = {
    "copy: [backing, real], count: [1, 2, 4, 8, 16]": "count: [1, 2]",
    "{min: 20, max: 20}": "{min: 3, max: 3}",
}

PUBLISHED: Final[tuple[tuple[str, float, float, int], ...]] = (
    ("KVM on OpenStack, 2015, elsewhere", 10.729, 1.439, 20),
    ("Xen on OpenStack, 2015, elsewhere", 71.965, 6.531, 20),
    ("KVM on OpenNebula, 2015, elsewhere", 59.447, 1.312, 20),
    ("Xen on OpenNebula, 2015, elsewhere", 101.016, 14.749, 20),
)
"""Environment, mean and standard deviation of TaR in seconds, runs."""

PUBLISHED_TWO: Final = (("OpenStack", 8.45), ("CloudStack", 17.22))
"""Seconds to create two at once, 2017."""

Metrics = Mapping[str, Scalar | Curve]
PARTS: Final = {"choose_time": "TeF", "copy_time": "TcI", "boot_time": "TiI"}


def measure(quick: bool) -> list[Figure]:
    """Run the plan, and say what came of it."""
    with TemporaryDirectory(prefix="ullage-allocation-") as name:
        plan = Path(name) / "plan.yaml"
        text = PLAN.read_text(encoding="utf-8")
        for whole, part in QUICK.items() if quick else ():
            if whole not in text:
                raise RuntimeError(f"{PLAN} has no `{whole}` any more")
            text = text.replace(whole, part)
        plan.write_text(text, encoding="utf-8")
        runs = Path(name) / "runs"
        command = [sys.executable, "-m", "ullage", "run", str(plan), "--runs", str(runs)]
        # Cells without figures are told as such.
        done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        if done.returncode not in (ExitCode.DONE, ExitCode.SOME_CELLS_FAILED):
            raise RuntimeError(f"the run ended with {done.returncode}")
        (folder,) = runs.iterdir()
        return [*rows(RunFolder.open(folder)), *published()]


def rows(folder: RunFolder) -> list[Figure]:
    """TaR and TlR of each environment and number of instances."""
    figures = []
    for load in folder.resolved.workloads:
        for environment in folder.resolved.environments:
            cell = (environment.key, load.key)
            trials = [t for t in folder.trials if (t.environment, t.workload) == cell]
            if not environment.again_of:
                figures += _cell(f"{environment.label}, {load.title}", trials)
    return figures


def _cell(label: str, trials: Sequence[Trial]) -> list[Figure]:
    good = [trial.metrics for trial in trials if trial.status == "ok"]
    failed = len(trials) - len(good)
    if not good:
        why = next((str(t.reason.message) for t in trials if t.reason), "there was no trial")
        note = f"{failed} failed: {text.clean(why, 200)}"
        return [Figure(f"{name}, {label}", math.nan, "s", note=note) for name in ("TaR", "TlR")]
    parts = " + ".join(
        f"{name} {statistics.fmean(_values(good, metric)):.3g}" for metric, name in PARTS.items()
    )
    note = f"{len(good)} trials, {failed} failed; of one instance: {parts} s"
    return [
        _row(f"TaR, {label}", _values(good, "allocation_time"), note),
        _row(f"TlR, {label}", _values(good, "release_time")),
    ]


def _values(good: Sequence[Metrics], metric: str) -> list[float]:
    return [value for metrics in good if isinstance(value := metrics[metric], float)]


def _row(name: str, values: Sequence[float], note: str = "") -> Figure:
    if len(values) == 1:
        return Figure(name, values[0], "s", note=note)
    # Times are skewed: on the scale of ratios no interval reaches below zero.
    interval = t_interval([math.log(value) for value in values], CONFIDENCE)
    means = (
        f"geometric mean; arithmetic {statistics.fmean(values):.4g} s, "
        f"deviation {statistics.stdev(values):.2g} s"
    )
    note = f"{means}; {note}" if note else means
    return Figure(name, interval.estimate, "s", interval.low, interval.high, note=note)


def _published(name: str, mean: float, deviation: float, runs: int) -> Figure:
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, runs - 1)) * deviation / math.sqrt(runs)
    return Figure(f"TaR, {name}, published", mean, "s", mean - half, mean + half)


def published() -> list[Figure]:
    """What others measured, elsewhere."""
    return [
        *(_published(*row) for row in PUBLISHED),
        *(
            Figure(f"TaR, {name}, two at once, 2017, elsewhere, published", seconds, "s")
            for name, seconds in PUBLISHED_TWO
        ),
    ]


if __name__ == "__main__":
    main(measure, __doc__ or "")
