"""`ullage clock …` as a user meets it: real processes, real networks, and what goes wrong."""

import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from testing.synthetic import make_run
from tests.experiments.clock.commands_kit import assert_failed, ullage, valid
from tests.support import commandkit
from tests.support.commandkit import Done
from ullage.cli.main import app
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.experiments.clock import lab
from ullage.experiments.clock.nodes import server_of
from ullage.experiments.clock.ntp import report as disciplining
from ullage.experiments.clock.ntp.logs import Tracking
from ullage.experiments.clock.ntp.outcome import (
    IntervalOutcome,
    NtpOptions,
    NtpOutcome,
    NtpReport,
    PublishedNtp,
    Sizes,
)
from ullage.experiments.clock.ocean import report as sailing
from ullage.experiments.clock.ocean.outcome import (
    OceanOptions,
    OceanReport,
    OceanSeries,
    OceanTrial,
)
from ullage.experiments.clock.outcomes import Binomial, EcpOptions, Flat, KAry, TwoLevel
from ullage.experiments.clock.reports import (
    CheckReport,
    CostReport,
    PublishedCost,
    ScalingReport,
    published,
)


def test_check_explains_and_tests_this_machine(tmp_path: Path) -> None:
    page = tmp_path / "check.html"
    done = ullage("check", "--quick", "--json", "--html", str(page))
    assert done.code == 0, done.stderr
    valid(CheckReport, done.stdout)
    report = CheckReport.model_validate_json(done.stdout)
    assert set(report.promise.reasons) <= set(report.advice)
    assert report.kept
    assert report.strict.alone is not None
    assert report.strict.alone.reads >= 20_000_000
    text = page.read_text()
    assert "The values of one thread strictly increase" in text
    assert "Loop of 1,000,000 instructions" in text


def test_a_clock_that_breaks_its_promise_fails_the_check() -> None:
    done = ullage("check", "--quick", "--json")
    report = CheckReport.model_validate_json(done.stdout)
    alone = report.strict.alone
    assert alone is not None
    broken = alone.model_copy(update={"equal": 1})
    strict = report.strict.model_copy(update={"alone": broken})
    assert not report.model_copy(update={"strict": strict}).kept
    assert report.kept


def test_cost_stands_beside_what_was_published() -> None:
    done = CliRunner().invoke(app, ["clock", "cost", "--quick", "--json"])
    assert done.exit_code == 0, done.output
    valid(CostReport, done.stdout)
    report = CostReport.model_validate_json(done.stdout)
    assert {"rvec", "counter", "monotonic"} <= {cost.clock for cost in report.measured.clocks}
    assert published("cost", PublishedCost).ratio("rvec", "counter") == pytest.approx(420 / 257)
    assert published("cost", PublishedCost).ratio("rvec-stamp", "counter") is None
    printed = CliRunner().invoke(app, ["clock", "cost", "--quick"])
    assert "1.63" in printed.stdout


def test_scaling_beside_real_processes() -> None:
    done = ullage("scaling", "--quick", "--processes", "3", "--json")
    assert done.code == 0, done.stderr
    valid(ScalingReport, done.stdout)
    report = ScalingReport.model_validate_json(done.stdout)
    assert len(report.stages) + len(report.absent) == 2
    for stage in report.stages:
        assert len(stage.measured) == 50
        assert {(real.nodes, real.topology.kind) for real in stage.real} == {
            (nodes, kind) for nodes in (2, 3) for kind in ("flat", "two-level", "binomial")
        }
        assert all(real.failed == 0 and min(real.messages) >= 2 for real in stage.real)
        assert max(point.nodes for point in stage.simulated.points) == 10_000
        order = stage.order
        assert order is not None and order.messages == 400
        # What is promised of both clocks holds for every pair of stamps.
        assert order.bound_ns is not None and order.worst_ns <= order.bound_ns
        assert max(order.shortest_ns) > 0


def test_topologies_are_those_of_the_simulation() -> None:
    flat, two, binomial, tree = Flat(), TwoLevel(), Binomial(), KAry(children=3)
    assert [server_of(flat, n, 10) for n in range(1, 10)] == [0] * 9
    assert [server_of(two, n, 10) for n in range(1, 10)] == [0, 0, 0, 1, 2, 3, 1, 2, 3]
    assert [server_of(binomial, n, 8) for n in range(1, 8)] == [0, 0, 1, 0, 1, 2, 3]
    assert [server_of(tree, n, 8) for n in range(1, 8)] == [0, 0, 0, 1, 1, 1, 2]


