"""`ullage export`: what cannot be both a table and a picture is refused."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from testing.synthetic import make_run
from tests.support.commandkit import ullage
from ullage.common import errors
from ullage.report.export import TABLES


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("asked")
    make_run(at / "runs" / "a", blocks=6, failures=(), raw=False)
    return at


@pytest.mark.parametrize(
    "more", [(), ("--energy",), *(("--format", form) for form in TABLES)], ids=" ".join
)
def test_a_picture_is_not_written_as_a_table(place: Path, more: tuple[str, ...]) -> None:
    done = ullage("export", "a", "--picture", "energy", "--out", "e.csv", *more, cwd=place)
    assert done.code == 2
    assert f"error[{errors.EXPORT_NO_PICTURE.code}]" in done.stderr
    assert "add `--format` with one of svg, pdf, png" in done.stderr
    assert not (place / "e.csv").exists()


def test_every_table_is_one(place: Path) -> None:
    for form in TABLES:
        done = ullage("export", "a", "--format", form, "--out", "table", cwd=place)
        assert done.code == 0, done.stderr
    done = ullage("export", "a", "--format", "gif", "--picture", "energy", cwd=place)
    assert f"error[{errors.EXPORT_UNKNOWN_FORMAT.code}]" in done.stderr
    assert ", ".join(TABLES) in done.stderr


@pytest.mark.parametrize("more", [(), ("--picture", "energy")])
def test_the_table_of_energies_is_no_picture(place: Path, more: tuple[str, ...]) -> None:
    done = ullage("export", "a", "--energy", "--format", "pdf", *more, cwd=place)
    assert done.code == 2
    assert f"error[{errors.EXPORT_NO_TABLE.code}]" in done.stderr
    assert "`--picture energy --format pdf`" in done.stderr
    assert done.stdout == ""


def test_without_a_name_the_picture_is_that_of_the_ratios(place: Path) -> None:
    plain = ullage("export", "a", "--format", "svg", cwd=place)
    named = ullage("export", "a", "--format", "svg", "--picture", "ratios", cwd=place)
    assert plain.code == 0, plain.stderr
    assert plain.stdout.startswith("<svg")
    assert plain.stdout == named.stdout


def test_a_picture_has_the_width_and_the_font_that_a_paper_wants(place: Path) -> None:
    look = ("--width", "85", "--font", "Times")
    for picture in ("ratios", "timeline"):
        done = ullage("export", "a", "--format", "svg", "--picture", picture, *look, cwd=place)
        assert done.code == 0, done.stderr
        root = ElementTree.fromstring(done.stdout)
        assert float(root.get("width", "")) == pytest.approx(85 / 25.4 * 96, abs=0.01)
        assert root.get("viewBox"), "what is drawn is scaled, not cut"
        assert "Times" in done.stdout and "system-ui" not in done.stdout


@pytest.mark.parametrize(
    "more",
    [
        ("--width", "85"),
        ("--font", "Times", "--format", "latex"),
        ("--font", 'a"><script>', "--format", "svg"),
        ("--caption", "x"),
    ],
    ids=" ".join,
)
def test_what_is_a_pictures_or_a_papers_only_is_refused(place: Path, more: tuple[str, ...]) -> None:
    done = ullage("export", "a", *more, cwd=place)
    assert done.code == 2 and done.stdout == ""


def test_a_table_for_a_paper_has_a_caption_and_one_word_verdicts(place: Path) -> None:
    done = ullage("export", "a", "--format", "latex", "--caption", "Cost & ratio", cwd=place)
    assert done.code == 0, done.stderr
    assert r"\caption{Cost \& ratio}" in done.stdout and r"\label{tab:" in done.stdout
    assert "more blocks" not in done.stdout and done.stdout.endswith("\\end{table}\n")
