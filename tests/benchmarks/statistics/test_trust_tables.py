"""What is printed: every aim has its row, every miss its star."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from benchmarks.statistics import __main__ as command
from benchmarks.statistics import (
    aa_traces,
    aims,
    campaign,
    doc_claims,
    run_all,
    sample_size,
    tables,
)
from benchmarks.statistics.attacks import counts
from benchmarks.statistics.attacks.regimes import ATTACKS
from benchmarks.statistics.attacks.totals import Bills
from benchmarks.statistics.noise import SYNTHETIC, Regime
from benchmarks.statistics.run_all import Results, Size
from benchmarks.statistics.sample_size import SampleSize
from benchmarks.statistics.table import Share, markdown
from benchmarks.statistics.traces import all_traces

SMALL = Size(campaigns=40, calibration=40, aa_traces=20, doc_claims=3, attacks=4, bills=30)
CLEAN, COARSE = (
    next(attack for attack in ATTACKS if attack.name == name)
    for name in ("clean, family of 10", "coarse constant, 40 blocks")
)
BY_NAME = {regime.name: regime for regime in SYNTHETIC}


@pytest.fixture(scope="module")
def results() -> Results:
    regimes = [BY_NAME["white"], BY_NAME["instances"]]
    truth = Results(SMALL, [campaign.run(regime, 40, 1) for regime in regimes])
    real: Regime = dataclasses.replace(BY_NAME["random walk"], name="mine: cpu", synthetic=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample_size, "MOST_TRIALS", 300)
        truth.sample_sizes = [
            *sample_size.run(BY_NAME["white"], 40, 1),
            *sample_size.run(real, 40, 1),
        ]
    truth.nulls = [aa_traces.run(all_traces()[0], 20, 1)]
    truth.doc_claims = [doc_claims.DocClaim("seen", Share(3, 40), "at most 5 %")]
    truth.struck = [counts.strike(attack, SMALL.attacks, 1) for attack in (CLEAN, COARSE)]
    truth.paid = Bills(1, SMALL.bills, 1)()
    return truth


def test_every_table_has_rows_as_wide_as_its_header(results: Results) -> None:
    printed = tables.tables(results)
    assert len({table.title for table in printed}) == len(printed)
    for table in printed:
        # So few campaigns may have no false verdict.
        assert table.rows or "false" in table.title.lower()
        assert all(len(row) == len(table.header) for row in table.rows)


def test_markdown_is_a_table(results: Results) -> None:
    text = markdown(tables.tables(results))
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.endswith("|")
    assert "### Coverage of the 95 % interval" in text
    assert "| white |" in text


def test_a_miss_has_a_star_and_fails_its_aim(results: Results) -> None:
    outcome = results.outcomes[0]
    bad = dict(outcome.shares)
    bad["t 12"], bad["stop about 14"] = Share(9000, 10_000), Share(9000, 10_000)
    bad["fixed false, Holm"] = Share(900, 10_000)
    wrong = Results(SMALL, [dataclasses.replace(outcome, shares=bad)], results.sample_sizes)
    wrong.nulls = [dataclasses.replace(results.nulls[0], holm=Share(30, 200))]
    row = tables.coverage(wrong).rows[0]
    assert "90.0*" in row
    assert any(cell.startswith("90.0* (") for cell in row)
    assert "9.0*" in tables.false_claims(wrong).rows[0]
    assert "15.0*" in tables.records(wrong).rows[0][2]
    holds = {figure.name: figure.holds for figure in aims.figures(wrong)}
    assert holds["coverage, fixed designs, least"] is False
    assert holds["coverage under the stop rule, least"] is False
    assert holds["false claims after Holm, synthetic, most"] is False
    assert holds[f"false claims after Holm, {results.nulls[0].trace}"] is False


def test_savings_have_an_aim_on_recorded_noise_only(results: Results) -> None:
    rows = [f for f in aims.figures(results) if f.name.startswith("trials for 5 %")]
    assert {f.name.rpartition(", ")[2]: bool(f.reach) for f in rows} == {
        "white": False,
        "mine: cpu": True,
    }
    real = next(f for f in rows if f.reach)
    assert real.holds is (real.value <= 0.5)


@pytest.mark.parametrize(
    ("trials", "holds"), [((30, None), True), ((200, None), None), ((200, 300), False)]
)
def test_a_bound_decides_only_what_it_can(
    trials: tuple[int, int | None], holds: bool | None, results: Results
) -> None:
    designs = {"paired t": SampleSize(trials[0]), "sequential t": SampleSize(trials[1])}
    real = dataclasses.replace(BY_NAME["white"], name="mine", synthetic=False)
    row = sample_size.Row(real, 1.05, designs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample_size, "MOST_TRIALS", 300)
        figure = aims.figures(Results(SMALL, results.outcomes, [row], []))[-1]
    assert figure.holds is holds


def test_an_attack_has_rows_of_its_own(results: Results) -> None:
    white = results.outcomes[0]
    regime = dataclasses.replace(white.regime, name="attack", note="no interval withstands it")
    bad = dict(white.shares) | {"t 12": Share(9000, 10_000)}
    attack = dataclasses.replace(white, regime=regime, shares=bad)
    holds = {
        figure.name: figure.holds
        for figure in aims.figures(Results(SMALL, [white, attack], results.sample_sizes))
    }
    assert holds["coverage, fixed designs, least, attack"] is False
    assert "coverage, fixed designs, least" in holds
    notes = tables.coverage(Results(SMALL, [white, attack])).notes
    assert "attack: no interval withstands it" in notes


def test_attacks_have_figures_with_aims(results: Results) -> None:
    holds = {figure.name: figure.holds for figure in aims.figures(results)}
    assert holds["any false claim, clean, family of 10"] is True
    assert "coverage of bills, lognormal, σ = 1, 12 blocks" in holds
    assert not any(name.startswith("coverage, AR") for name in holds)


def test_json_has_every_count(results: Results) -> None:
    document = json.loads(json.dumps(command.counts(results)))
    assert [of["name"] for of in document["attacks"]] == [CLEAN.name, COARSE.name]
    assert document["totals"][1]["bill"]["of"] == SMALL.bills
    assert document["regimes"][0]["shares"]["t 12"]["of"] == 40
    assert {row["effect"] for row in document["needed"]} == set(sample_size.EFFECTS)
    assert document["again"][0]["family"] == 8


@pytest.mark.parametrize(
    ("form", "sign"),
    [
        ([], "Trials for power 0.8"),
        (["--json"], '[ {"name": "'),
        (["--counts"], '"regimes"'),
        (["--markdown"], "###"),
    ],
)
def test_the_command_prints(
    form: list[str],
    sign: str,
    results: Results,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    requests: list[tuple[Size, int]] = []

    def run(size: Size, jobs: int) -> Results:
        requests.append((size, jobs))
        return results

    monkeypatch.setattr(run_all, "run", run)
    command.main(["--quick", "--jobs", "3", *form])
    assert requests == [(run_all.QUICK, 3)]
    assert sign in capsys.readouterr().out


def test_the_attacks_alone(capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["--attacks", "2", "--only", "AR 0.5, 12", "--jobs", "1", "--markdown"])
    printed = capsys.readouterr().out
    assert "| AR 0.5, 12 blocks | 1 | 12 | 2 |" in printed
    assert "| coverage, AR 0.5, 12 blocks in one environment |" in printed
    assert "clean, family" not in printed


@pytest.mark.parametrize(
    "wrong",
    [
        ["--jobs", "0"],
        ["--minutes", "0"],
        ["--quick", "--full"],
        ["--quick", "--attacks", "5"],
        ["--attacks", "0"],
        ["--attacks", "5", "--json"],
        ["--only", "AR"],
        ["--attacks", "5", "--only", "nothing of that name"],
    ],
)
def test_impossible_options_are_refused(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as error:
        command.main([*wrong, "--record", str(Path("never"))])
    assert error.value.code == 2
    assert not Path("never").exists()


def test_costs_of_instances_are_not_compared() -> None:
    assert not run_all.comparable(BY_NAME["instances"])
    assert not run_all.comparable(BY_NAME["lopsided"])
    assert run_all.comparable(BY_NAME["white"])
