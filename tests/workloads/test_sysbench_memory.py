"""`sysbench-memory` on this host."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.workloads.workload_runs import checked, printing, run
from ullage.workloads.base import InvalidTrialError
from ullage.workloads.cpu.sysbench_memory import SysbenchMemory, SysbenchMemoryParameters

MEMORY = SysbenchMemory()


@pytest.mark.parametrize("operation", ["read", "write"])
@pytest.mark.parametrize("access", ["seq", "rnd"])
@pytest.mark.parametrize("scope", ["global", "local"])
def test_every_way_to_move_bytes(tmp_path: Path, operation: Any, access: Any, scope: Any) -> None:
    parameters = SysbenchMemoryParameters(
        operation=operation, access=access, scope=scope, total_size="16MiB", block_size="16KiB"
    )
    figures = checked(MEMORY, parameters, run(MEMORY, parameters, tmp_path))
    assert figures["total_time_s"] > 0


def test_mebibytes_are_converted_exactly(tmp_path: Path) -> None:
    parameters = SysbenchMemoryParameters(threads=2)
    outputs = run(MEMORY, parameters, tmp_path)
    figures = checked(MEMORY, parameters, outputs)
    (printed,) = re.findall(r"\(([0-9.]+) MiB/sec\)", outputs["main"].stdout)
    assert figures["throughput"] == float(printed) * 1_048_576
    assert "total_time_s" not in figures


def test_threads_share_the_blocks_out_evenly(tmp_path: Path) -> None:
    parameters = SysbenchMemoryParameters(threads=3, total_size="10MiB", block_size="64KiB")
    assert parameters.blocks == 159
    checked(MEMORY, parameters, run(MEMORY, parameters, tmp_path))


def test_other_work_is_not_what_was_asked(tmp_path: Path) -> None:
    requested: dict[str, Any] = {"total_size": "16MiB", "block_size": "64KiB"}
    outputs = run(MEMORY, SysbenchMemoryParameters(**requested), tmp_path)
    for change, says in (
        ({"block_size": "128KiB"}, "block size: 128KiB"),
        ({"total_size": "32MiB"}, "total size: 32MiB"),
        ({"operation": "read"}, "operation: read"),
        ({"scope": "local"}, "scope: local"),
    ):
        with pytest.raises(InvalidTrialError, match=says):
            MEMORY.check(SysbenchMemoryParameters(**{**requested, **change}), outputs)


def test_figures_that_contradict_each_other(tmp_path: Path) -> None:
    parameters = SysbenchMemoryParameters(total_size="16MiB", block_size="64KiB")
    outputs = run(MEMORY, parameters, tmp_path)
    text = outputs["main"].stdout
    for old, new, says in (
        ("operations: 256", "operations: 255", "256 blocks were asked for, 255 were done"),
        ("16.00 MiB transferred", "15.00 MiB transferred", "are not 15.0 MiB"),
    ):
        with pytest.raises(InvalidTrialError, match=says):
            MEMORY.check(parameters, printing(outputs, "main", text.replace(old, new)))
    slow = re.sub(r"\([0-9.]+ MiB/sec\)", "(0.00 MiB/sec)", text)
    with pytest.raises(InvalidTrialError, match="fewer than"):
        MEMORY.check(parameters, printing(outputs, "main", slow))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"block_size": "48KiB"}, "power of 2"),
        ({"block_size": "512B"}, "greater than"),
        ({"block_size": "a lot"}, "byte"),
        ({"total_size": "1MiB", "threads": 2}, "one block for each thread"),
        ({"total_size": "1000KB"}, "greater than"),
        ({"total_size": "10MiB", "time_s": 1}, "not both"),
        ({"time_s": None}, "give time_s or total_size"),
        ({"operation": "none"}, "'read' or 'write'"),
    ],
)
def test_wrong_parameters(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        SysbenchMemoryParameters(**wrong)


def test_title() -> None:
    assert MEMORY.title(SysbenchMemoryParameters()) == "memory write, 1 MiB blocks, 1 thread"
