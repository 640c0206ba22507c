"""Which programs the sources ask this host for, by their syntax trees."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

_ASKS: Final = {"needed", "which"}
"""Functions whose first argument is a program; the second one of `needed` is its package."""

_STARTS: Final = {"run", "attempt", "Popen", "check_output", "check_call", "create_subprocess_exec"}
"""Functions whose first argument is an argv, or the first word of one."""


@dataclass(frozen=True)
class ProgramUse:
    """A program, and the line that asks for it."""

    program: str
    package: str | None
    """As `needed` says it."""
    place: str


def programs(file: Path) -> Iterator[ProgramUse]:
    """Every program that a source names where it asks for one, or starts one.

    A word that is no program by its letters is none: `run("case")` is another function.
    """
    for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(call, ast.Call) or not call.args:
            continue
        for word in _words(file, call):
            package = _package(file, call)
            yield ProgramUse(word, package, f"{_relative(file)}:{call.lineno}")


def _words(file: Path, call: ast.Call) -> Iterator[str]:
    name, first = _name(call.func), call.args[0]
    if name in _ASKS:
        yield from _texts(file, first)
    elif name in _STARTS and isinstance(first, ast.List | ast.Tuple) and first.elts:
        yield from _texts(file, first.elts[0])


def _package(file: Path, call: ast.Call) -> str | None:
    if _name(call.func) != "needed" or len(call.args) < 2:
        return None
    return next(_texts(file, call.args[1]), None)


def _texts(file: Path, node: ast.expr) -> Iterator[str]:
    """A text that stands there, or that a constant of the module has."""
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(node, ast.Name) and node.id.isupper():
        module = ".".join(_relative(file).with_suffix("").parts)
        value = getattr(importlib.import_module(module), node.id, None)
    if isinstance(value, str):
        yield value


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _relative(file: Path) -> Path:
    return file.relative_to(ROOT) if file.is_relative_to(ROOT) else Path(file.name)
