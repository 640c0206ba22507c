"""`ullage setup`, `-h` and `--version`: what a fresh machine is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripts import man_pages
from tests.support.commandkit import ullage
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.packages import apt
from ullage.host import build


def test_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apt, "needed_to_run", lambda: ("iproute2", "frobtools"))
    assert apt.missing_packages() == ["frobtools"]


def test_what_apt_cannot_do_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stub = tmp_path / "apt-get"
    stub.write_text('#!/bin/sh\n[ "$2" = update ] || exit 100\n')
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(UllageError, match="frobtools` ended with status 100") as failure:
        apt.install(["frobtools"])
    assert failure.value.kind is errors.SETUP_FAILED
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UllageError) as refusal:
        apt.install(["frobtools"])
    assert refusal.value.kind is errors.HOST_NEEDS_ROOT
    assert "have root do this: apt-get install frobtools" in refusal.value.hint


def test_a_clone_knows_its_commit(tmp_path: Path) -> None:
    version = ullage("--version", cwd=tmp_path)
    assert version.stdout.startswith("ullage 0.1.0 (build ")
    assert build.of_clone(tmp_path) is None
    (tmp_path / ".git").mkdir()
    assert build.of_clone(tmp_path) is None


def test_help_and_completion_are_short_to_ask_for(tmp_path: Path) -> None:
    for words in (("-h",), ("elastic", "run", "-h")):
        assert "-h, --help" in ullage(*words, cwd=tmp_path).stdout


def test_every_command_has_a_man_page(tmp_path: Path) -> None:
    pages = {page.name for page in man_pages.write(tmp_path)}
    assert {"ullage.1", "ullage-run.1", "ullage-elastic-run.1"} <= pages
    text = (tmp_path / "ullage-run.1").read_text(encoding="utf-8")
    assert ".SH OPTIONS\n" in text and "\\-\\-dry\\-run" in text
