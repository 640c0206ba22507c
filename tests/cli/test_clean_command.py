"""`ullage clean`: it says what and whose, asks, and leaves others' things alone."""

from __future__ import annotations

import io
import os
import pwd
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import commandkit
from tests.support.commandkit import Ullage
from ullage.common import errors
from ullage.host import claims, leftovers, paths, user_commands

clean = commandkit.in_this_process("clean")
CLAIM = "import sys; from ullage.host import claims; claims.claim(sys.argv[1], '/runs/x')"


@pytest.fixture(autouse=True)
def only_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the test's own: what others on this machine have left is not for a test to take."""
    directories = (leftovers._find_state, leftovers._find_data)
    monkeypatch.setattr(leftovers, "_FINDERS", directories)
    monkeypatch.setattr(sys, "stdin", io.StringIO())


@pytest.fixture
def dead(tag: str) -> str:
    """The tag of a run that was killed."""
    subprocess.run([sys.executable, "-c", CLAIM, tag], check=True, timeout=60)
    return tag


def test_it_says_what_and_whose_and_removes_nothing_unasked(dead: str, clean: Ullage) -> None:
    done = clean()
    assert done.code == 2
    assert errors.CLEAN_UNCONFIRMED.code in done.stderr
    assert re.search(
        rf"^run /runs/x, of {pwd.getpwuid(os.geteuid()).pw_name}, [\d.]+ s old:", done.stdout
    )
    assert f"data {paths.data_dir(dead)}" in done.stdout
    assert paths.state_dir(dead).is_dir()
    done = clean("--yes")
    assert (done.code, "2 leftovers removed" in done.stderr) == (0, True)
    assert not paths.state_dir(dead).exists()
    assert not paths.data_dir(dead).exists()


def test_with_nothing_to_remove_nobody_is_asked(tag: str, clean: Ullage) -> None:
    done = clean()
    assert (done.code, done.stdout, done.stderr) == (0, "", "0 leftovers removed\n")


@pytest.mark.parametrize(("word", "stays"), [("y\n", False), ("n\n", True), ("\n", True)])
def test_a_person_is_asked(
    dead: str, clean: Ullage, word: str, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.StringIO(word)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    done = clean()
    assert "remove 2 leftovers?" in done.stderr
    assert paths.state_dir(dead).exists() == stays


def test_what_lives_is_neither_listed_nor_removed(tag: str, clean: Ullage) -> None:
    claims.claim(tag, "/runs/x")
    done = clean("--yes", "--all")
    assert (done.code, done.stdout) == (0, "")
    assert paths.state_dir(tag).is_dir()


@pytest.mark.root
def test_what_is_anothers_is_left_alone_unless_all_is_said(dead: str, clean: Ullage) -> None:
    os.chown(paths.data_dir(dead), 65534, 65534)
    done = clean("--yes")
    assert "1 leftover of other users left alone" in done.stderr
    assert paths.data_dir(dead).is_dir()
    assert not paths.state_dir(dead).exists()
    (item,) = clean("--all", "--dry-run", "--json").json
    assert (item["kind"], item["tag"], item["user"]) == ("data", dead, "nobody")
    assert clean("--yes", "--all").code == 0
    assert not paths.data_dir(dead).exists()


def test_a_link_that_is_called_as_a_run_is_no_run(tag: str, clean: Ullage, tmp_path: Path) -> None:
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    paths.state_root().mkdir()
    (paths.state_root() / tag).symlink_to(treasure)
    done = clean("--yes")
    assert (done.code, done.stdout, done.stderr) == (0, "", "0 leftovers removed\n")
    assert treasure.is_dir()
    assert (paths.state_root() / tag).is_symlink()


def test_what_may_still_come_is_kept_and_said(
    tag: str, clean: Ullage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its controller was killed while its cloud was asked for it, and the cloud has none yet."""
    monkeypatch.setattr(leftovers, "_FINDERS", (leftovers._find_user_commands,))
    name, until = f"ullage-{tag}-x", time.time() + 600
    removal = user_commands.Removal(
        tag=tag,
        name=name,
        listing=("true",),
        destroy=(("true",),),
        deadline_s=9,
        lasting=True,
        may_come_until=until,
    )
    user_commands.keep(removal)
    done = clean("--yes")
    assert done.code == errors.ExitCode.GATE_FAILED
    assert f"still there: command {name}: {name} may still be there" in done.stderr
    assert list(user_commands.records()) == [removal]


def test_what_nobody_can_look_for_any_more_is_forgotten(tag: str, clean: Ullage) -> None:
    removal = user_commands.Removal(
        tag=tag, name=f"ullage-{tag}-x", listing=("false",), destroy=(("rm", "x"),), deadline_s=1
    )
    user_commands.keep(removal)
    done = clean("--forget", removal.name)
    assert (done.code, done.stdout) == (0, "")
    assert f"{removal.name} is forgotten. If it is there after all: rm x" in done.stderr
    assert tag not in {kept.tag for kept in user_commands.records()}
    again = clean("--forget", removal.name)
    assert again.code == 2
    assert errors.CLEAN_NO_RECORD.code in again.stderr
