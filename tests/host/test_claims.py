from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ullage.host import claims, paths


def test_a_claim_is_private_and_names_us(tag: str) -> None:
    claimed = claims.claim(tag, "/runs/x")
    assert claimed == claims.controller(tag)
    assert claimed.pid == os.getpid()
    assert claimed.run == "/runs/x"
    assert claimed.alive
    for directory in (paths.state_dir(tag), paths.data_dir(tag)):
        assert directory.stat().st_mode & 0o777 == 0o700


def test_a_dead_controller_is_dead(tag: str) -> None:
    claims.claim(tag, "/runs/x")
    path = paths.state_dir(tag) / "controller.json"
    stored = json.loads(path.read_text())
    with subprocess.Popen(["true"]) as process:
        pass
    for change in (
        {"pid": process.pid},
        {"start_time": stored["start_time"] - 1},  # the process id was used again
        {"boot_id": "another"},
    ):
        path.write_text(json.dumps({**stored, **change}))
        controller = claims.controller(tag)
        assert controller is not None
        assert not controller.alive


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": "x"}', "\xff"])
def test_a_broken_claim_is_none(tag: str, text: str) -> None:
    claims.claim(tag, "/runs/x")
    (paths.state_dir(tag) / "controller.json").write_text(text)
    assert claims.controller(tag) is None


HOLD = (
    "import sys; from ullage.host import claims; claims.claim(sys.argv[1], '/runs/x');"
    "print(flush=True); sys.stdin.read()"
)


@contextlib.contextmanager
def held(tag: str, script: str = HOLD, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds the claim."""
    argv = [sys.executable, "-c", script, tag]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        yield process


def test_a_socket_of_that_name_hides_nothing_and_keeps_nobody_out(tag: str) -> None:
    """Any user of this machine can make one."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as forged:
        forged.bind(f"\0ullage/{tag}")
        assert not claims.lives(tag)
        claims.claim(tag, "/runs/x")


def test_a_claim_is_a_file_that_only_its_user_can_open(tag: str) -> None:
    claims.claim(tag, "/runs/x")
    place = next(place for place in claims._places(os.geteuid()) if (place / tag).exists())
    assert place.stat().st_uid == os.geteuid()
    assert place.stat().st_mode & 0o777 == 0o700
    assert claims.lives(tag)


@pytest.mark.root
def test_the_claim_of_one_user_says_nothing_of_anothers_things(
    tag: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    places = {65534: tmp_path / "theirs", 0: tmp_path / "ours"}
    monkeypatch.setattr(claims, "_places", lambda uid: iter([places[uid]]))
    theirs = places[65534] / tag
    theirs.parent.mkdir()
    with theirs.open("wb") as file:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, claims._FLOCK.pack(fcntl.F_WRLCK, 0, 0, 0, 0))
        assert not claims.lives(tag, 65534), "the file is not theirs"
        os.chown(theirs, 65534, 65534)
        assert claims.lives(tag, 65534)
        assert not claims.lives(tag, 0)


@pytest.mark.root
def test_a_living_run_is_seen_from_another_network_namespace(tag: str) -> None:
    look = f"from ullage.host import claims; print(claims.lives({tag!r}))"
    argv = ["unshare", "--net", sys.executable, "-c", look]
    elsewhere = {**os.environ, "ULLAGE_STATE_DIR": "/nonexistent/elsewhere"}
    with held(tag):
        seen = subprocess.run(argv, env=elsewhere, capture_output=True, text=True, check=True)
    assert seen.stdout == "True\n"


def test_a_child_that_outlives_the_process_holds_no_claim(tag: str) -> None:
    fork = HOLD.replace("print(flush=True);", "pid = os.fork(); print(flush=True) if pid else 0;")
    with held(tag, "import os; " + fork, start_new_session=True) as process:
        assert claims.lives(tag)
        process.kill()
        assert process.wait(10) == -9
        assert not claims.lives(tag)


def test_who_is_killed_leaves_a_claim_that_anybody_can_take_and_clean_forgets(tag: str) -> None:
    with held(tag) as process:
        process.kill()
    files = [place / tag for place in claims._places(os.geteuid()) if (place / tag).exists()]
    assert len(files) == 1
    assert not claims.lives(tag)
    claims.forget_dead()
    assert not files[0].exists()
    claims.claim(tag, "/runs/x")
    claims.forget_dead()
    assert files[0].exists()


def test_a_zombie_is_dead() -> None:
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert claims.process_start_time(process.pid) is None
    assert claims.process_start_time(os.getpid()) is not None


def test_the_boot_id_that_a_process_sees() -> None:
    assert claims.boot_id_seen_by([os.getpid()]) == claims.boot_id()
    assert claims.boot_id_seen_by([]) is None
    assert claims.boot_id_seen_by([2**22 + 1, os.getpid()]) == claims.boot_id()
