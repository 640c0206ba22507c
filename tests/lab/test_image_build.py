"""Real image builds: they fetch from the Debian mirror and take 10 s each."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ullage import errors, image
from ullage.errors import UllageError
from ullage.image import Image

pytestmark = [pytest.mark.lab, pytest.mark.root]


def build(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Image:
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(cache))
    return asyncio.run(image.build(["sysbench"]))


def test_the_same_packages_give_the_same_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build(tmp_path / "one", monkeypatch)
    second = build(tmp_path / "two", monkeypatch)
    assert first.digest == second.digest
    assert first.packages == second.packages
    assert {"sysbench", *image.BASE_PACKAGES} <= first.packages.keys()
    asyncio.run(first.verify())
    first.require(["sysbench", "ip", "ping", "ps"])
    root = first.root
    assert (root / "ullage/agent").read_bytes() == b""
    assert (root / "data").is_dir()
    assert not list((root / "etc/apt/sources.list.d").iterdir())
    assert not (root / "etc/apt/apt.conf.d/99mmdebstrap").exists()
    assert (root / "etc/hostname").read_text() == "ullage\n"
    assert not (root / "etc/machine-id").exists() or not (root / "etc/machine-id").read_text()
    assert [p.name for p in (tmp_path / "one/images").glob(".new-*")] == []


def test_an_unknown_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path))
    with pytest.raises(UllageError) as caught:
        asyncio.run(image.build(["no-such-package-here"]))
    assert caught.value.kind is errors.IMAGE_BUILD_FAILED
    assert "Unable to locate package no-such-package-here" in caught.value.message
    assert "no package no-such-package-here" in caught.value.hint


def test_a_cancelled_build_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path))

    async def cancel() -> None:
        under_way = asyncio.Event()
        task = asyncio.create_task(image.build(["sysbench"], on_progress=lambda _: under_way.set()))
        await under_way.wait()
        await asyncio.sleep(2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert [path.suffix for path in (tmp_path / "images").iterdir()] == [".lock"]
    assert str(tmp_path) not in Path("/proc/mounts").read_text()
