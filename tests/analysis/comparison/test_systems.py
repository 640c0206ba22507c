"""A comparison between two operating systems says so, in every sentence."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from testing.synthetic import make_run
from testing.synthetic_parts import ENVIRONMENTS
from ullage.analysis.comparison import systems
from ullage.analysis.overhead import analyse
from ullage.analysis.sentences import answer
from ullage.report import answer as first_screen
from ullage.report import export
from ullage.report.page import write
from ullage.runs.reader import RunFolder
from ullage.runs.records import EnvironmentRecord

WINE = "Wine 8.0 (not Windows)"
DEBIAN = "Debian GNU/Linux 12 (bookworm)"


def record(index: int, system: object, userland: str) -> EnvironmentRecord:
    plain = ENVIRONMENTS[index]
    return plain.model_copy(
        update={
            "facts": {**plain.facts, "os": system},
            "nuisances": {**plain.nuisances, "userland": userland},
        }
    )


def run_of(path: Path, system: str) -> RunFolder:
    environments = (
        record(0, DEBIAN, "host"),
        record(1, DEBIAN, "host"),
        record(2, system, "another"),
    )
    make_run(path, blocks=6, environments=environments, allowed=("userland",))
    return RunFolder.open(path)


@pytest.mark.parametrize(
    ("system", "words"),
    [
        (WINE, "Wine 8.0 (not Windows) against Debian 12"),
        ("Windows Server 2022", "Windows Server 2022 against Debian 12"),
    ],
)
def test_each_sentence_says_which_system_stands_against_which(
    tmp_path: Path, system: str, words: str
) -> None:
    folder = run_of(tmp_path / "run", system)
    analysis = analyse(folder)
    (sentence,) = [s for s in answer(analysis) if "container (crun)" in s]
    assert f"(with unequal userland: {words}, as the plan allows)" in sentence
    labels = [group.label for group in first_screen.groups(analysis)]
    assert f"container (crun), unequal in userland: {words}" in labels
    doubts = [d for c in analysis.comparisons for d in c.doubts if d.code == "nuisance-unequal"]
    assert doubts and all(words in doubt.message for doubt in doubts)
    assert all("Make userland equal" in doubt.advice for doubt in doubts)
    assert words in write(folder, analysis).read_text()


def test_files_for_others_have_the_nuisance_alone(tmp_path: Path) -> None:
    analysis = analyse(run_of(tmp_path / "run", WINE))
    rows = csv.DictReader(io.StringIO(export.export(analysis, "csv").decode()))
    assert {row["unequal"] for row in rows if row["environment"] == "container"} == {"userland"}


def test_one_system_in_two_versions_is_not_named(tmp_path: Path) -> None:
    analysis = analyse(run_of(tmp_path / "run", "Debian GNU/Linux 13 (trixie)"))
    assert {c.unequal for c in analysis.comparisons} == {("userland",)}


@pytest.mark.parametrize("system", [None, "", " ", 7, "\x1b[31m", "W" * 300 + " 1"])
def test_what_a_guest_says_is_harmless(system: object) -> None:
    names = systems.by_environment((record(2, system, "another"),))
    assert all(len(name) <= 64 and name.isprintable() for name in names.values())
    json.dumps(systems.crossing({**names, "b": "Debian 12"}, "container", "b"))
