"""What goes wrong side by side is said in one sentence, like all else."""

from __future__ import annotations

import sys

import pytest
import typer

from ullage.cli import main
from ullage.common.errors import RUN_NOT_FOUND, UllageError

BROKEN = OSError(5, "Input/output error", "runs/x/journal.jsonl")


def said(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> str:
    """Standard error of a command that raises it."""
    app = typer.Typer()

    @app.command()
    def fail() -> None:
        raise error

    monkeypatch.setattr(main, "app", app)
    monkeypatch.setattr(sys, "argv", ["ullage"])
    with pytest.raises(SystemExit):
        main.main()
    return capfd.readouterr().err


@pytest.mark.parametrize(
    "group",
    [
        ExceptionGroup("", [BROKEN]),
        ExceptionGroup("", [ExceptionGroup("", [BROKEN]), UllageError(RUN_NOT_FOUND, path="x")]),
    ],
)
def test_the_first_is_said(
    group: Exception, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    words = said(group, monkeypatch, capfd)
    assert "error[file-failed]: runs/x/journal.jsonl: Input/output error" in words


def test_an_error_of_our_own_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ExceptionGroup):
        said(ExceptionGroup("", [BROKEN, KeyError("x")]), monkeypatch, capfd)
