"""Places that cannot be written, terminals that cannot show it: a sentence, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testing.synthetic import make_run
from tests.support.commandkit import ullage
from ullage.common import errors


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("made") / "run")


@pytest.mark.parametrize(
    "argv",
    [
        ("init", "/nonexistent/plan.yaml"),
        ("report", "RUN", "--out", "/nonexistent/x.html"),
        ("export", "RUN", "--out", "/nonexistent/x.csv"),
        ("report", "RUN", "--charts", "/proc/nothing"),
    ],
)
def test_places_that_cannot_be_written(argv: tuple[str, ...], run: Path) -> None:
    done = ullage(*(str(run) if word == "RUN" else word for word in argv))
    assert done.code == 2
    assert done.stderr.startswith(f"error[{errors.FILE_FAILED.code}]")
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_standard_output(run: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ullage", "export", str(run)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr


LOCALES = [
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "latin-1"},
]


@pytest.mark.parametrize("locale", LOCALES)
def test_a_terminal_without_our_signs(locale: dict[str, str], run: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ullage", "show", str(run)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env=os.environ | locale,
    )
    assert done.returncode == 0, done.stderr
    assert "emulated" in done.stdout


def test_what_looks_like_a_smile_is_data(run: Path) -> None:
    done = ullage("query", "select ':smile: 10:100:x:' as a", "--runs", str(run))
    assert ":smile: 10:100:x:" in done.stdout


def test_a_pipe_gets_every_column_whole(run: Path) -> None:
    done = ullage("query", "select * from samples limit 2", "--runs", str(run))
    assert "…" not in done.stdout
    assert "environment" in done.stdout


def test_no_folder_to_resume(tmp_path: Path) -> None:
    done = ullage("run", "--resume", str(tmp_path))
    assert done.code == 2
    assert done.stderr.startswith(f"error[{errors.RUN_NOT_FOUND.code}]")
