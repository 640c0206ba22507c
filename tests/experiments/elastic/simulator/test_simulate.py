"""`ullage elastic simulate`, as a person calls it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ullage.cli.main import app

SPEC = """\
name: half an hour
room: 100
arrivals: {kind: poisson, rate: 0.2, viewers: 400}
video: {length: 30m}
patience: 60s
allocation: {kind: normal, mean: 59.447s, deviation: 1.312s}
"""


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def simulated(file: Path, *options: str) -> str:
    result = CliRunner().invoke(app, ["elastic", "simulate", str(file), *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_answer_and_every_figure(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(SPEC)
    output = simulated(file)
    assert output.startswith("half an hour: 400 viewers came, ")
    assert "share of them that was blocked" in output
    outcome = json.loads(simulated(file, "--json"))
    assert outcome["kind"] == "simulation"
    assert outcome["specification"]["patience"]["value"] == 60
    viewers = outcome["viewers"]
    assert viewers["finished"] + viewers["blocked"] == viewers["requests"] == 400
    assert len(outcome["curves"]["watching"]) > 100
    # Longer than anybody's patience: only those who come late enough are served.
    file.write_text(SPEC.replace("patience: 60s", "patience: 1s"))
    assert json.loads(simulated(file, "--json"))["blocked"] > outcome["blocked"]


def test_one_of_each_is_told_as_one(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(SPEC.replace("viewers: 400", "viewers: 1").replace("59.447s", "5s"))
    output = " ".join(simulated(file).split())
    assert (
        "1 viewer came, 0 % were blocked; at most 1 node at a time served 1 viewer, for" in output
    )


def test_who_is_turned_away_is_told_beside_who_is_blocked(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(SPEC + "nodes: {max: 0}\n")
    assert "0 % were blocked, 100 % turned away at once; at most 0 nodes" in simulated(file)


def test_where_nobody_comes(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(SPEC.replace("viewers: 400", "lasting: 1ms".replace("1ms", "0.000001")))
    assert "nobody came" in simulated(file)


def test_ten_thousand_nodes_and_a_million_viewers_at_a_time_are_not_too_many(
    tmp_path: Path,
) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(
        "room: 100\n"
        "nodes: {allocation: one_per_need}\n"
        "arrivals: {kind: uniform, rate: 10000, viewers: 1100000}\n"
        "video: {length: 100s}\n"
        "allocation: 1s\n"
        "points: 0\n"
    )
    outcome = json.loads(simulated(file, "--json"))
    assert outcome["whole"]["watching"]["most"] >= 990_000
    assert outcome["whole"]["most_nodes"] >= 9_900
