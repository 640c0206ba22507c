"""What every page is made with: the library of charts, packed, and from where it comes."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

import pytest
import vl_convert

from ullage.report import document


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def fresh() -> document.Assets:
    document.assets.cache_clear()
    return document.assets()


def test_the_library_is_bundled_once_for_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    first = fresh()
    monkeypatch.setattr(vl_convert, "javascript_bundle", None)
    assert fresh() == first
    library = zlib.decompress(base64.b64decode(first.library)).decode()
    assert document.LIBRARY in library or "window.vegaEmbed" in library
    assert len(first.library) < len(library) / 2


def test_a_page_needs_no_cache(cache: Path) -> None:
    cache.write_text("in the way")
    assert fresh().library
