"""What a unit of work costs: the price, times the figure and its interval."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testing.synthetic import CURVE_WORKLOAD, ENVIRONMENTS, WORKLOADS, make_run
from ullage.analysis import overhead
from ullage.analysis.comparison import money
from ullage.analysis.comparison.model import Analysis, Cost
from ullage.cli import main
from ullage.report import energy, export, page
from ullage.runs.reader import RunFolder
from ullage.runs.records import EnvironmentRecord, Metric, Price, WorkloadRecord

EUR = Price(per_hour=0.36, currency="EUR")
CPU, MEMORY = WORKLOADS[:2]
TIMED = WORKLOADS[0].model_copy(
    update={
        "key": "build",
        "title": "a build",
        "metrics": (
            Metric(name="time", unit="s", better="lower", description="time", primary=True),
        ),
    }
)


def _priced(**prices: Price) -> tuple[EnvironmentRecord, ...]:
    return tuple(
        environment.model_copy(update={"price": prices.get(environment.key.partition("~")[0])})
        for environment in ENVIRONMENTS
    )


def _run(
    path: Path,
    environments: Sequence[EnvironmentRecord],
    workloads: Sequence[WorkloadRecord] = (CPU, MEMORY, TIMED),
    **more: Any,
) -> RunFolder:
    options = {"noise_sd": 0.02, "failures": [], "raw": False, **more}
    folder = make_run(path, environments=environments, workloads=workloads, **options)
    return RunFolder.open(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    dear = EUR.model_copy(update={"per_hour": 0.72})
    return _run(tmp_path_factory.mktemp("money") / "run", _priced(native=EUR, vm=dear))


@pytest.fixture(scope="module")
def analysis(folder: RunFolder) -> Analysis:
    return overhead.analyse(folder)


def _cost(analysis: Analysis, environment: str, workload: str) -> Cost:
    (cost,) = [c for c in analysis.money if (c.environment, c.workload) == (environment, workload)]
    return cost


def test_only_what_has_a_price_has_costs(analysis: Analysis) -> None:
    assert {cost.environment for cost in analysis.money} == {"native", "vm"}
    assert len(analysis.money) == 2 * 3


def test_a_rate_costs_the_price_over_the_rate(analysis: Analysis) -> None:
    c = next(c for c in analysis.primary() if (c.environment, c.workload) == ("vm", CPU.key))
    cost = _cost(analysis, "vm", CPU.key)
    assert c.environment_values is not None
    assert (cost.unit, cost.instances, cost.currency) == ("1", 1, "EUR")
    assert c.environment_values.mean_kind == "harmonic"
    assert cost.cost == pytest.approx(0.72 / 3600 / c.environment_values.mean)
    # The bounds of a rate change places.
    assert cost.low == pytest.approx(0.72 / 3600 / c.environment_values.mean_high)  # type: ignore[operator]
    assert cost.high == pytest.approx(0.72 / 3600 / c.environment_values.mean_low)  # type: ignore[operator]
    assert _cost(analysis, "vm", MEMORY.key).unit == "B"


def test_a_time_costs_the_price_times_the_time(analysis: Analysis) -> None:
    c = next(c for c in analysis.primary() if (c.environment, c.workload) == ("vm", "build"))
    cost = _cost(analysis, "vm", "build")
    assert c.environment_values is not None
    assert cost.unit == "run"
    for mine, theirs in (("cost", "mean"), ("low", "mean_low"), ("high", "mean_high")):
        expected = 0.72 / 3600 * getattr(c.environment_values, theirs)
        assert getattr(cost, mine) == pytest.approx(expected)


def test_the_ratio_is_that_of_the_totals_times_that_of_the_prices(analysis: Analysis) -> None:
    for workload in (CPU.key, MEMORY.key, "build"):
        c = next(c for c in analysis.primary() if (c.environment, c.workload) == ("vm", workload))
        cost = _cost(analysis, "vm", workload)
        assert cost.ratio is not None
        assert c.totals is not None
        for name in ("estimate", "low", "high"):
            assert getattr(cost.ratio, name) == pytest.approx(2 * getattr(c.totals, name))
        assert _cost(analysis, "native", workload).ratio is None


def test_other_currencies_have_no_ratio(tmp_path: Path) -> None:
    usd = Price(per_hour=0.36, currency="USD")
    analysis = overhead.analyse(_run(tmp_path / "run", _priced(native=EUR, vm=usd, lxc=EUR)))
    assert _cost(analysis, "vm", CPU.key).ratio is None
    assert _cost(analysis, "lxc", CPU.key).ratio is not None
    (note,) = analysis.money_notes
    assert note.startswith("Prices are in EUR and USD: no ratio is made across currencies")
    alone = overhead.analyse(_run(tmp_path / "alone", _priced(vm=usd)))
    assert {cost.environment for cost in alone.money} == {"vm"}
    assert _cost(alone, "vm", CPU.key).ratio is None
    assert alone.money_notes == ()


def test_lives_are_billed_as_the_price_says(tmp_path: Path) -> None:
    """Begun minutes are paid whole; the cost of the work is what it is without."""
    price = {"per_hour": 0.36, "currency": "EUR", "billed": "hour", "least_s": 7201}
    folder = _run(tmp_path / "run", _priced(native=EUR, vm=Price.model_validate(price)))
    number = sum(event.environment == "vm" for event in folder.provisioned)
    (note,) = overhead.analyse(folder).money_notes
    assert note.startswith(f"{number} instance")
    assert f"billed by the hour, 7201 s at least: {number * 3 * 0.36:.3g} EUR" in note


def test_a_slow_fifth_is_paid_for(tmp_path: Path) -> None:
    """Issue 19: a fifth of the trials five times as long; the median says nothing of them."""
    folder = _run(tmp_path / "run", _priced(native=EUR, vm=EUR), (TIMED,), truth={}, blocks=20)

    def slow(event: dict[str, Any]) -> None:
        if event["event"] == "trial" and event["environment"] == "vm" and event["block"] % 5 == 0:
            event["metrics"]["time"] *= 5

    _change_trials(folder.path, slow)
    folder = RunFolder.open(folder.path)
    analysis = overhead.analyse(folder)
    times = [t.metrics["time"] for t in folder.trials if t.environment == "vm"]
    cost = _cost(analysis, "vm", "build")
    assert cost.cost == pytest.approx(0.36 / 3600 * float(np.mean(times)))
    assert cost.low is not None
    assert cost.high is not None
    assert cost.low < cost.cost < cost.high
    c = next(c for c in analysis.primary() if c.environment == "vm")
    assert c.totals is not None
    assert c.ratio is not None
    assert c.totals.estimate == pytest.approx(1.8, rel=0.1)
    assert c.ratio == pytest.approx(5**0.2, rel=0.1)
    assert cost.ratio is not None
    assert cost.ratio.estimate == pytest.approx(c.totals.estimate)


def test_what_has_no_bill_says_why(tmp_path: Path) -> None:
    """Negative and zero figures: no bill of nothing, and none that is owed to the customer."""
    folder = _run(tmp_path / "run", _priced(native=EUR, vm=EUR), (TIMED,), blocks=6)

    def nothing(event: dict[str, Any]) -> None:
        if event["event"] == "trial" and event["environment"] == "vm" and event["block"] == 2:
            event["metrics"]["time"] *= -1

    _change_trials(folder.path, nothing)
    analysis = overhead.analyse(RunFolder.open(folder.path))
    assert [cost.environment for cost in analysis.money] == ["native"]
    (note,) = analysis.money_notes
    assert note == (
        "No bill of qemu-tcg (emulated), a build: zero or negative figures in 1 of 6 pairs."
    )
    assert energy.table(analysis).note.endswith(note.replace(" ", " "))  # type: ignore[union-attr]


def test_a_bill_beyond_all_numbers_has_no_interval(tmp_path: Path) -> None:
    """Two trials at a confidence so high that the bounds are 0 and infinite."""
    folder = _run(
        tmp_path / "run", _priced(vm=EUR), (TIMED,), blocks=2, confidence=0.99999, noise_sd=0.9
    )
    analysis = overhead.analyse(folder)
    (cost,) = analysis.money
    assert (cost.low, cost.high) == (None, None)
    assert math.isfinite(cost.cost)
    json.dumps(analysis.dump(), allow_nan=False)


def test_without_a_price_nothing_is_shown(tmp_path: Path) -> None:
    folder = _run(tmp_path / "run", ENVIRONMENTS, blocks=3)
    analysis = overhead.analyse(folder)
    assert (analysis.money, energy.table(analysis), money.rows(analysis)) == ((), None, [])
    assert "What the work costs" not in page.render(folder, analysis)
    assert {row["cost"] for row in export.rows(analysis)} == {None}


def test_what_is_no_work_per_time_has_no_cost(tmp_path: Path) -> None:
    """Curves, counts, a rate of which less is better, and cells in which too much failed."""

    def of(name: str, unit: str, better: str) -> WorkloadRecord:
        metric = Metric(name=name, unit=unit, better=better, description=name, primary=True)
        return CPU.model_copy(update={"key": name, "metrics": (metric,)})

    works = (
        CURVE_WORKLOAD,
        of("errors", "1/s", "lower"),
        of("uptime", "s", "higher"),
        of("weight", "B", "lower"),
        MEMORY,
    )
    failures = [(block, "vm", MEMORY.key) for block in range(3)]
    environments = _priced(native=EUR, vm=EUR, lxc=EUR)
    analysis = overhead.analyse(_run(tmp_path / "run", environments, works, failures=failures))
    assert {(c.environment, c.workload) for c in analysis.money} == {
        ("native", MEMORY.key),
        ("lxc", MEMORY.key),
    }


def _change_trials(path: Path, change: Any) -> None:
    journal = path / "journal.jsonl"
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    for event in events:
        change(event)
    journal.write_text("".join(json.dumps(event) + "\n" for event in events))


@pytest.mark.parametrize(("together", "paid"), [(True, 2), (False, 1)])
def test_all_instances_that_did_the_work_together_are_paid(
    tmp_path: Path, together: bool, paid: int
) -> None:
    """An MPI job over two instances costs both; two that work side by side cost one each."""
    folder = _run(tmp_path / "run", _priced(vm=EUR), (CPU,), blocks=6)

    def two(event: dict[str, Any]) -> None:
        if event["event"] == "trial" and event["environment"] == "vm":
            second_role = {**event["roles"][0], "role": "second", "instance": "vm-1"}
            client = {**event["roles"][0], "role": "client", "instance": "host-0"}
            event["roles"] += [second_role, client]
            if not together:
                event["instances"] = {"vm-0": event["metrics"], "vm-1": event["metrics"]}

    _change_trials(folder.path, two)
    lines = (folder.path / "journal.jsonl").read_text().splitlines()
    up = next(json.loads(x) for x in lines if '"provisioned"' in x and '"vm-0"' in x)
    up["instance"] = "vm-1"
    (folder.path / "journal.jsonl").write_text(
        "\n".join([lines[0], json.dumps(up), *lines[1:], ""])
    )
    assert _cost(overhead.analyse(RunFolder.open(folder.path)), "vm", CPU.key).instances == paid


def test_show_prints_them(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", ["ullage", "show", str(folder.path)])
    with pytest.raises(SystemExit):
        main.main()
    output = capsys.readouterr().out
    assert "billion units" in output
    assert "Price times the mean time of the work, slow trials too" in output


def test_costs_are_told_for_the_same_amount_of_work(analysis: Analysis) -> None:
    rows = money.rows(analysis)
    assert all(len(row) == len(money.HEADS) for row in rows)
    amounts = {(row[1], row[4]) for row in rows}
    assert amounts == {
        ("CPU, 1 thread (events_rate)", "billion units"),
        ("memory writes, 1 MiB blocks (throughput)", "PB"),
        ("a build (time)", "run"),
    }
    native, vm = (row for row in rows if row[4] == "run")
    assert native[0] == "native"
    assert native[2].endswith(" EUR")
    assert native[5:] == ("", "")
    assert " to " in vm[3]
    assert " to " in vm[6]


def test_the_export_has_them_and_the_report_too(folder: RunFolder, analysis: Analysis) -> None:
    read = list(csv.DictReader(io.StringIO(export.export(analysis, "csv").decode())))
    for row in read:
        if row["is_primary"] == "True" and row["environment"] == "vm":
            cost = _cost(analysis, "vm", row["workload"])
            assert cost.ratio is not None
            assert float(row["cost"]) == cost.cost
            assert float(row["cost_ratio_high"]) == cost.ratio.high
            assert (row["currency"], row["cost_unit"]) == ("EUR", cost.unit)
        else:
            assert row["cost"] == ""
    html = page.render(folder, analysis)
    assert "What the work costs" in html
    assert "billion units" in html
    assert len(list(export.money_table(analysis).rows)) == len(analysis.money)


@pytest.mark.parametrize(
    ("billed", "least_s", "lived_s", "seconds"),
    [
        ("second", 0, 59.2, 60),
        ("second", 60, 12, 60),
        ("minute", 0, 61, 120),
        ("hour", 0, 1, 3600),
        ("hour", 0, 3601, 7200),
        ("minute", 600, 1, 600),
        ("second", 0, 0, 0),
    ],
)
def test_what_begins_is_paid_whole(
    billed: Any, least_s: float, lived_s: float, seconds: float
) -> None:
    price = Price(per_hour=3600, currency="EUR", billed=billed, least_s=least_s)
    assert price.bill(lived_s) == pytest.approx(seconds)
    assert Price(per_hour=1, currency="EUR").model_dump() == {"per_hour": 1, "currency": "EUR"}
