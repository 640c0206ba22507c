"""Images: sources, cache, digests, changes, disks. The real builds are lab tests."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ullage.common import errors
from ullage.common.archives.inflow import Inflow
from ullage.common.errors import UllageError
from ullage.common.files import difference, manifest
from ullage.host import disks, image, leftovers
from ullage.host.image import Image
from ullage.host.image_parts import mmdebstrap

STATUS = """\
Package: sysbench
Status: install ok installed
Version: 1.0.20+ds-5
Description: benchmark
 Version: not this

Package: gone
Status: deinstall ok config-files
Version: 1
"""


@pytest.fixture
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """Builds a tiny root filesystem in mmdebstrap's place; gives the calls so far."""
    calls: list[Sequence[str]] = []

    async def bootstrap(
        packages: Sequence[str],
        tar: Path,
        work: Path,
        on_progress: Callable[[str], None],
        extra: Sequence[Path],
        *,
        commands: Sequence[Sequence[str]],
        snapshot: str | None,
    ) -> None:
        assert all(path.is_dir() for path in extra)
        calls.append(packages)
        root = work / "made"
        (root / "usr/bin").mkdir(parents=True)
        (root / "var/lib/dpkg").mkdir(parents=True)
        (root / "bin").symlink_to("usr/bin")
        (root / "usr/bin/sysbench").write_bytes(b"program")
        (root / "usr/bin/editor").symlink_to("/etc/alternatives/editor")
        (root / "var/lib/dpkg/status").write_text(STATUS)
        await asyncio.sleep(0.05)
        with tarfile.open(tar, "w") as archive:
            archive.add(root, ".", filter=_plain)
        on_progress("creating tarball")

    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(mmdebstrap, "bootstrap", bootstrap)
    return calls


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = mmdebstrap.INSTANT
    return member


def build(*packages: str) -> Image:
    return asyncio.run(image.build(packages))


def test_the_cache_is_by_packages(builder: list[Sequence[str]]) -> None:
    steps: list[str] = []
    first = asyncio.run(image.build(["sysbench", "iperf3"], on_progress=steps.append))
    again = build("iperf3", "sysbench", "sysbench")
    other_image = build("sysbench")
    assert again == first
    assert other_image.dir != first.dir
    assert other_image.digest == first.digest  # the stand-in makes the same bytes of both
    assert builder == [
        sorted({*image.BASE_PACKAGES, "sysbench", "iperf3"}),
        sorted({*image.BASE_PACKAGES, "sysbench"}),
    ]
    assert "creating tarball" in steps
    assert first.packages == {"sysbench": "1.0.20+ds-5"}
    assert first.record().digest.startswith("sha256:")


def test_builders_at_once_build_once(builder: list[Sequence[str]]) -> None:
    async def both() -> tuple[Image, Image]:
        return await asyncio.gather(image.build(["sysbench"]), image.build(["sysbench"]))

    first, second = asyncio.run(both())
    assert first == second
    assert len(builder) == 1


def test_a_half_built_image_never_counts(builder: list[Sequence[str]]) -> None:
    whole = build("sysbench")
    (whole.dir / "image.json").unlink()
    unfinished = whole.dir.parent / f".new-{whole.dir.name}-died"
    unfinished.mkdir()
    (unfinished / "rootfs.tar").write_bytes(b"half")
    assert build("sysbench") == whole
    assert len(builder) == 2
    assert not unfinished.exists()


