"""What may be added, what is work, and what is a look of a slow meter."""

from pathlib import Path

import numpy as np
import pytest

from tests.analysis.energykit import channel, counter, metered, opened, reading, run, span, write
from ullage.analysis.comparison import money
from ullage.analysis.energy import renewal, trials
from ullage.analysis.energy.series import Stretch
from ullage.cli.output import meter_readings
from ullage.runs.readings import Line
from ullage.runs.records import addable
from ullage.workloads import WORKLOADS


def test_a_power_and_a_counter_of_the_same_are_not_added(tmp_path: Path) -> None:
    folder = metered(run(tmp_path / "run", blocks=2), lambda _: 100.0)
    begin, end = span(folder)
    both = (channel("wall"), channel("wall-energy", kind="energy"))
    at = [begin + 0.05 * n for n in range(round((end - begin) / 0.05))]
    lines: list[Line] = [
        opened(*both, every_s=0.05),
        *(reading(t, wall=100.0, wall_energy=100.0 * (t - begin)) for t in at),
    ]
    write(folder.path / "meters" / "wall.jsonl", lines)
    (of_meter,) = trials.metered(folder)
    for energy in of_meter.trials.values():
        assert isinstance(energy, trials.TrialEnergy)
        assert energy.mean_w == pytest.approx(100.0)


def test_packages_still_add_up() -> None:
    packages = (counter("package-0"), counter("package-1"), counter("memory-0", scope="memory"))
    assert addable(packages, "package", "measured") == packages[:2]


def test_a_latency_is_no_piece_of_work() -> None:
    units = {
        (w.name, m.name): money.work(m.unit, m.better, part=m.part)
        for w in WORKLOADS
        for m in w.metrics
        if m.primary and m.unit == "s"
    }
    for name in ("flood-ping", "httperf", "web-latency"):
        assert {work for (workload, _), work in units.items() if workload == name} == {None}
    assert units["command", "seconds"] == money.RUN


@pytest.mark.parametrize(
    ("lengths", "every_s", "readings"),
    [
        ([5, 5, 10, 5, 5, 6, 5, 5], 1.0, 5),
        ([30, 32, 31, 30, 32, 31, 30, 32], 1.0, 1),
        ([12, 14, 13, 14, 12, 14, 13, 14], 0.5, 1),
        ([5, 5, 5], 1.0, 1),
    ],
)
def test_a_steady_load_is_no_slow_meter(lengths: list[int], every_s: float, readings: int) -> None:
    raw = np.concatenate([np.full(n, 100.0 + 50 * (i % 2)) for i, n in enumerate(lengths)])
    assert renewal.stands(np.append(raw, 7.0), every_s) == readings


def stretch(at_s: float, epoch_s: float) -> Stretch:
    first = opened(channel(), at_ns=round(at_s * 1e9), epoch_ns=round(epoch_s * 1e9))
    return Stretch(first, (reading(at_s, wall=1.0),), (), None)


def test_only_the_last_boot_is_told() -> None:
    before, first, two = stretch(1000, 2000), stretch(500, 9000), stretch(700, 9200.5)
    assert meter_readings.of_last_boot((before, first, two)) == (first, two)
    assert meter_readings.of_last_boot((first, two)) == (first, two)
    later = stretch(800, 9900)
    assert meter_readings.of_last_boot((first, two, later)) == (later,)
    assert meter_readings.of_last_boot(()) == ()
