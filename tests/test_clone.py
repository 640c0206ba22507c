"""What the package imports is what an empty environment has after `pip install`."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).resolve().parent.parent
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: Final = PROJECT["optional-dependencies"]
DECLARED: Final = {
    canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"] + EXTRAS["all"]
}

OPTIONAL: Final = {
    canonicalize_name(Requirement(line).name)
    for lines in PROJECT["optional-dependencies"].values()
    for line in lines
}
"""Of extras: only who asks for one has them."""

PARTS: Final = {"markupsafe": "jinja2", "pydantic-core": "pydantic"}
"""Distributions that stand in what another one gives and takes; it brings them."""


def imported(source: str) -> Iterator[str]:
    """Top-level names of a file, wherever in it they are imported."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.split(".")[0]


def undeclared(sources: Iterable[str], declared: Iterable[str]) -> set[str]:
    """Top-level names that neither Python, nor ullage, nor any of the distributions has."""
    names = {name for source in sources for name in imported(source)}
    owners, held = packages_distributions(), {*declared, *PARTS}
    return {
        name
        for name in names - set(sys.stdlib_module_names) - {"ullage"}
        if not held & {canonicalize_name(owner) for owner in owners.get(name, ())}
    }


SOURCES: Final = [file.read_text(encoding="utf-8") for file in (ROOT / "ullage").rglob("*.py")]


def test_what_is_imported_is_declared() -> None:
    assert undeclared(SOURCES, DECLARED | OPTIONAL) == set()


def test_what_is_not_declared_is_named() -> None:
    assert undeclared(SOURCES, (DECLARED | OPTIONAL) - {"pyyaml", "qemu-qmp"}) == {"yaml", "qemu"}
    assert undeclared(["import numpy\nfrom frobnicate.deep import x"], DECLARED) == {"frobnicate"}


def test_all_extras_are_the_extras() -> None:
    """But for libvirt's, built against a library that few have, and those of clouds."""
    others = EXTRAS.keys() - {"all", "libvirt", "clouds"}
    assert set(EXTRAS["all"]) == {line for name in others for line in EXTRAS[name]}


def test_a_clone_has_the_same_and_what_builds_it() -> None:
    lines = (ROOT / "requirements.in").read_text(encoding="utf-8").splitlines()
    names = {re.split(r"[^\w.-]", line)[0] for line in lines if line and line[0] != "#"}
    assert {canonicalize_name(name) for name in names} == DECLARED | {"setuptools"}
