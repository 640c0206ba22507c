"""What the ocean benchmark makes of the trials."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.mpi import ocean
from ullage.experiments.clock.ocean.outcome import OceanSeries, OceanTrial, noise_name
from ullage.experiments.clock.ocean.trial import OceanJob

QUICK = OceanJob("openmpi", 2, 5)


def trial_of(variant: str, block: int, seconds: float) -> OceanTrial:
    """A trial with all of its times in proportion."""
    fields = ("total_s", "step_median_s", "step_deviation_s", "skew_before_s", "skew_after_s")
    times: dict[str, Any] = dict.fromkeys(fields, seconds)
    return OceanTrial(
        variant=variant,
        block=block,
        position=0,
        taken_share=0.25,
        impossible_steps=block,
        backward_stamps=0,
        **times,
    )


def series() -> OceanSeries:
    """Stock takes 1 to 6 s, chrony twice as long; noise failed in block 3, ours always."""
    trials = []
    for block in range(6):
        stock = block + 1.0
        trials += [trial_of("stock", block, stock), trial_of("stock~again", block, stock)]
        trials.append(trial_of("chrony", block, 2 * stock * 1.01 ** (-1) ** block))
        noisy = trial_of(NOISE, block, 1.1 * stock)
        trials.append(noisy if block != 3 else failed(NOISE, block))
        trials.append(failed("ullage", block))
    names = ("stock", "stock~again", "chrony", "ullage", NOISE)
    return OceanSeries(ranks=2, variants=names, trials=tuple(trials))


NOISE = noise_name((100_000, 10_000))


def failed(variant: str, block: int) -> OceanTrial:
    return OceanTrial(variant=variant, block=block, position=0, failed="made to")


def test_ratios_are_of_pairs_and_failures_are_shown() -> None:
    figures = {figure.name: figure for figure in ocean.figures(series())}
    assert figures["run time, chrony ÷ stock (6 pairs)"].value == pytest.approx(2)
    assert figures["run time, chrony ÷ stock (6 pairs)"].note == "worse (difference)"
    noisy = figures[f"run time, {NOISE} ÷ stock (5 pairs)"]
    assert noisy.value == pytest.approx(1.1)
    assert noisy.peer_value == pytest.approx(1 / 0.9)
    assert noisy.note.startswith("inconclusive (too-few-blocks)")
    assert figures[f"{NOISE}: failed runs"].value == 1
    assert figures["ullage: failed runs"].value == 6
    assert not any("ullage ÷" in name or "÷ ullage" in name for name in figures)
    assert figures["chrony: run"].value == pytest.approx(7, rel=0.01)
    assert figures["chrony: ranks' clocks apart after the steps"].note.startswith("15 impossible")


def test_the_result_file_is_json(tmp_path: Path) -> None:
    ocean.Record(QUICK, {}, series()).write(tmp_path / "result.json")
    document = json.loads((tmp_path / "result.json").read_text())
    assert len(document["trials"]) == 6 * 5
    assert document["job"]["mpi"] == "openmpi"
    assert {figure["name"] for figure in document["figures"]} >= {"chrony: run"}