def test_what_a_dead_builder_left_is_found_and_a_living_ones_is_not(
    builder: list[Sequence[str]],
) -> None:
    whole = build("sysbench")
    images = whole.dir.parent
    halves = [images / f".new-{whole.dir.name}-died", whole.dir / ".new-disk"]
    for half in halves:
        half.mkdir()
    with whole.dir.with_suffix(".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert image.abandoned() == []
    assert image.abandoned() == sorted(halves)
    builds = [leftover for leftover in leftovers.find() if leftover.kind == "build"]
    assert leftovers.remove(builds) == []
    assert image.abandoned() == []
    assert whole.tar.exists()


def test_a_failed_build_leaves_nothing(
    builder: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise mmdebstrap._failure("E: Unable to locate package nosuch\nE: mmdebstrap failed to run")

    monkeypatch.setattr(mmdebstrap, "bootstrap", fail)
    with pytest.raises(UllageError) as caught:
        build("nosuch")
    assert caught.value.kind is errors.IMAGE_BUILD_FAILED
    assert caught.value.message.endswith("E: Unable to locate package nosuch")
    assert "no package nosuch" in caught.value.hint
    images = Path(os.environ["ULLAGE_CACHE_DIR"]) / "images"
    assert {path.suffix for path in images.iterdir()} == {".lock", ".used"}


@pytest.mark.parametrize("name", ["../x", "a,b", "--x", "Upper", ""])
def test_only_names_reach_mmdebstrap(tmp_path: Path, name: str) -> None:
    with pytest.raises(UllageError) as caught:
        asyncio.run(mmdebstrap.bootstrap([name], tmp_path / "t.tar", tmp_path, print))
    assert caught.value.kind is errors.IMAGE_BUILD_FAILED


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        (lambda root: (root / "usr/bin/sysbench").write_bytes(b"Program"), "sysbench is not"),
        (lambda root: (root / "usr/bin/sysbench").chmod(0o700), "sysbench is not"),
        (lambda root: (root / "usr/bin/sysbench").unlink(), "sysbench is gone"),
        (lambda root: (root / "new").touch(), "new is new"),
        (lambda root: (root.parent / "rootfs.tar").open("ab").write(b"x"), "its tar"),
        (lambda root: (root.parent / "image.json").write_text("{}"), "image.json"),
    ],
)
def test_a_changed_image_is_told(
    builder: list[Sequence[str]], change: Callable[[Path], object], changed: str
) -> None:
    built = build("sysbench")
    asyncio.run(built.verify())
    change(built.root)
    with pytest.raises(UllageError) as caught:
        asyncio.run(built.verify())
    assert caught.value.kind is errors.IMAGE_CHANGED
    assert changed in caught.value.message


def test_required_programs(builder: list[Sequence[str]]) -> None:
    built = build("sysbench")
    built.require(["sysbench", "/bin/sysbench", "/usr/bin/editor", "editor"])
    with pytest.raises(UllageError) as caught:
        built.require(["sysbench", "iperf3", "/sbin/init"])
    assert caught.value.kind is errors.IMAGE_LACKS_PACKAGE
    assert "iperf3, /sbin/init" in caught.value.message
    assert "image: packages:" not in caught.value.hint, "plans have no such field"
    assert "`image: host`" in caught.value.hint


def test_disks_hold_the_image(builder: list[Sequence[str]]) -> None:
    async def both() -> list[Path]:
        raw, again, qcow2 = await asyncio.gather(
            built.disk("raw"), built.disk("raw"), built.disk("qcow2")
        )
        assert raw == again
        return [raw, qcow2]

    built = build("sysbench")
    raw, qcow2 = asyncio.run(both())
    check = subprocess.run(["/sbin/e2fsck", "-fn", raw], capture_output=True, check=False)
    assert check.returncode == 0, check.stdout
    listing = subprocess.run(
        ["/sbin/debugfs", "-R", "cat /usr/bin/sysbench", raw], capture_output=True, check=True
    )
    assert listing.stdout == b"program"
    compared = subprocess.run(["qemu-img", "compare", raw, qcow2], capture_output=True, check=False)
    assert compared.returncode == 0, compared.stdout
    assert raw.stat().st_mode & 0o222 == 0


def test_a_disk_that_cannot_be_made(tmp_path: Path) -> None:
    identifier = "00000000-0000-4000-8000-000000000000"
    path = tmp_path / "small.raw"
    with pytest.raises(UllageError) as caught:
        asyncio.run(disks.ext4(path, 4096, uuid=identifier))
    assert caught.value.kind is errors.DISK_NOT_MADE
    assert not path.exists()


