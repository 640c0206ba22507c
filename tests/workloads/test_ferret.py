"""`ferret`: the real program on a few images, recorded results, and results that must not pass."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.workloads import pipelineskit as kit
from tests.workloads.workload_runs import checked, run, run_trial
from ullage.workloads.base import InvalidTrialError
from ullage.workloads.pipelines.ferret import Ferret, FerretParameters

FERRET = Ferret()
MEMORY = FerretParameters(images=64, queries=32, classes=8, k=5, threads=2)
DISK = FerretParameters(images=40, queries=20, classes=4, k=3, source="disk", corpus_seed=9)
JPEG = FerretParameters(
    images=40, queries=20, classes=4, k=3, image_format="jpeg", tables=12, projections=6, width=1500
)
RECORDED = {"ferret/memory.json": MEMORY, "ferret/disk.json": DISK}


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    """A directory that is not in memory, with the program."""
    with TemporaryDirectory(dir="/var/tmp") as directory:
        yield kit.place_program(Path(directory))


@pytest.mark.parametrize("parameters", [MEMORY, DISK, JPEG])
def test_a_real_run(disk: Path, parameters: FerretParameters) -> None:
    outputs = run(FERRET, parameters, disk)
    figures = checked(FERRET, parameters, outputs)
    assert figures["recall"] >= 0.9
    assert ("io_seconds" in figures) == (parameters.source == "disk")
    facts = FERRET.facts(parameters, outputs)
    assert len(facts["corpus_sha256"]) == 64
    assert facts["stage_rank"].startswith("busy ")


def test_every_number_of_threads_gives_the_reference(disk: Path) -> None:
    run(FERRET, MEMORY, disk)
    for threads in (1, 5):
        parameters = MEMORY.model_copy(update={"threads": threads})
        FERRET.check(parameters, run_trial(FERRET, parameters, disk))


def test_images_that_are_missing_or_changed(disk: Path) -> None:
    run(FERRET, MEMORY, disk)
    with (disk / "corpus").open("r+b") as corpus:
        corpus.seek(100)
        corpus.write(b"not what was made")
    with pytest.raises(InvalidTrialError, match="SHA-256 of the images"):
        FERRET.check(MEMORY, run_trial(FERRET, MEMORY, disk))
    (disk / "corpus").unlink()
    with pytest.raises(InvalidTrialError, match="there is no corpus"):
        FERRET.check(MEMORY, run_trial(FERRET, MEMORY, disk))
    (disk / "reference").unlink()
    with pytest.raises(InvalidTrialError, match="there is no reference"):
        FERRET.check(MEMORY, run_trial(FERRET, MEMORY, disk))


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_results(name: str) -> None:
    output, parameters = kit.recorded(name), RECORDED[name]
    figures = checked(FERRET, parameters, {"main": output})
    result = json.loads(output.stdout)
    assert figures["throughput"] * result["seconds"] == pytest.approx(parameters.queries)
    assert figures["recall"] == result["recall"]
    kit.survives(FERRET, parameters, output)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"threads": 1}, "threads"),
        ({"images": 65}, "images"),
        ({"queries": 33}, "queries"),
        ({"classes": 9}, "classes"),
        ({"k": 6}, "k: asked for 6"),
        ({"candidates": 99}, "candidates"),
        ({"source": "disk"}, "disk"),
        ({"corpus_seed": 2}, "seed"),
        ({"image_format": "jpeg"}, "format"),
        ({"tables": 7}, "tables"),
        ({"projections": 9}, "projections"),
        ({"width": 999}, "width"),
    ],
)
def test_a_result_of_other_parameters(change: dict[str, Any], says: str) -> None:
    requested = FerretParameters(**{**MEMORY.model_dump(), **change})
    with pytest.raises(InvalidTrialError, match=says):
        FERRET.check(requested, {"main": kit.recorded("ferret/memory.json")})


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("output_sha256", "0" * 64, "SHA-256 of the answers"),
        ("corpus_sha256", "0" * 64, "SHA-256 of the images"),
        ("recall", 0.5, "recall"),
        ("queries", 31, "queries answered"),
        ("seconds", 1e6, "the whole process took"),
        ("stages", [], "stages"),
        ("program", "dedup", "program"),
    ],
)
def test_a_result_that_contradicts_itself(field: str, value: Any, says: str) -> None:
    output = kit.bent(kit.recorded("ferret/memory.json"), lambda r: r.update({field: value}))
    with pytest.raises(InvalidTrialError, match=says):
        FERRET.check(MEMORY, {"main": output})


def test_too_little_recall() -> None:
    def forget(result: dict[str, Any]) -> None:
        result["recall"] = result["reference"]["recall"] = 0.85

    output = kit.bent(kit.recorded("ferret/memory.json"), forget)
    with pytest.raises(InvalidTrialError, match=r"recall is 0\.8500, least_recall is 0\.9"):
        FERRET.check(MEMORY, {"main": output})
    FERRET.check(MEMORY.model_copy(update={"least_recall": 0.8}), {"main": output})


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_leaf_that_changed(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(RECORDED)))
    output = kit.recorded(name)
    result = json.loads(output.stdout)
    path = data.draw(st.sampled_from(list(kit.paths(result))))
    text = json.dumps(kit.replaced(result, path, data.draw(kit.leaves())))
    kit.survives(FERRET, RECORDED[name], replace(output, stdout=text))


@given(st.integers(0, 5000), st.integers(0, 5000), st.text(max_size=20))
@settings(max_examples=100, deadline=None)
def test_text_that_changed(start: int, end: int, new: str) -> None:
    output = kit.recorded("ferret/disk.json")
    text = output.stdout[:start] + new + output.stdout[end:]
    kit.survives(FERRET, DISK, replace(output, stdout=text))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"threads": 0}, "threads"),
        ({"k": 600}, "k must be at most images, 512"),
        ({"candidates": 5}, "k must be at most candidates, 5"),
        ({"least_recall": 1.5}, "least_recall"),
        ({"source": "tape"}, "source"),
        ({"image_format": "png"}, "image_format"),
        ({"tables": 65}, "tables"),
        ({"projections": 0}, "projections"),
        ({"width": 0}, "width"),
    ],
)
def test_wrong_parameters(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        FerretParameters(**wrong)


def test_titles() -> None:
    assert FERRET.title(FerretParameters()) == "ferret, 1024 queries, 1 thread"
    assert FERRET.title(JPEG) == "ferret, 20 queries, JPEG, 1 thread"
    assert FERRET.title(DISK) == "ferret, 20 queries, 1 thread, disk"


def test_records_from_before_are_of_the_same_work() -> None:
    """What was added later stands in no record while it has its default."""
    added = {"image_format", "tables", "projections", "width"}
    assert not added & MEMORY.model_dump(mode="json").keys()
    dumped = JPEG.model_dump(mode="json")
    assert {name: dumped[name] for name in added} == {
        "image_format": "jpeg",
        "tables": 12,
        "projections": 6,
        "width": 1500,
    }
