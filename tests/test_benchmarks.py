"""Every benchmark starts, and comes to its first row; none of them needs the tests."""

from __future__ import annotations

import ast
import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS, SUBJECTS

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "benchmarks").rglob("*.py"))
QUICK = {
    "clock.reads",
    "elastic.policies",
    "elastic.published",
    "energy.integrals",
    "engine.agent_under_wine",
    "engine.footprint",
    "engine.startup",
    "mpi.nas",
    "statistics.gate_rates",
    "workloads.basics_pairs",
    "workloads.flood_ping",
}
"""First rows within seconds; the others' take minutes, or are worth nothing beside other tests."""
ROOT_NEEDED = {
    "elastic.allocation",
    "elastic.paced",
    "elastic.twin",
    "elastic.viewers",
    "energy.meter_cost",
    "engine.agent_under_wine",
    "engine.demo_time",
    "engine.first_answer",
    "engine.guest_causes_cost",
    "engine.own_image_time",
    "engine.trial_cost",
    "environments.own_share",
    "mpi.pingpong",
    "profile.prediction",
    "statistics.injection",
    "workloads.basics_pairs",
    "workloads.flood_ping",
}
PROGRAMS = {
    "elastic.viewers": ("wrk", "httperf"),
    "environments.own_share": ("crun", "runc", "lxc-start"),
}
"""Peers without which there are only some of the rows; what `needs` names has none without."""
LESS = {"profile.prediction": ("--only", "gzip")}
END_S = 60


def marked(name: str) -> object:
    marks = [] if name in QUICK else [pytest.mark.long, pytest.mark.timeout(3600)]
    marks += [pytest.mark.root] if name in ROOT_NEEDED else []
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [marked(name) for name in BENCHMARKS])
def test_the_first_row_comes(name: str, tmp_path: Path) -> None:
    for program in PROGRAMS.get(name, ()):
        if shutil.which(program) is None:
            pytest.skip(f"{name} needs {program}")
    module = [sys.executable, "-m", f"benchmarks.{name}", "--quick", "--json"]
    errors = tmp_path / "errors"
    with errors.open("wb") as log:
        process = subprocess.Popen(
            [*module, *LESS.get(name, ())],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
        finally:
            ended(process)
    assert line.startswith("[ {"), errors.read_text()
    row = json.loads(line.removeprefix("["))
    if row["note"].startswith("not installed: "):
        pytest.skip(f"{name}: {row['note']}")
    assert row["name"] and row["unit"] is not None
    assert row["value"] is not None, row["note"]


def ended(process: subprocess.Popen[str]) -> None:
    """In order, so that it removes what it made; what it started and left is killed."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=END_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def of_tests(tree: ast.AST) -> list[str]:
    """What a module names of the tests: by an import, or in a string that could be one."""
    names_in_it = []
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)):
                names_in_it.append(module)
            case ast.Import(names=names):
                names_in_it += [alias.name for alias in names]
            case ast.Constant(value=str(text)):
                names_in_it.append(text.replace("/", "."))
    return [name for name in names_in_it if name == "tests" or name.startswith("tests.")]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_nothing_of_the_tests_is_imported(file: Path) -> None:
    assert of_tests(ast.parse(file.read_text())) == []


@pytest.mark.parametrize(
    "line",
    [
        "from tests import commandkit",
        "def f():\n    import tests.support.peer",
        "import_module('tests.energy.nut_double')",
        "ROOT / 'tests/mpi/programs/truth.c'",
    ],
)
def test_an_import_of_the_tests_is_seen(line: str) -> None:
    assert len(of_tests(ast.parse(line))) == 1


def test_every_benchmark_is_listed() -> None:
    """But for the closed forms, which are a part of the simulator's."""
    measuring = {
        ".".join(file.relative_to(ROOT / "benchmarks").with_suffix("").parts)
        for file in FILES
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name == "measure"
    }
    listed = {measure.__module__.removeprefix("benchmarks.") for measure in BENCHMARKS.values()}
    assert measuring - {"elastic.closed_forms"} == listed
    assert set(BENCHMARKS) >= QUICK | ROOT_NEEDED | set(PROGRAMS)


def test_benchmarks_that_the_docs_name_are_there() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("ullage/**/*.md")]
    names = {
        name
        for page in [*pages, *FILES]
        for name in re.findall(r"`(?:python -m )?(benchmarks(?:\.[a-z_]+)+)", page.read_text())
    }
    assert len(names) > 15
    assert {name for name in names if find_spec(name) is None} == set()


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("name", [*SUBJECTS, *BENCHMARKS])
def test_each_takes_the_options_that_all_have(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    assert ended.value.code == 0
    usage = capsys.readouterr().out
    assert "--quick" in usage and "--json" in usage
