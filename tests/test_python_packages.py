"""What of the tree becomes Python packages, when it is installed or made a wheel."""

from __future__ import annotations

import tomllib
from pathlib import Path

from setuptools import find_packages

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]


def test_a_link_in_the_tree_is_not_followed(tmp_path: Path) -> None:
    """Wine's folder in `target/` has one that leads to /: to install us took hours then."""
    assert SETTINGS["find"]["namespaces"] is False
    (tmp_path / "target/wine").mkdir(parents=True)
    (tmp_path / "target/wine/z").symlink_to(ROOT)
    assert find_packages(str(tmp_path), include=SETTINGS["find"]["include"]) == []


def test_every_module_is_in_a_package() -> None:
    packages = {
        Path(*name.split("."))
        for name in find_packages(str(ROOT), include=SETTINGS["find"]["include"])
    }
    folders = {file.parent.relative_to(ROOT) for file in (ROOT / "ullage").rglob("*.py")}
    assert folders == packages
