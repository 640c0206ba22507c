"""`dedup`: the real program on small inputs, recorded results, and results that must not pass."""

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
from tests.workloads.workload_runs import checked, context_in, finish, run, run_trial, start
from ullage.workloads.base import InvalidTrialError, Output
from ullage.workloads.pipelines.dedup import Dedup, DedupParameters

DEDUP = Dedup()
MEMORY = DedupParameters(size="8MiB", threads=2)
DISK = DedupParameters(
    size="8MiB", duplicates=0.7, chunking="fastcdc", level=0, source="disk", corpus_seed=5
)
RECORDED = {"dedup/memory.json": MEMORY, "dedup/disk.json": DISK}


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    """A directory that is not in memory, with the program."""
    with TemporaryDirectory(dir="/var/tmp") as directory:
        yield kit.place_program(Path(directory))


@pytest.mark.parametrize("parameters", [MEMORY, DISK])
def test_a_real_run(disk: Path, parameters: DedupParameters) -> None:
    outputs = run(DEDUP, parameters, disk)
    figures = checked(DEDUP, parameters, outputs)
    assert 0 < figures["output_ratio"] < 1
    assert ("io_seconds" in figures) == (parameters.source == "disk")
    facts = DEDUP.facts(parameters, outputs)
    assert len(facts["input_sha256"]) == 64
    assert facts["stage_compress"].startswith("busy ")
    assert facts["queue_unique"].endswith(f"{8 * parameters.threads} fit")


def test_every_number_of_threads_gives_the_reference(disk: Path) -> None:
    run(DEDUP, MEMORY, disk)
    digests = set()
    for threads in (1, 2, 5):
        parameters = MEMORY.model_copy(update={"threads": threads})
        outputs = run_trial(DEDUP, parameters, disk)
        DEDUP.check(parameters, outputs)
        digests.add(json.loads(outputs["main"].stdout)["output_sha256"])
    assert len(digests) == 1


def test_an_input_that_is_missing_or_changed(disk: Path) -> None:
    run(DEDUP, MEMORY, disk)
    with (disk / "corpus").open("r+b") as corpus:
        corpus.seek(5_000_000)
        corpus.write(b"not what was made")
    with pytest.raises(InvalidTrialError, match="SHA-256 of the input"):
        DEDUP.check(MEMORY, run_trial(DEDUP, MEMORY, disk))
    for task in DEDUP.cleanup(MEMORY, context_in(disk, DEDUP, MEMORY)):
        assert finish(task, start(task, disk), disk).status == 0
    assert not (disk / "corpus").exists()
    with pytest.raises(InvalidTrialError, match="there is no input corpus"):
        DEDUP.check(MEMORY, run_trial(DEDUP, MEMORY, disk))


def test_an_output_of_other_settings(disk: Path) -> None:
    run(DEDUP, MEMORY, disk)
    other_level = MEMORY.model_copy(update={"level": 1})
    with pytest.raises(InvalidTrialError, match="bytes of output"):
        DEDUP.check(other_level, run_trial(DEDUP, other_level, disk))


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_results(name: str) -> None:
    output, parameters = kit.recorded(name), RECORDED[name]
    figures = checked(DEDUP, parameters, {"main": output})
    result = json.loads(output.stdout)
    assert figures["throughput"] * result["seconds"] == pytest.approx(8 << 20)
    assert figures["output_ratio"] == pytest.approx(result["output_bytes"] / (8 << 20))
    kit.survives(DEDUP, parameters, output)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"threads": 1}, "threads"),
        ({"size": "9MiB"}, "size"),
        ({"duplicates": 0.31}, "duplicates"),
        ({"compressible": 0.5}, "compressible"),
        ({"chunking": "fastcdc"}, "chunking"),
        ({"level": 4}, "level"),
        ({"source": "disk"}, "flushed"),
        ({"corpus_seed": 2}, "seed"),
    ],
)
def test_a_result_of_other_parameters(change: dict[str, Any], says: str) -> None:
    requested = DedupParameters(**{**MEMORY.model_dump(), **change})
    with pytest.raises(InvalidTrialError, match=says):
        DEDUP.check(requested, {"main": kit.recorded("dedup/memory.json")})


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("output_sha256", "0" * 64, "SHA-256 of the output"),
        ("input_sha256", "0" * 64, "SHA-256 of the input"),
        ("output_bytes", 7, "bytes of output"),
        ("unique_chunks", 0, "cannot be"),
        ("seconds", 1e6, "the whole process took"),
        ("seconds", 0.0, "seconds"),
        ("stages", [], "stages"),
        ("queues", [], "queues"),
        ("reference", None, "reference"),
        ("program", "ferret", "program"),
    ],
)
def test_a_result_that_contradicts_itself(field: str, value: Any, says: str) -> None:
    output = kit.bent(kit.recorded("dedup/memory.json"), lambda r: r.update({field: value}))
    with pytest.raises(InvalidTrialError, match=says):
        DEDUP.check(MEMORY, {"main": output})


def test_cpu_time_that_does_not_fit() -> None:
    output = kit.bent(kit.recorded("dedup/memory.json"), lambda r: r["cpu"].update(user_s=1e3))
    with pytest.raises(InvalidTrialError, match="do not fit"):
        DEDUP.check(MEMORY, {"main": output})


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_leaf_that_changed(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(RECORDED)))
    output = kit.recorded(name)
    result = json.loads(output.stdout)
    path = data.draw(st.sampled_from(list(kit.paths(result))))
    text = json.dumps(kit.replaced(result, path, data.draw(kit.leaves())))
    kit.survives(DEDUP, RECORDED[name], replace(output, stdout=text))


@given(st.integers(0, 5000), st.integers(0, 5000), st.text(max_size=20))
@settings(max_examples=100, deadline=None)
def test_text_that_changed(start: int, end: int, new: str) -> None:
    output = kit.recorded("dedup/disk.json")
    text = output.stdout[:start] + new + output.stdout[end:]
    kit.survives(DEDUP, DISK, replace(output, stdout=text))


def test_a_program_that_failed() -> None:
    output = Output(status=1, signal=None, stdout="", stderr="error: no memory\n", seconds=1.0)
    with pytest.raises(InvalidTrialError, match="no memory"):
        DEDUP.check(MEMORY, {"main": output})
    with pytest.raises(InvalidTrialError, match="signal 9"):
        DEDUP.check(MEMORY, {"main": replace(output, status=None, signal=9)})
    with pytest.raises(InvalidTrialError, match="printed"):
        DEDUP.check(MEMORY, {"main": replace(output, status=0, stdout="1" * 100_000)})


@pytest.mark.parametrize(
    "wrong",
    [
        {"threads": 0},
        {"size": "1KiB"},
        {"duplicates": 1.0},
        {"compressible": -0.1},
        {"level": 20},
        {"chunking": "gear"},
        {"source": "tape"},
    ],
)
def test_wrong_parameters(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        DedupParameters(**wrong)


def test_title_and_program() -> None:
    assert DEDUP.title(DedupParameters()) == "dedup, 30 % duplicates, 1 thread"
    assert DEDUP.title(DISK) == "dedup, 70 % duplicates, 1 thread, disk"
    kit.need_program()
    assert list(DEDUP.files(MEMORY)) == ["ullage-pipelines"]
