"""Names: a type means one thing, and a variable is called by what it is."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
TREES: Final = ("ullage", "benchmarks", "tests", "testing", "scripts")
FILLERS: Final = frozenset({"found", "told", "each", "asked", "made", "said"})
"""They say that something came, and not what it is."""
STORED: Final = {
    ("ullage/analysis/comparison/model.py", "found"),  # `found` of the causes, in the JSON
    ("ullage/engine/team.py", "each"),  # the place `each` of a role
}


def trees(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """Each source: its path from the root, and its syntax tree."""
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            yield str(file.relative_to(ROOT)), tree


def bound(tree: ast.Module) -> Iterator[str]:
    """The names that a source gives to something."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name):
                yield name
            case ast.alias(asname=str(name)):
                yield name


def test_a_type_has_its_name_for_itself() -> None:
    places = defaultdict(list)
    for file, tree in trees("ullage"):
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(file)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_nothing_is_called_by_a_filler() -> None:
    names = {(file, name) for file, tree in trees(*TREES) for name in bound(tree)}
    fillers = {(file, name) for file, name in names if name.strip("_").lower() in FILLERS}
    assert fillers == STORED
