"""One direction of flow: the run folder's readers know nothing of what wrote it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import ullage

ROOT = Path(ullage.__file__).parent
READERS = {
    "ullage.analysis",
    "ullage.analysis.tables.table",
    "ullage.common.errors",
    "ullage.runs.events",
    "ullage.report.export",
    "ullage.runs.reader",
    "ullage.common.text",
    "ullage.runs.pairs",
    "ullage.runs.parquet",
    "ullage.runs.records",
    "ullage.runs.readings",
    "ullage.plan.schedule",
    "ullage.stats",
    "ullage.runs.symbols",
    "ullage.analysis.tables.codes",
    "ullage.analysis.tables.figures",
    "ullage.analysis.tables.file",
}


def _imported(file: Path) -> set[str]:
    """Top two names of every module of ours that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            plain = node.module == "ullage"
            names = [f"ullage.{a.name}" for a in node.names] if plain else [node.module]
        found |= {".".join(n.split(".")[:2]) for n in names if n.split(".")[0] == "ullage"}
    return found


@pytest.mark.parametrize("file", sorted((ROOT / "stats").rglob("*.py")), ids=lambda f: f.name)
def test_stats_is_a_leaf(file: Path) -> None:
    assert _imported(file) <= {"ullage.stats"}


@pytest.mark.parametrize(
    "file",
    [
        *sorted((ROOT / "analysis").rglob("*.py")),
        *sorted(ROOT.glob("table*.py")),
        *(ROOT / f"{n}.py" for n in ("folder", "pairs", "schedule", "comparing", "export")),
    ],
    ids=lambda f: f.name,
)
def test_readers_import_readers_only(file: Path) -> None:
    assert _imported(file) <= READERS


@pytest.mark.parametrize("name", ["folder", "reading", "sides", "contrasts", "summary"])
def test_readers_of_elastic_runs_do_not_plan_or_measure(name: str) -> None:
    assert _imported(ROOT / "elastic" / f"{name}.py") <= {*READERS, "ullage.experiments.elastic"}
