"""Another machine for tests: a double of ssh that runs the command here, with a home, a state, a
data and a cache directory of its own.

What the real one says and does is in tests/lab/two_nodes, on testing/two_nodes.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from ullage.host import claims
from ullage.nodes.reach.install import install
from ullage.nodes.reach.openssh import Target
from ullage.nodes.ssh import SshNode

DOUBLE = """#!/bin/sh
# Options are as ssh has them; the last two words are the host and the command.
for word; do host=$command command=$word; done
echo "$host $command" >> {home}/calls
[ ! -f {home}/refusal ] || { cat {home}/refusal >&2; exit 255; }
export HOME={home} ULLAGE_STATE_DIR={home}/state ULLAGE_DATA_DIR={home}/data
export ULLAGE_LIE={home}/lie.json
export XDG_CACHE_HOME={home}/cache ULLAGE_CACHE_DIR={home}/cache
cd {home}
case $command in *" serve"*) [ ! -f {home}/lie.json ] || exec {liar} setsid sh -c "$command" ;; esac
case $command in *" attach "*) [ ! -f {home}/hangs ] || exec sleep 600
[ ! -f {home}/floods ] || { head -c 50000000 /dev/zero; echo; echo flooded; exit 255; } >&2 ;; esac
exec sh -c "$command"
"""
LIAR = Path(__file__).parents[1] / "lab/chaos/agents/liar.py"
TAG = "u00c0de1"


class Double:
    """The other machine."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.target = Target("a", "root@a")

    def refuse(self, words: str) -> None:
        """From now on ssh says this, and ends."""
        (self.home / "refusal").write_text(words, encoding="utf-8")

    def hang(self) -> None:
        """From now on a channel beside the first is open, and nothing goes through it."""
        (self.home / "hangs").touch()

    def flood(self) -> None:
        """From now on such a channel complains of a lot, and ends."""
        (self.home / "floods").touch()

    def lie(self, rule: dict[str, object]) -> None:
        """From now on what serves there says one thing that is not so: a rule of liar.py."""
        (self.home / "lie.json").write_text(json.dumps(rule), encoding="utf-8")

    def calls(self) -> list[str]:
        """Host and command of each time that ssh was started."""
        return (self.home / "calls").read_text(encoding="utf-8").splitlines()

    def node(self, *earlier: str, tag: str = TAG) -> SshNode:
        """It, for a run of this process."""
        claims.claim(tag, "a test")
        return SshNode("a", self.target, tag, "a test", earlier)

    def install(self) -> None:
        """ullage is there."""
        asyncio.run(install(self.target))


def other_machine(place: Path) -> Path:
    """`ssh` in `place/bin`, and the home of the machine that it reaches."""
    home, ssh = place / "a", place / "bin/ssh"
    home.mkdir()
    ssh.parent.mkdir()
    text = DOUBLE.replace("{home}", str(home)).replace("{liar}", str(LIAR))
    ssh.write_text(text, encoding="utf-8")
    ssh.chmod(0o755)
    return home


@pytest.fixture
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Double:
    """A machine that can be reached as `root@a`."""
    home = other_machine(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("ULLAGE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("ULLAGE_DATA_DIR", str(tmp_path / "data"))
    return Double(home)
