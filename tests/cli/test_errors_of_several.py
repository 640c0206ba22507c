"""What goes wrong side by side is said in one sentence, like all else."""

from __future__ import annotations

import errno
import sys

import pytest
import typer

from ullage.cli import main
from ullage.common import errors
from ullage.common.commands import CommandError
from ullage.common.errors import RUN_NOT_FOUND, ErrorKind, UllageError

BROKEN = OSError(5, "Input/output error", "runs/x/journal.jsonl")


def stderr_of(
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
    words = stderr_of(group, monkeypatch, capfd)
    assert "error[file-failed]: runs/x/journal.jsonl: Input/output error" in words


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (BlockingIOError(errno.EAGAIN, "No process"), errors.HOST_EXHAUSTED, "needed: No process"),
        (OSError(errno.EMFILE, "Too many", "runs/x"), errors.FILE_FAILED, "runs/x: Too many"),
        (CommandError("crun", 9, "no such thing"), errors.COMMAND_FAILED, "crun: no such thing"),
    ],
)
def test_what_is_no_fault_of_ours_has_a_sentence(
    error: Exception,
    kind: ErrorKind,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    sentence, hint = stderr_of(error, monkeypatch, capfd).splitlines()
    assert sentence.startswith(f"error[{kind.code}]: ") and sentence.endswith(words)
    assert hint == f"hint: {kind.hint}"


def test_an_error_of_our_own_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ExceptionGroup):
        stderr_of(ExceptionGroup("", [BROKEN, KeyError("x")]), monkeypatch, capfd)
