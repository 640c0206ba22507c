"""What each target of the Makefile installs, with what that depends on; and who has a program."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.programuses import ROOT

_RULE: Final = re.compile(r"([^\s#:=][^:=]*):(?!=)\s*(.*)")
_VARIABLE: Final = re.compile(r"(\w+) :?= (.*)")
_SYSTEM: Final = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
_FIELDS: Final = r"${Package}\t${Essential}\t${Priority}\t${Pre-Depends},${Depends}\n"


def installed_by(target: str) -> set[str]:
    """The packages of the target's lists, and of all targets that it needs or calls."""
    variables, rules = _database()
    return {
        package
        for name in _reached(target, rules)
        for line in rules[name][1]
        for package in _packages(line, variables)
    }


def with_dependencies(packages: Iterable[str]) -> set[str]:
    """These, what they depend on, and what every Debian has, as dpkg says it of this host."""
    held, always = _debian()
    reached, coming = set[str](), [*packages, *always]
    while coming:
        package = coming.pop()
        if package not in reached:
            reached.add(package)
            coming += held.get(package, ())
    return reached


def owners(programs: Iterable[str]) -> dict[str, str]:
    """Program → the package that this host has it from."""
    files = {program: _files(program) for program in programs}
    command = ["dpkg-query", "--search", *sorted(set[str]().union(*files.values()))]
    listing = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    lines = re.findall(r"^([a-z0-9.+-]+)(?::\w+)?: (.+)$", listing, re.MULTILINE)
    return {name: package for package, file in lines for name in files if file in files[name]}


def _files(program: str) -> set[str]:
    """As packages may list it: by every link, and without the `/usr` of a merged one."""
    places = [Path(folder, program) for folder in _SYSTEM]
    files = {str(way) for place in places if place.exists() for way in (place, place.resolve())}
    return files | {file.removeprefix("/usr") for file in files}


def _reached(target: str, rules: Mapping[str, tuple[list[str], list[str]]]) -> set[str]:
    reached, coming = set[str](), [target]
    while coming:
        name = coming.pop()
        if name in rules and name not in reached:
            reached.add(name)
            needs, recipe = rules[name]
            coming += needs
            coming += [word for line in recipe if "$(MAKE)" in line for word in line.split()]
    return reached


def _packages(line: str, variables: Mapping[str, str]) -> Iterator[str]:
    words = line.split()
    for script, last in (("need-packages", None), ("unpack-package", 1)):
        if f"scripts/{script}" in (plain := [word.lstrip("@") for word in words]):
            for word in plain[plain.index(f"scripts/{script}") + 1 :][:last]:
                yield from variables.get(word.strip("$()"), word).split()


@cache
def _database() -> tuple[dict[str, str], dict[str, tuple[list[str], list[str]]]]:
    """The Makefile's variables; its rules, each with prerequisites and recipe."""
    environment = {name: text for name, text in os.environ.items() if name != "MAKEFLAGS"}
    database = subprocess.run(
        ["make", "--print-data-base", "--question", "help"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    variables: dict[str, str] = {}
    rules: dict[str, tuple[list[str], list[str]]] = {}
    recipe: list[str] = []
    for line in database.splitlines():
        if line.startswith("\t"):
            recipe.append(line.strip())
        elif variable := _VARIABLE.fullmatch(line):
            variables[variable[1]] = variable[2]
        elif rule := _RULE.fullmatch(line):
            recipe = []
            rules[rule[1]] = (rule[2].replace("|", " ").split(), recipe)
    return variables, rules


@cache
def _debian() -> tuple[dict[str, list[str]], list[str]]:
    """Package → what it depends on; the packages that every Debian has."""
    listing = subprocess.run(
        ["dpkg-query", "--show", f"--showformat={_FIELDS}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    needs: dict[str, list[str]] = {}
    always: list[str] = []
    for line in listing.splitlines():
        package, essential, priority, depends = line.split("\t")
        needs[package] = re.findall(r"(?:^|[,|])\s*([a-z0-9.+-]+)", depends)
        if essential == "yes" or priority == "required":
            always.append(package)
    return needs, always
