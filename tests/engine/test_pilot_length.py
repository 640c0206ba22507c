"""What a pilot says of the length of trials."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.engine.test_pilot import SyntheticRun, planned
from ullage.cli.output import dryrun
from ullage.common.console import stdout
from ullage.engine.triallength import better_lengths
from ullage.plan.matrix import Matrix
from ullage.plan.schema import Plan
from ullage.runs.events import Event, Trial
from ullage.runs.reader import RunFolder

PLAN = """\
name: small
baseline: native
image: host
environments:
  native: {provider: native}
  other: {provider: native}
  third: {provider: native}
workloads:
  - {name: sysbench-cpu, as: load, time_s: 8}
"""


def pilot(walk: float, text: str = PLAN, blocks: int = 40) -> RunFolder:
    """Trials one after the other, whose noise is white and a walk, so much a trial."""
    rng = np.random.default_rng(3)
    folder = SyntheticRun(1, blocks, text=text).folder()
    events: list[Event] = []
    level, number = 0.0, 0
    for event in folder.events:
        if isinstance(event, Trial):
            level += walk * rng.standard_normal()
            number += 1
            figure = 1000 * float(np.exp(-level - 0.01 * rng.standard_normal()))
            begin = number * 9 * 10**9
            metrics = {"events_per_second": figure}
            events.append(event.model_copy(update={"metrics": metrics, "epoch_ns": begin}))
        else:
            events.append(event)
    return replace(folder, events=tuple(events))


def small(text: str = PLAN, more: str = "") -> tuple[Plan, Matrix]:
    return planned(more, text)


def test_where_noise_has_a_memory_shorter_trials_are_advised(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdout, "width", 300)
    (length,) = better_lengths(pilot(0.05), *small())
    assert (length.workload, length.now_s) == ("load", 8)
    assert length.better_s < 8 and length.time < 0.9
    dryrun.show(*small(), as_json=False, pilot=pilot(0.05), runs=tmp_path)
    text = capsys.readouterr().out
    line = f"{{name: sysbench-cpu, as: load, time_s: {length.better_s:g}}}"
    assert f"trials of {length.better_s:g} s in place of 8 s" in text and line in text
    shorter = PLAN.replace("{name: sysbench-cpu, as: load, time_s: 8}", line)
    parameters = small(shorter)[1].cases[0].parameters.model_dump()
    assert parameters["time_s"] == length.better_s, "it can be pasted"
    dryrun.show(*small(), as_json=True, pilot=pilot(0.05), runs=tmp_path)
    (listed,) = json.loads(capsys.readouterr().out)["trial_lengths"]
    assert listed["better_s"] == length.better_s


def test_noise_without_a_memory_asks_for_nothing() -> None:
    assert better_lengths(pilot(0.0), *small()) == ()


def test_nothing_is_said_of_what_the_pilot_did_not_run() -> None:
    longer = PLAN.replace("time_s: 8", "time_s: 20")
    assert better_lengths(pilot(0.05), *small(longer)) == ()
    assert better_lengths(pilot(0.05), *small(more="repeat: {iterations: 2}\n")) == ()
    assert better_lengths(pilot(0.05), *small(more="design: duet\n")) == ()
    assert better_lengths(pilot(0.05, blocks=5), *small()) == ()


def test_a_second_is_short_enough() -> None:
    text = PLAN.replace("time_s: 8", "time_s: 1")
    assert better_lengths(pilot(0.05, text), *small(text)) == ()