def test_what_the_measurement_refuses() -> None:
    with pytest.raises(UllageError) as refused:
        lab.ecp(EcpOptions(runs=0), lambda done, of: None)
    assert refused.value.kind is errors.CLOCK_NOT_MEASURED
    assert "runs must be 1" in refused.value.message


def without_the_module(*argv: str) -> Done:
    return commandkit.ullage(*argv, module="tests.experiments.clock.without_clock")


@pytest.mark.parametrize(
    "command", ["check", "cost", "sync localhost", "serve", "scaling", "ntp", "ocean"]
)
def test_without_the_extension_module(command: str) -> None:
    assert_failed(without_the_module("clock", *command.split()), errors.CLOCK_NOT_BUILT)


def test_what_needs_no_clock_works_without_the_extension_module(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", blocks=2, raw=False)
    for argv in (
        ["--help"],
        ["--version"],
        ["clock", "sync", "--help"],
        ["init", "--schema"],
        ["list", "--runs", str(tmp_path)],
        ["query", "select count(*) from samples", "--runs", str(tmp_path)],
        ["show", str(run)],
        ["report", str(run)],
    ):
        done = without_the_module(*argv)
        assert done.code == 0, (argv, done.stderr)
        assert done.stdout
    checks = json.loads(without_the_module("doctor", "--json").stdout)["findings"]
    (clocks,) = (check for check in checks if check["what"] == "clock")
    assert (clocks["state"], "make build" in clocks["hint"]) == ("missing", True)


def interval(applied: Sizes | None) -> IntervalOutcome:
    tracking = Tracking(
        server="10.0.0.1",
        stratum=11,
        rms_offset_ns=900,
        frequency_ppb=50_000,
        skew_ppb=10,
        update_interval_s=1,
    )
    return IntervalOutcome(
        asked_s=1,
        poll=0,
        used_s=1,
        observed_s=20,
        error_ppb=-50_000,
        error_bound_ppb=20,
        tracking=tracking,
        delay_ns=100_000,
        settled_ns=None if applied is None else 5,
        decided=None,
        applied=applied,
        decided_learning=None,
        applied_learning=None,
        rate_max_ppb=None,
        unexplained_ns=0,
        updates=[],
        corrections=[],
    )


def test_ntp_in_words_settled_or_not() -> None:
    applied = Sizes.of([-1_000, 3_000])
    outcome = NtpOutcome(
        options=NtpOptions(intervals_s=(1,)),
        counter_khz=2e6,
        server="a server",
        versions={"chrony": "4"},
        intervals=[interval(applied), interval(None)],
    )
    report = NtpReport(measured=outcome, published=published("ntp", PublishedNtp))
    view = disciplining.view(report)
    assert "moved the clock by 2 µs at a time on average, 3 µs at most" in view.answer[0]
    assert "had not settled" in view.answer[1]
    measured, theirs = view.sections[0].tables
    assert [cell.text for cell in measured.rows[1]][3:8] == ["0", "–", "–", "–", "–"]
    assert [cell.text for cell in theirs.rows[2]] == ["600 s", "10.2 ms", "651 µs"]
    jsonschema.validate(
        report.model_dump(mode="json"),
        NtpReport.model_json_schema(mode="serialization"),
    )


def test_ocean_in_words_with_and_without_figures() -> None:
    trials = [
        OceanTrial(variant=name, block=block, position=0, total_s=2 * longer, skew_after_s=1e-6)
        for name, longer in (("stock", 1.0), ("stock~again", 1.0), ("ullage", 1.1))
        for block in range(3)
    ]
    failed = OceanTrial(variant="noise", block=0, position=0, failed="no result")
    series = OceanSeries(
        ranks=4,
        variants=("stock", "stock~again", "ullage", "noise"),
        trials=(*trials, failed),
    )
    report = OceanReport(
        options=OceanOptions(ranks=(4,)),
        cpus=2,
        left_out={"chrony": "no chronyd"},
        versions={"mpirun.openmpi": "4.1"},
        series=(series,),
    )
    view = sailing.view(report)
    assert view.answer[0].startswith("4 ranks: with our clock the run takes 1.100 (1.100 to 1.100)")
    assert view.sections[0].lines == ("Left out: chrony: no chronyd",)
    (table,) = view.sections[0].tables
    rows = [[cell.text for cell in row] for row in table.rows]
    assert rows[2][:2] == ["ullage", "2.20 s"]
    assert rows[2][4:] == ["1", "1 µs", "3", "0"]
    assert rows[3] == ["noise", "–", "–", "–", "–", "–", "0", "1"]
