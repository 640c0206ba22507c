"""Commands of the user's that list and remove instances: what they print is bounded."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ullage.common.errors import INSTANCE_NOT_REMOVED, UllageError
from ullage.host import user_commands
from ullage.host.user_commands import Removal, names


def removal(*listing: str) -> Removal:
    return Removal(tag="u1234567", name="x", listing=listing, destroy=(("true",),), deadline_s=60)


def test_what_is_listed_is_read() -> None:
    assert names(("printf", "pod/x\n y \n"), 60) == {"x", "y"}


def test_a_list_that_is_cut_is_no_list() -> None:
    """What stands behind the cut would be taken for gone."""
    argv = ("sh", "-c", "yes | head -c 20000000; echo x")
    with pytest.raises(subprocess.SubprocessError, match="printed over"):
        names(argv, 60)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_who_prints_without_an_end_is_ended(stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_commands, "_PATIENCE_S", -1.0)
    monkeypatch.setattr(user_commands, "_LONGEST_NAMES", 1 << 20)
    endless = f"import sys\nwhile True: print('x' * 99, file=sys.{stream})"
    endless_removal = removal(sys.executable, "-c", endless).model_copy(update={"deadline_s": 2.0})
    with pytest.raises(UllageError) as raised:
        user_commands.remove(endless_removal)
    assert raised.value.kind is INSTANCE_NOT_REMOVED
    assert "nobody can tell whether it is gone" in str(raised.value)


def test_a_command_that_fails_says_why() -> None:
    argv = ("sh", "-c", "yes no | head -c 1000000 >&2; echo broken >&2; exit 3")
    with pytest.raises(subprocess.SubprocessError, match="broken"):
        names(argv, 60)


@pytest.mark.parametrize("words", [("-m", "ullage"), ("-W", "ignore", "-m", "ullage")])
def test_a_record_outlives_the_python_that_wrote_it(words: tuple[str, ...]) -> None:
    """ullage was installed anew elsewhere: what is in a cloud is found all the same."""
    gone = ("/nowhere/bin/python3", *words, "--version")
    assert names(gone, 60) == names((sys.executable, "-m", "ullage", "--version"), 60)
    with pytest.raises(FileNotFoundError):
        names(("/nowhere/bin/python3", "-m", "another", "--version"), 60)
