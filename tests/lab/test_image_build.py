"""Real image builds: they fetch from the Debian mirror and take 10 s each."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.host import image, leftovers
from ullage.host.image import Image

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
    assert not (root / "etc/dpkg/dpkg.cfg.d/99mmdebstrap").exists()
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


BUILD = "import asyncio; from ullage.host import image; asyncio.run(image.build(['sysbench']))"
NODES = ("null", "zero", "full", "random", "urandom", "tty", "shm", "pts")


def nodes() -> dict[str, tuple[int, int]]:
    """The host's own device nodes, as mmdebstrap binds them into what it builds."""
    status = {name: Path("/dev", name).stat() for name in NODES}
    return {name: (stat.st_mode, stat.st_rdev) for name, stat in status.items()}


def builders(cache: Path) -> list[str]:
    """Processes that work below the cache, wherever their parents are."""
    names = []
    for directory in Path("/proc").iterdir():
        try:
            if str(cache).encode() in (directory / "environ").read_bytes():
                names.append((directory / "comm").read_text())
        except OSError:
            continue
    return names


@pytest.mark.parametrize("after_s", [0.5, 2.0, 5.0])
def test_a_killed_build_harms_nothing(
    after_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it cost this host its /dev/zero: mounts outlived their builder, and were cleaned up."""
    before = nodes()
    environment = {**os.environ, "ULLAGE_CACHE_DIR": str(tmp_path)}
    builder = subprocess.Popen([sys.executable, "-c", BUILD], env=environment)
    while not list(tmp_path.glob("images/.new-*/mmdebstrap.*")):
        assert builder.poll() is None
        time.sleep(0.02)
    time.sleep(after_s)
    builder.kill()
    builder.wait()
    deadline = time.monotonic() + 300
    while running := builders(tmp_path):
        assert time.monotonic() < deadline, running
        time.sleep(0.05)
    assert str(tmp_path) not in Path("/proc/mounts").read_text()
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path))
    builds = [leftover for leftover in leftovers.find() if leftover.kind == "build"]
    assert len(builds) == 1
    assert leftovers.remove(builds) == []
    assert nodes() == before
    with Path("/dev/zero").open("rb") as zero:
        assert zero.read(4) == bytes(4)
    assert [path.suffix for path in (tmp_path / "images").iterdir()] == [".lock"]
