"""What one small run on LXC tells: energy by its meter, and the latencies of a huge simulation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab import elastickit as kit
from ullage.experiments.elastic import folder as folders
from ullage.experiments.elastic.folder import Ready, Requested

pytestmark = [pytest.mark.lab, pytest.mark.root]

IDLE_WATTS, CORE_WATTS = 20.0, 12.0
METERS = f"""\
meters:
  host: {{meter: model, idle_watts: {IDLE_WATTS}, core_watts: {CORE_WATTS}, every: 3s}}
"""
SPEC = """\
room: 100
nodes: {allocation: one_per_need}
arrivals: {kind: uniform, rate: 10000, viewers: 1200000}
video: {length: 100s}
allocation: {run: RUN, environment: node}
points: 0
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("chain")
    plan = kit.write_plan(root, "{node: {provider: lxc}}", repetitions=2)
    plan.write_text(plan.read_text(encoding="utf-8") + METERS, encoding="utf-8")
    runs = root / "runs"
    done = kit.run("run", str(plan), "--runs", str(runs))
    assert done.returncode == 0, done.stderr
    assert not kit.left_by(runs)
    (folder,) = runs.iterdir()
    return folder


def as_json(*argv: str) -> dict[str, Any]:
    done = kit.run(*argv, "--json")
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def seconds(run: Path) -> list[float]:
    """From the front's request for each node until it knew that it streams."""
    acts = kit.acts(run.parent)
    places = sorted(run.glob(f"{folders.REPETITIONS}/*/*"))
    assert len(places) == 2 and acts
    took = []
    for place in places:
        requests = {act.node: act for act in folders.read_acts(place) if isinstance(act, Requested)}
        ready = [act for act in folders.read_acts(place) if isinstance(act, Ready)]
        took += [(act.at_ns - requests[act.node].front_ns) / 1e9 for act in ready]
    return took


def test_a_million_viewers_meet_nodes_that_come_as_the_run_s_did(run: Path, tmp_path: Path) -> None:
    took = seconds(run)
    assert len(took) >= 4
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.replace("RUN", str(run)), encoding="utf-8")
    outcome = as_json("simulate", str(spec))
    assert outcome["whole"]["watching"]["most"] >= 950_000
    assert outcome["whole"]["most_nodes"] >= 9_000
    allocation = outcome["allocation"]
    assert allocation["count"] >= 9_000
    assert any(allocation["max_s"] == pytest.approx(lasted, abs=1e-6) for lasted in took)
    assert min(took) - 1e-6 <= allocation["mean_s"] <= max(took) + 1e-6
    for quantile in ("p50_s", "p90_s", "p99_s"):
        assert any(allocation[quantile] == pytest.approx(lasted, rel=2e-3) for lasted in took)


def test_the_energy_of_a_repetition_and_of_a_viewer(run: Path) -> None:
    analysis = as_json("show", str(run))
    (node,) = analysis["environments"]
    values = {estimate["metric"]: dict(estimate["values"]) for estimate in node["estimates"]}
    assert set(values["energy"]) == set(values["energy_per_viewer"]) == {0, 1}
    cpus = len(Path("/proc/stat").read_text(encoding="utf-8").split("\ncpu")) - 1
    for number, joules in values["energy"].items():
        outcome = folders.read_outcome(folders.repetition_folder(run, "node", number))
        assert outcome is not None
        lasted = (outcome.end_ns - outcome.start_ns) / 1e9
        # The viewers, the nodes and the front have done something.
        assert IDLE_WATTS * lasted < joules <= (IDLE_WATTS + CORE_WATTS * cpus) * lasted
        assert values["energy_per_viewer"][number] == pytest.approx(joules / 8)
    (doubt,) = (doubt for doubt in analysis["doubts"] if doubt["code"] == "energy-not-measured")
    assert "are estimated, by the meter host (model)" in doubt["message"]
