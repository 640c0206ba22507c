"""What several workloads show together, in runs with a known truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from testing.synthetic import WORKLOADS
from tests.report.made import made_report, made_run
from ullage.report import across
from ullage.report.charts import curve
from ullage.runs.records import Coordinate, WorkloadRecord

CPU = WORKLOADS[0]


def varied(**factors: object) -> WorkloadRecord:
    key = f"sysbench-cpu[{','.join(f'{k}={v}' for k, v in factors.items())}]".replace(" ", "")
    return CPU.model_copy(update={"key": key, "factors": factors, "scaling": ("threads", "ranks")})


THREADS = tuple(varied(threads=n) for n in (4, 1, 2))
SPEEDS = {1: 1.0, 2: 2.0, 4: 3.0}
TRUTH = {("native", w.key): 1 / SPEEDS[w.factors["threads"]] for w in THREADS} | {
    ("vm", w.key): 1.0 for w in THREADS
}
PEERS = tuple(varied(peer={"environment": name}) for name in ("native", "vm"))


def test_a_speed_up_is_that_of_the_truth(tmp_path: Path) -> None:
    folder, analysis = made_run(tmp_path / "run", workloads=THREADS, truth=TRUTH, noise_sd=0.02)
    (scaling,) = across.scalings(folder.resolved.workloads)
    assert [at for at, _ in scaling.steps] == [1, 2, 4]
    chart = across.speed_up(folder, analysis, scaling)
    assert chart is not None
    native = folder.resolved.environments[0].label
    points = {row["x"]: row for row in chart.data["points"] if row["e"] == native}
    for threads, truth in SPEEDS.items():
        row = points[float(threads)]
        assert row["lo"] <= row["y"] <= row["hi"]
        assert row["y"] == pytest.approx(truth, rel=0.03)
    others = [row["y"] for row in chart.data["points"] if row["e"] != native]
    assert others == pytest.approx([1.0] * len(others), rel=0.03)
    assert [row["y"] for row in chart.data["ideal"]] == [1.0, 4.0]


def test_the_same_factor_with_another_that_differs_is_another_family() -> None:
    two = (varied(threads=1, prime=10), varied(threads=2, prime=20))
    assert across.scalings(two) == []
    four = (*two, varied(threads=2, prime=10), varied(threads=1, prime=20))
    assert len(across.scalings(four)) == 2


def test_what_no_number_scales_is_not_drawn() -> None:
    assert across.scalings((varied(threads="all"), varied(threads=True))) == []


def test_what_was_varied_is_what_scales() -> None:
    """`nas` has threads and ranks; a run of before there were several names one."""
    (scaling,) = across.scalings([varied(ranks=n) for n in (1, 4, 2)])
    assert scaling.parameter == "ranks" and [at for at, _ in scaling.steps] == [1, 2, 4]
    both = [varied(threads=t, ranks=r) for t in (1, 2) for r in (1, 2)]
    scaled = [(s.parameter, len(s.steps)) for s in across.scalings(both)]
    assert sorted(scaled) == [("ranks", 2), ("ranks", 2), ("threads", 2), ("threads", 2)]
    for old, now in ((None, ()), ("threads", ("threads",))):
        assert WorkloadRecord(**{**CPU.model_dump(), "scaling": old}).scaling == now


def test_between_every_two_environments(tmp_path: Path) -> None:
    truth = {("vm", PEERS[0].key): 1.5, ("native", PEERS[1].key): 2.0, ("vm", PEERS[1].key): 3.0}
    folder, analysis = made_run(tmp_path / "run", workloads=PEERS, truth=truth, noise_sd=0.02)
    (crossing,) = across.crossings(folder.resolved.workloads)
    table = across.matrix(folder, analysis, crossing)
    assert table.heads[0].text == "client in"
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    labels = {e.key: e.label for e in folder.resolved.environments}
    native, vm = labels["native"], labels["vm"]
    assert ";" not in rows[native][0]  # the reference itself
    worse = [float(text.split("; ")[1].split()[0]) for text in (*rows[native][1:], *rows[vm])]
    assert worse == pytest.approx([2.0, 1.5, 3.0], rel=0.05)


def test_the_page_has_both(tmp_path: Path) -> None:
    page = made_report(tmp_path / "run", workloads=(*THREADS, *PEERS), blocks=8).read_text()
    assert "Across workloads" in page and "Speed-up over threads" in page
    assert "between every two environments" in page


def test_shares_stand_by_their_nines() -> None:
    coordinate = Coordinate(name="quantile", unit="1", scale="quantile")
    line = curve.CurveLine(
        "a", tuple(curve.LinePoint(q, 1.0, 1.0, 1.0) for q in (0.5, 0.9, 0.99, 0.999))
    )
    chart = curve.draw([line], coordinate, "latency", "s")
    places = [row["x"] for row in chart.data["points"]]
    assert places == pytest.approx([0.301, 1, 2, 3], abs=1e-3)


def test_sizes_stand_by_their_powers_of_two() -> None:
    coordinate = Coordinate(name="message_size", unit="B", scale="log")
    line = curve.CurveLine("a", tuple(curve.LinePoint(2.0**n, 1.0, 1.0, 1.0) for n in (0, 1, 2)))
    spec = str(curve.draw([line], coordinate, "time", "s").layout)
    assert "'base': 2" in spec and "KiB" in spec