def test_manifest_tells_kinds_apart(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    before = manifest(tmp_path)
    assert sorted(before) == ["file", "link", "pipe"]
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("pipe")
    assert difference(before, manifest(tmp_path)) == "link is not the same"
    assert difference(before, before) is None


def test_host_sources_one_line() -> None:
    text = """
# deb http://commented/ bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/a.gpg] http://a/debian bookworm main contrib # why
deb-src http://a/debian bookworm main
deb http://b/debian bookworm-updates main
"""
    assert list(mmdebstrap.one_line_sources(text)) == [
        mmdebstrap.AptSource(
            "http://a/debian", "bookworm", ("main", "contrib"), "/usr/share/keyrings/a.gpg"
        ),
        mmdebstrap.AptSource("http://b/debian", "bookworm-updates", ("main",)),
    ]


def test_host_sources_deb822() -> None:
    text = """\
Types: deb deb-src
# URIs: http://commented
URIs: http://a/debian
 http://b/debian
Suites: bookworm bookworm-security
Components: main
Signed-By: /usr/share/keyrings/a.gpg

Types: deb
URIs: http://off
Suites: bookworm
Components: main
Enabled: no
"""
    sources = list(mmdebstrap.deb822_sources(text))
    assert [(s.uri, s.suite) for s in sources] == [
        ("http://a/debian", "bookworm"),
        ("http://a/debian", "bookworm-security"),
        ("http://b/debian", "bookworm"),
        ("http://b/debian", "bookworm-security"),
    ]
    assert sources[0].line() == (
        "deb [signed-by=/usr/share/keyrings/a.gpg] http://a/debian bookworm main"
    )


def test_host_sources_leave_out_other_archives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sources.list.d"
    folder.mkdir()
    monkeypatch.setattr(mmdebstrap, "_SOURCES", (tmp_path / "sources.list", folder))
    (folder / "docker.list").write_text("deb https://docker/debian bookworm stable\n")
    assert mmdebstrap.host_sources() == []
    (tmp_path / "sources.list").write_text("deb http://mirror/debian bookworm main non-free\n")
    (folder / "old.list.disabled").write_text("deb http://old/debian bookworm main\n")
    (tmp_path / "sources.list").rename(folder / "debian.list")
    assert [source.line() for source in mmdebstrap.host_sources()] == [
        "deb http://mirror/debian bookworm main"
    ]


def test_image_of_the_host() -> None:
    image.require_on_host({"ls": "coreutils", "sh": "dash"})
    record = image.host_image(["ls"])
    assert record.kind == "host"
    assert record.packages["coreutils"]
    with pytest.raises(UllageError) as caught:
        image.require_on_host({"no-b": "b", "no-a": "a", "ls": "coreutils", "no-b-too": "b"})
    assert caught.value.kind is errors.HOST_MISSING
    assert caught.value.message == "missing on this host: no-b, no-a, no-b-too"
    assert caught.value.hint == "install it: apt-get install a b"


def test_the_hash_of_a_package_is_that_of_the_version_that_is_installed(tmp_path: Path) -> None:
    stanzas = [("sh", "1", "a" * 64), ("sh", "2", "b" * 64), ("cat", "1", "c" * 64)]
    text = "\n\n".join(
        f"Package: {name}\nVersion: {version}\nDescription: x\n SHA256: no\nSHA256: {digest}"
        for name, version, digest in stanzas
    )
    (tmp_path / "mirror_main_Packages").write_text(text + "\n")
    (tmp_path / "mirror_main_Release").write_text(text)
    installed = {"sh": "2", "cat": "2", "ls": "1"}
    assert mmdebstrap.hashes(tmp_path, installed) == {"sh": "b" * 64}


def test_an_archive_of_one_instant_is_a_source_whose_age_does_not_count() -> None:
    source = mmdebstrap.AptSource("http://x/20250101T000000Z", "bookworm", ("main",), old=True)
    line = "deb [check-valid-until=no] http://x/20250101T000000Z bookworm main"
    assert source.line() == line


def test_an_archive_makes_another_image_and_the_run_says_which(
    builder: list[Sequence[str]],
) -> None:
    plain = asyncio.run(image.build(["sysbench"]))
    pinned = asyncio.run(image.build(["sysbench"], snapshot="https://x/20250101T000000Z"))
    assert len(builder) == 2
    assert plain.record().snapshot is None
    assert pinned.record().snapshot == "https://x/20250101T000000Z"


def test_what_another_session_received_in_the_meantime_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both send the same image: the first's instances run from it while the second sends."""
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "file").write_text("content")
    with tarfile.open(tmp_path / "sent.tar", "w") as tar:
        tar.add(tmp_path / "file", "file")
    data = (tmp_path / "sent.tar").read_bytes()
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"

    async def both() -> bytes:
        (first, to_first), (second, to_second) = os.pipe(), os.pipe()
        receiving = asyncio.create_task(image.receive(digest, Inflow(first, len(data))))
        while not list(tmp_path.glob("cache/images/.new-*")):  # it has the lock
            await asyncio.sleep(0.01)
        later = asyncio.create_task(image.receive(digest, Inflow(second, len(data))))
        await asyncio.to_thread(os.write, to_first, data)
        received = await receiving
        assert isinstance(received, Image)
        (received.root / "seen").touch()
        await asyncio.to_thread(os.write, to_second, data)
        os.close(to_second)
        assert await later == received and (received.root / "seen").exists()
        left = os.read(second, 1)
        for descriptor in (first, to_first, second):
            os.close(descriptor)
        return left

    assert asyncio.run(both()) == b"", "the second sender is not held up"
