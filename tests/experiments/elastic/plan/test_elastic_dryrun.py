"""`ullage elastic run PLAN --dry-run`: what would happen, and nothing happens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.elastic.elastic_made import SyntheticEnvironment, SyntheticRun, make
from tests.support import commandkit
from ullage.cli.output.elastic_dryrun import parity
from ullage.experiments.elastic.plan import schema
from ullage.experiments.elastic.plan.units import Scaled
from ullage.runs import records

PLAN = """\
name: film
baseline: lxc
time_scale: 60
room: 3
resources: {cpus: 1, memory: 128MiB}
environments:
  lxc: {provider: lxc}
  late: {provider: lxc, boot_delay: 40s, resources: {cpus: 1, memory: 256MiB}, nodes: {max: 4}}
nodes: {max: 8}
arrivals: {kind: uniform, rate: 0.0125, viewers: 20}
video: {length: 10m, bitrate: 1000000}
patience: 30s
repetitions: 6
"""


def dry(folder: Path, text: str = PLAN, *more: str) -> commandkit.Done:
    """The command, in a folder in which nothing is made."""
    (folder / "plan.yaml").write_text(text, encoding="utf-8")
    before = sorted(folder.rglob("*"))
    done = commandkit.ullage("elastic", "run", "plan.yaml", "--dry-run", *more, cwd=folder)
    assert sorted(folder.rglob("*")) == before
    return done


def forecast_of(folder: Path, text: str = PLAN) -> dict[str, Any]:
    done = dry(folder, text, "--json")
    assert done.code == 0, done
    document: dict[str, Any] = done.json
    return document


def test_it_says_what_would_happen(tmp_path: Path) -> None:
    done = dry(tmp_path)
    assert done.code == 0, done
    for words in (
        "2 environments × 6 repetitions, each with the same viewers: 20, uniform, 10 min of film",
        "late: lxc, 0 to 4 nodes, 1 CPU and 256MiB each, policy elastic-movie, held back for 40 s",
        "order of the first repetition (the seed is drawn at the start; this is seed 0's): l",
        "nominal: without what nodes take to come and go",
        "equal: cpus: 1",
        "not equal, as the plan has it: memory: lxc: 128MiB; late: 256MiB",
        "compared: boot_delay: lxc: 0 s; late: 40 s",
        "compared: nodes: lxc: max 8; late: max 4",
    ):
        assert words in done.stdout, words
    assert "time runs ×60" in done.stderr


def test_a_time_that_allocations_are_made_to_take_is_said(tmp_path: Path) -> None:
    slow = "allocation_time: {mean: 40s, deviation: 2s}"
    done = dry(tmp_path, PLAN.replace("boot_delay: 40s", slow))
    assert "elastic-movie, held back until it took 40 s ± 2 s from its request" in done.stdout
    assert "compared: allocation_time: lxc: as long as it takes; late: 40 s ± 2 s" in done.stdout
    forecast = forecast_of(tmp_path, PLAN.replace("boot_delay: 40s", slow))
    allocations = {e["key"]: e["allocation_s"] for e in forecast["environments"]}
    assert allocations == {"lxc": None, "late": [pytest.approx(40 / 60), pytest.approx(2 / 60)]}


def test_the_time_is_that_of_its_viewers(tmp_path: Path) -> None:
    forecast = forecast_of(tmp_path)
    watched = (20 / 0.0125 + 600) / 60
    assert forecast["repetition_s"] == pytest.approx({"lxc": watched, "late": watched + 40 / 60})
    assert forecast["total_s"] == pytest.approx(6 * (2 * watched + 40 / 60))
    plan, _ = schema.loads(PLAN)
    assert forecast["most_s"] == pytest.approx(12 * Scaled(plan).repetition_s)
    assert forecast["learned"] is None
    assert sorted(forecast["order"]) == ["late", "lxc"]


def test_an_earlier_run_with_the_same_viewers_tells_the_time(tmp_path: Path) -> None:
    plan, document = schema.loads(PLAN)
    runs = tmp_path / "runs"
    ran = SyntheticRun(
        environments={"lxc": SyntheticEnvironment(fails=frozenset({0}))}, name="film", repetitions=3
    )
    file = make(runs, ran) / records.RESOLVED
    resolved = json.loads(file.read_text())
    assert forecast_of(tmp_path)["learned"] is None, "its viewers were others"
    resolved["users_time"] = Scaled(plan).users_time(schema.resolve(plan, document))
    file.write_text(json.dumps(resolved))
    forecast = forecast_of(tmp_path)
    assert forecast["learned"] == "20260101T000000-film"
    assert forecast["repetition_s"]["lxc"] == 10
    assert forecast["repetition_s"]["late"] > 30, "which that run did not have"
    delayed = forecast_of(
        tmp_path, PLAN.replace("lxc: {provider: lxc}", "lxc: {provider: lxc, boot_delay: 1h}")
    )
    assert delayed["repetition_s"]["lxc"] > 60, "which was not held back there"


def test_a_budget_that_ends_each_repetition_is_said(tmp_path: Path) -> None:
    cut = forecast_of(tmp_path, PLAN + "budgets: {repetition: 5s}\n")["doubts"]
    assert any("of lxc and late takes longer than the 5 s that" in doubt for doubt in cut), cut
    delayed = forecast_of(tmp_path, PLAN.replace("boot_delay: 40s", "boot_delay: 100h"))["doubts"]
    assert any("a repetition of late takes longer" in doubt for doubt in delayed), delayed
    assert not any("budgets" in doubt for doubt in forecast_of(tmp_path)["doubts"])


def test_a_run_that_is_taken_up_has_the_order_that_it_drew(tmp_path: Path) -> None:
    run = make(tmp_path, SyntheticRun(environments={"lxc": SyntheticEnvironment()}, repetitions=3))
    (run / records.PLAN).write_text(PLAN)
    seed = json.loads((run / records.RESOLVED).read_text())["seed"]
    done = commandkit.ullage("elastic", "run", "--resume", str(run), "--dry-run", "--json")
    assert done.code == 0, done
    assert done.json["seed"] == seed


def test_what_the_host_lacks_is_said_and_not_refused(tmp_path: Path) -> None:
    text = PLAN.replace("cpus: 1, memory: 256MiB", "cpus: 1000, memory: 256MiB")
    text = text.replace("kind: uniform, rate: 0.0125, viewers: 20", "kind: trace, file: none.txt")
    forecast = forecast_of(tmp_path, text)
    codes = [lack["code"] for lack in forecast["lacks"]]
    for code in ("elastic-host-too-small", "elastic-bad-trace"):
        assert code in codes, forecast["lacks"]
    assert codes.count("elastic-host-too-small") == 1, "said of each environment"
    assert forecast["total_s"] is None
    done = dry(tmp_path, text)
    assert done.code == 0
    assert "not on this host: the plan asks for 1000 CPUs" in done.stderr
    assert "time: not known, as the trace cannot be read" in done.stdout


def test_a_plan_that_is_none_is_refused(tmp_path: Path) -> None:
    assert dry(tmp_path, PLAN.replace("room: 3", "rooms: 3")).code == 2
    done = dry(tmp_path, PLAN + "policy: {name: clairvoyant}\n")
    assert done.code == 2
    assert "policy.name: found" in done.stderr and "not on this host" not in done.stderr


def test_no_patience_and_no_baseline_are_said(tmp_path: Path) -> None:
    text = PLAN.replace("patience: 30s", "patience: 0").replace("baseline: lxc\n", "")
    done = dry(tmp_path, text)
    assert "who finds no room is blocked at once" in done.stdout
    assert "no baseline: the environments are shown side by side" in done.stdout


def test_equal_means_equal_in_all() -> None:
    plan, document = schema.loads(PLAN)
    rows = {row.nuisance: row for row in parity(plan, schema.resolve(plan, document))}
    assert {name for name, row in rows.items() if not row.equal} == {"memory"}
    assert rows["memory"].values == {"lxc": "128MiB", "late": "256MiB"}
    half = PLAN.replace("cpus: 1, memory: 256MiB", "cpus: 0.5, memory: 128MiB")
    plan, document = schema.loads(half)
    rows = {row.nuisance: row for row in parity(plan, schema.resolve(plan, document))}
    assert rows["cpus"].values == {"lxc": "1", "late": "1, quota 0.5"}


def test_it_says_from_which_machines_viewers_come(tmp_path: Path) -> None:
    text = f"{PLAN}generators: {{number: 3, provider: native, resources: {{memory: 64MiB}}}}\n"
    assert "they come from 3 machines of native, 1 CPU and 64MiB each" in dry(tmp_path, text).stdout
    machines = forecast_of(tmp_path, text)["generators"]
    assert machines["number"] == 3 and machines["provider"] == "native"
    assert machines["resources"] == {"cpus": 1, "memory": 64 << 20}
    assert forecast_of(tmp_path)["generators"] is None
    anybody = text.replace("nodes: {max: 8}\n", "")
    assert "lxc: lxc, 0 to 247 nodes, " in dry(tmp_path, anybody).stdout, "they have addresses too"
