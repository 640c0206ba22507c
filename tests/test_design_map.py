"""docs/internals/design.md is a map: every room, file and function that it names is there."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
MAP = (ROOT / "docs/internals/design.md").read_text(encoding="utf-8")
TREES = ("rust", "mpi", "benchmarks", "testing", "tests", "docs", "scripts", "ullage")
"""What a path may begin with; others are under `ullage/`."""

MOST_FILES = 16
MOST_ENTRIES = 15

_SPAN = re.compile(r"`([\w./-]+?/[\w./-]*)(?::(\w+(?:\.\w+)*))?`")


def place(path: str) -> Path:
    return ROOT / path if path.split("/", maxsplit=1)[0] in TREES else ROOT / "ullage" / path


@cache
def names(file: Path) -> set[str]:
    """Functions, classes and lists of a Python file; methods and fields as `Class.name`."""
    defined = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        own = _defined(node)
        defined |= own
        if isinstance(node, ast.ClassDef):
            defined |= {f"{node.name}.{name}" for member in node.body for name in _defined(member)}
    return defined


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
    return {target.id for target in targets if isinstance(target, ast.Name)}


def missing(text: str) -> list[str]:
    """What a map names that is not there."""
    return [
        f"{path}:{name}" if name else path
        for path, name in _SPAN.findall(text)
        if not place(path).exists() or (name and name not in names(place(path)))
    ]


def test_all_that_the_map_names_is_there() -> None:
    assert len(_SPAN.findall(MAP)) > 100
    assert missing(MAP) == []


def test_what_is_not_there_is_seen() -> None:
    text = """`stats/interval.py:t_interval`, `stats/interval.py:Moments.mean`, `tests/lab`, `cli/`,
    `stats/interval.py:gone`, `stats/gone.py`, `stats/verdict.py:Case.gone`, `gone/`"""
    gone = ["stats/interval.py:gone", "stats/gone.py", "stats/verdict.py:Case.gone", "gone/"]
    assert missing(text) == gone


ROOMS = re.findall(r"^\| [^|]*\| `(\w+)/` \|", MAP, re.MULTILINE)


def test_every_room_stands_on_the_map() -> None:
    rooms = {file.parent.name for file in (ROOT / "ullage").glob("*/__init__.py")}
    assert set(ROOMS) == rooms and len(ROOMS) == len(rooms)


def test_rooms_stand_in_the_order_of_the_contracts() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    orders = [
        contract["layers"]
        for contract in tools["importlinter"]["contracts"]
        if "layers" in contract
    ]
    assert orders
    for layers in orders:
        order = [layer.removeprefix("ullage.") for layer in layers if "(" not in layer]
        assert [room for room in ROOMS if room in order] == order


def test_every_tree_stands_on_the_map() -> None:
    on_the_map = set(re.findall(r"^\| `(\w+)/` \|", MAP, re.MULTILINE))
    assert on_the_map == set(TREES) - {"ullage"}


def test_every_crate_stands_on_the_map() -> None:
    crates = {str(file.parent.relative_to(ROOT)) for file in (ROOT / "rust").glob("*/Cargo.toml")}
    assert {crate for crate in crates if f"`{crate}`" not in MAP} == set()


def test_no_room_is_crowded() -> None:
    """Sixteen files beside `__init__.py` in a folder; fifteen entries at the top."""
    packages = [file.parent for file in (ROOT / "ullage").rglob("__init__.py")]
    modules = {folder: sum(1 for _ in folder.glob("*.py")) - 1 for folder in packages}
    assert {str(folder): count for folder, count in modules.items() if count > MOST_FILES} == {}
    rooms = [folder for folder in packages if folder.parent == ROOT / "ullage"]
    assert len(rooms) + modules[ROOT / "ullage"] <= MOST_ENTRIES
