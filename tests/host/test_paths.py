from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.common import files
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


def test_places_of_a_plain_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for name in ("ULLAGE_STATE_DIR", "ULLAGE_DATA_DIR", "ULLAGE_CACHE_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert paths.state_root() == Path("/run/user/1000/ullage")
    assert paths.data_root() == Path("/home/u/.local/state/ullage/data")
    assert files.cache_dir() == Path("/cache/ullage")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert paths.state_root() == Path("/home/u/.local/state/ullage/run")
