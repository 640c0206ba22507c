"""A run's viewers can be simulated from its plan: the same `arrivals:` mean the same in both."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from scipy import stats

from ullage import _elastic
from ullage.common.yamlfile import parse
from ullage.experiments.elastic.plan import schema
from ullage.experiments.elastic.run.repetition import arrivals_settings
from ullage.experiments.elastic.simulator import spec
from ullage.host import binaries

RUN: Final = "name: film\nroom: 1000\nenvironments: {box: {provider: oci}}\n"
SIMULATION: Final = "room: 1000\nallocation: 0\n"
TRACE: Final = (0.0, 0.125, 0.125, 0.75)
VIEWERS: Final = 300
EXACT: Final = {
    "trace": "{kind: trace, file: FILE}",
    "uniform": f"{{kind: uniform, rate: 400, viewers: {VIEWERS}}}",
}
DRAWN: Final = {
    "poisson": f"{{kind: poisson, rate: 400, viewers: {VIEWERS}}}",
    "flash-crowd": f"{{kind: flash-crowd, rate: 50, viewers: {VIEWERS}, peak: 1500, at: 500ms, "
    "decay: 250ms}",
}


def run_s(arrivals: str, folder: Path) -> list[float]:
    """When the viewers of a run with such a plan were due, in seconds: nobody answers them."""
    plan, _ = schema.loads(f"{RUN}arrivals: {arrivals}\n")
    config: dict[str, Any] = {
        "nodes": ["http://127.0.0.1:9/film"],
        "arrivals": arrivals_settings(plan, 7, folder / "arrivals.txt"),
        "video": {"bytes": 500, "bitrate_bps": 40_000, "chunk_bytes": 100},
        "sessions": str(folder / "sessions.jsonl"),
        "lateness_limit_ms": 600_000,
        "shards": 1,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    argv = [str(binaries.program("ullage-viewers")), "run", "--config", str(folder / "config.json")]
    done = subprocess.run(argv, capture_output=True, check=False, timeout=240)
    zero_ns = json.loads(done.stdout)["started_ns"]
    lines = (folder / "sessions.jsonl").read_text(encoding="utf-8").splitlines()
    return sorted((json.loads(line)["due_ns"] - zero_ns) / 1e9 for line in lines)


def simulated_s(arrivals: str) -> list[float]:
    """When those of a simulation came that has the same field."""
    document = parse(f"{SIMULATION}arrivals: {arrivals}\n")
    simulation = spec.check(document, document.data)
    sessions = simulation.specification.arrivals.viewers or len(TRACE)
    outcome = json.loads(_elastic.simulate(simulation.text(records=True, sessions=sessions)))
    return [record["asked_s"] for record in outcome["records"]]


def test_every_kind_of_a_run_can_be_simulated() -> None:
    assert {*EXACT, *DRAWN} == {*schema.COMING}


@pytest.mark.parametrize("kind", EXACT)
def test_what_is_not_drawn_comes_at_the_same_instants(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "trace.txt"
    file.write_text("".join(f"{at_s}\n" for at_s in TRACE), encoding="ascii")
    arrivals = EXACT[kind].replace("FILE", str(file))
    real, simulated = run_s(arrivals, tmp_path), simulated_s(arrivals)
    # Where all come at equal distances a run begins with the first, and a simulation one before.
    before = 1 / 400 if kind == "uniform" else 0.0
    assert real == pytest.approx([at_s - before for at_s in simulated], abs=2e-9)
    assert len(real) == (VIEWERS if kind == "uniform" else len(TRACE))


@pytest.mark.parametrize("kind", DRAWN)
def test_what_is_drawn_has_the_same_course(kind: str, tmp_path: Path) -> None:
    """By Kolmogorov and Smirnov; of the same seeds each time, so it is never chance."""
    real, simulated = run_s(DRAWN[kind], tmp_path), simulated_s(DRAWN[kind])
    assert len(real) == len(simulated) == VIEWERS
    assert stats.ks_2samp(real, simulated).pvalue > 0.01
    # A course that is not the same is seen in as many viewers: one that lasts half as long again.
    assert stats.ks_2samp(np.array(real) * 1.5, simulated).pvalue < 1e-4
