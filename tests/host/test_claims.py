from __future__ import annotations

import json
import os
import subprocess

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


def test_a_zombie_is_dead() -> None:
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert claims.process_start_time(process.pid) is None
    assert claims.process_start_time(os.getpid()) is not None


def test_the_boot_id_that_a_process_sees() -> None:
    assert claims.boot_id_seen_by([os.getpid()]) == claims.boot_id()
    assert claims.boot_id_seen_by([]) is None
    assert claims.boot_id_seen_by([2**22 + 1, os.getpid()]) == claims.boot_id()
