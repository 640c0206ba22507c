"""`n-queens`: its output, read strictly, and the program itself."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.workloads.workload_runs import checked, printing, without_a_line
from ullage.host import binaries
from ullage.workloads.base import InvalidTrialError, Output
from ullage.workloads.mpi.nqueens import SOLUTIONS, NQueens, NQueensParameters, pieces

QUEENS = NQueens()
DATA = Path(__file__).parent / "data" / "nqueens"
CHECKOUT = Path(__file__).resolve().parents[2]
SAMPLES = {"openmpi-4.1.4": "openmpi", "mpich-4.0.2": "mpich"}
names = pytest.mark.parametrize("name", list(SAMPLES))


@cache
def sample(name: str) -> tuple[NQueensParameters, dict[str, Output]]:
    text = (DATA / f"{name}.txt").read_text()
    fields: dict[str, Any] = {"mpi": SAMPLES[name], "queens": 10, "ranks": 3}
    return NQueensParameters(**fields), {"main": Output(0, None, text, "", 0.2)}


def refused(parameters: NQueensParameters, outputs: dict[str, Output]) -> str:
    with pytest.raises(InvalidTrialError) as caught:
        QUEENS.check(parameters, outputs)
    return str(caught.value)


@names
def test_recorded_outputs(name: str) -> None:
    parameters, outputs = sample(name)
    figures = checked(QUEENS, parameters, outputs)
    assert set(figures) == {metric.name for metric in QUEENS.metrics}
    assert figures["solutions_per_second"] == pytest.approx(724 / figures["seconds"])
    assert name.split("-")[1] in QUEENS.facts(parameters, outputs)["library"]


def attacks(rows: tuple[int, ...]) -> bool:
    """Do two queens stand on one diagonal?"""
    return any(abs(rows[a] - rows[b]) == b - a for b in range(len(rows)) for a in range(b))


@pytest.mark.parametrize("queens", range(4, 8))
def test_the_known_counts_by_trying_all(queens: int) -> None:
    assert SOLUTIONS[queens] == sum(not attacks(rows) for rows in permutations(range(queens)))
    for depth in (1, 2, 3):
        tried = permutations(range(queens), depth)
        assert pieces(queens, depth) == sum(not attacks(rows) for rows in tried)


@names
def test_every_line_is_needed(name: str) -> None:
    parameters, outputs = sample(name)
    for text in without_a_line(outputs["main"].stdout):
        assert refused(parameters, printing(outputs, "main", text))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("solutions 724", "solutions 723", "724 solutions: it says 723"),
        ("solutions 184", "solutions 183", "its ranks 723"),
        ("pieces 364", "pieces 365", "364 pieces"),
        ("pieces 182", "pieces 181", "364 pieces: it says 364, its ranks 363"),
        (r"seconds .*", "seconds 0.000000000", "0.0 s of"),
        (r"seconds .*", "seconds 0.201000000", "0.201 s of"),
        ("queens 10", "queens 11", "line 1"),
        ("ranks 3", "ranks 4", "line 1"),
    ],
)
def test_counts_that_are_not_right(old: str, new: str, words: str) -> None:
    parameters, outputs = sample("openmpi-4.1.4")
    text, count = re.subn(old, new, outputs["main"].stdout, count=1)
    assert count == 1
    assert words in refused(parameters, printing(outputs, "main", text))


def test_a_bad_end_has_no_figures() -> None:
    parameters, outputs = sample("openmpi-4.1.4")
    assert refused(parameters, {"main": replace(outputs["main"], status=137)})


@settings(max_examples=120)
@given(name=st.sampled_from(sorted(SAMPLES)), data=st.data())
def test_a_bent_output_is_invalid_or_a_figure(name: str, data: st.DataObject) -> None:
    parameters, outputs = sample(name)
    text = outputs["main"].stdout
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(len(text), at + 30)))
    changed = text[:at] + data.draw(st.text(max_size=12)) + text[until:]
    try:
        QUEENS.check(parameters, printing(outputs, "main", changed))
    except InvalidTrialError:
        return
    checked(QUEENS, parameters, printing(outputs, "main", changed))


@pytest.mark.parametrize(
    "wrong",
    [
        {"queens": 3},
        {"queens": 21},
        {"queens": 4, "depth": 4},
        {"depth": 0},
        {"ranks": 0},
        {"ranks": 201},  # mpirun would run out of descriptors, and hang
        {"ranks": 1, "peer": "second"},
    ],
)
def test_wrong_parameters(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        NQueensParameters(**wrong)


def test_titles() -> None:
    assert QUEENS.title(NQueensParameters(ranks=1)) == "14 queens on 1 rank"
    assert QUEENS.title(NQueensParameters(peer="host")) == "14 queens on 2 ranks, some to the host"
    assert QUEENS.title(NQueensParameters(peer="each")) == "14 queens on 2 ranks in all instances"


# --- the program ----------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def program() -> Path:
    path = binaries.DIRECTORY / "openmpi/nqueens"
    argv = ["make", "--silent", "-C", str(CHECKOUT / "mpi/programs/nqueens"), str(path)]
    subprocess.run(argv, check=True)
    return path


def ran(program: Path, ranks: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    argv += ["--mca", "mpi_yield_when_idle", "1", "-np", str(ranks), str(program), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(("queens", "depth", "ranks"), [(4, 3, 1), (8, 5, 4), (11, 2, 2)])
def test_real_runs(program: Path, queens: int, depth: int, ranks: int) -> None:
    done = ran(program, ranks, str(queens), str(depth))
    parameters = NQueensParameters(queens=queens, depth=depth, ranks=ranks)
    outputs = {"main": Output(done.returncode, None, done.stdout, done.stderr, 60.0)}
    checked(QUEENS, parameters, outputs)


@pytest.mark.parametrize("arguments", [(), ("3", "2"), ("8", "x"), ("4", "4"), ("21", "3")])
def test_bad_arguments(program: Path, arguments: tuple[str, ...]) -> None:
    done = ran(program, 1, *arguments)
    assert done.returncode != 0 and "error: " in done.stderr
