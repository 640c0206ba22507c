from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.host import paths


@given(st.text())
def test_only_a_tag_becomes_a_path(text: str) -> None:
    if paths.TAG.fullmatch(text):
        assert paths.state_dir(text).parent == paths.state_root()
    else:
        with pytest.raises(ValueError, match="not a tag"):
            paths.state_dir(text)


@pytest.mark.parametrize("text", ["u1234567\n", "../../etc", "u12345678", "U1234567", "u123456g"])
def test_near_tags_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="not a tag"):
        paths.data_dir(text)


def test_new_tags_are_tags() -> None:
    tags = {paths.new_tag() for _ in range(50)}
    assert len(tags) == 50
    assert all(paths.check_tag(tag) for tag in tags)


def test_a_claim_is_private_and_names_us(tag: str) -> None:
    claimed = paths.claim(tag, "/runs/x")
    assert claimed == paths.controller(tag)
    assert claimed.pid == os.getpid()
    assert claimed.run == "/runs/x"
    assert claimed.alive
    for directory in (paths.state_dir(tag), paths.data_dir(tag)):
        assert directory.stat().st_mode & 0o777 == 0o700


def test_a_dead_controller_is_dead(tag: str) -> None:
    paths.claim(tag, "/runs/x")
    path = paths.state_dir(tag) / "controller.json"
    found = json.loads(path.read_text())
    with subprocess.Popen(["true"]) as process:
        pass
    for change in (
        {"pid": process.pid},
        {"start_time": found["start_time"] - 1},  # the process id was used again
        {"boot_id": "another"},
    ):
        path.write_text(json.dumps({**found, **change}))
        controller = paths.controller(tag)
        assert controller is not None
        assert not controller.alive


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": "x"}', "\xff"])
def test_a_broken_claim_is_none(tag: str, text: str) -> None:
    paths.claim(tag, "/runs/x")
    (paths.state_dir(tag) / "controller.json").write_text(text)
    assert paths.controller(tag) is None


def test_a_zombie_is_dead() -> None:
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert paths.process_start_time(process.pid) is None
    assert paths.process_start_time(os.getpid()) is not None


def test_places_of_a_plain_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for name in ("ULLAGE_STATE_DIR", "ULLAGE_DATA_DIR", "ULLAGE_CACHE_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert paths.state_root() == Path("/run/user/1000/ullage")
    assert paths.data_root() == Path("/home/u/.local/state/ullage/data")
    assert paths.cache_dir() == Path("/cache/ullage")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert paths.state_root() == Path("/home/u/.local/state/ullage/run")


def test_the_boot_id_that_a_process_sees() -> None:
    assert paths.boot_id_seen_by([os.getpid()]) == paths.boot_id()
    assert paths.boot_id_seen_by([]) is None
    assert paths.boot_id_seen_by([2**22 + 1, os.getpid()]) == paths.boot_id()
