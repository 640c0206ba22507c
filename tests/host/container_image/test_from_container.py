"""A container image becomes the root of all environments; what cannot is refused, and leaves
nothing."""

from __future__ import annotations

import asyncio
import gzip
import os
import re
import resource
import shutil
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.host.container_image.imagekit import (
    BUSYBOX,
    Entry,
    busybox,
    configuration,
    digest,
    lay_out,
    layer,
    link,
    save,
)
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.common.errors.kind import ErrorKind
from ullage.host import image
from ullage.host.container_image import archive, source
from ullage.host.container_image.layers import Tree
from ullage.host.container_image.user import configured
from ullage.host.image import Image

pytestmark = pytest.mark.root


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def unpacked(reference: str) -> Image:
    return asyncio.run(image.from_container(reference))


def refused(reference: str, kind: ErrorKind, reason: str, cache: Path) -> None:
    with pytest.raises(UllageError) as caught:
        unpacked(reference)
    assert caught.value.kind is kind
    assert re.search(reason, str(caught.value))
    assert [path for path in cache.rglob("*") if path.is_dir() and path.name != "images"] == []


def test_an_image_by_docker_save(tmp_path: Path) -> None:
    top = layer(Entry("home/app/go", b"#!/bin/sh\n", owner=1234, mode=0o4755))
    path = save(
        tmp_path / "app.tar",
        [busybox(), top],
        User="app",
        Env=["GREETING=hello=you"],
        WorkingDir="/home/app",
        Entrypoint=["/home/app/go"],
        Cmd=["now"],
    )
    built = unpacked(f"docker-archive:{path}:app:1")
    config = built.config
    assert config is not None
    assert config.argv == ("/home/app/go", "now")
    assert (config.user.uid, config.user.gid, config.user.groups) == (1234, 1235, (77,))
    assert config.env["GREETING"] == "hello=you"
    assert config.env["HOME"] == "/home/app"
    program = built.root / "home/app/go"
    assert program.stat().st_mode & 0o7777 == 0o4755
    assert program.stat().st_uid == 1234
    greeting = subprocess.run(
        ["chroot", built.root, "/bin/echo", "hello"], capture_output=True, check=True
    )
    assert greeting.stdout == b"hello\n"
    assert all((built.root / name).is_dir() for name in ("data", "proc", "dev", "sys", "tmp"))
    asyncio.run(built.verify())
    assert built.record().kind == "oci"
    assert built.record().config == config.model_copy(update={"env": {}})


def test_a_working_directory_that_is_missing_is_made(tmp_path: Path) -> None:
    """As runc does; else no program of the image would start."""
    links = layer(link("srv", "/home"))
    path = save(tmp_path / "app.tar", [busybox(), links], WorkingDir="/srv/app/deep")
    built = unpacked(f"docker-archive:{path}")
    place = (built.root / "home/app/deep").stat()
    assert stat.S_ISDIR(place.st_mode)
    assert (place.st_mode & 0o7777, place.st_uid) == (0o755, 0)


@pytest.mark.parametrize(
    ("text", "number"), [("SIGQUIT", 3), ("quit", 3), ("3", 3), ("SIGRTMIN+3", 15), ("", 15)]
)
def test_what_its_server_ends_by(text: str, number: int) -> None:
    settings = archive.ImageSettings(StopSignal=text)
    assert configured(settings, Tree()).stop_signal == number


def test_the_same_image_is_unpacked_once(tmp_path: Path) -> None:
    layers = [busybox()]
    data = configuration(layers, "amd64")
    place = lay_out(tmp_path / "layout", [gzip.compress(layers[0])], data)
    first = unpacked(f"oci:{place}:1")
    (tmp_path / "app.tar").write_bytes(save(tmp_path / "other.tar", layers).read_bytes())
    second = unpacked(f"docker-archive:{tmp_path / 'app.tar'}")
    assert (first.digest, first.dir, first.id) == (second.digest, second.dir, second.id)


def test_what_skopeo_writes(tmp_path: Path) -> None:
    """Two kinds of archive, one with layers packed by zstd."""
    path = save(tmp_path / "app.tar", [busybox()])
    first = unpacked(f"docker-archive:{path}")
    for target, options in (
        (f"oci:{tmp_path}/layout:1", ["--dest-compress-format", "zstd"]),
        (f"oci-archive:{tmp_path}/oci.tar", []),
    ):
        argv = ["skopeo", "copy", *options, f"docker-archive:{path}", target]
        subprocess.run(argv, check=True, capture_output=True)
        shutil.rmtree(first.dir.parent)
        assert unpacked(target).digest == first.digest


def test_an_archive_that_is_replaced_meanwhile(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the cache would give the new image under the old one's name."""
    path = save(tmp_path / "app.tar", [busybox()])
    find = source.find

    async def replaced(reference: str) -> source.ImageSource:
        there = await find(reference)
        save(path, [busybox()], Cmd=["other"])
        return there

    monkeypatch.setattr(source, "find", replaced)
    refused(f"docker-archive:{path}", errors.IMAGE_UNREADABLE, "became another image", cache)


def test_a_foreign_one(tmp_path: Path, cache: Path) -> None:
    path = save(tmp_path / "app.tar", [busybox()], architecture="arm64")
    refused(f"docker-archive:{path}", errors.IMAGE_FOREIGN, "linux/arm64", cache)


def test_an_empty_one(tmp_path: Path, cache: Path) -> None:
    path = save(tmp_path / "app.tar", [])
    refused(f"docker-archive:{path}", errors.IMAGE_UNREADABLE, "holds no file", cache)


def test_an_unknown_user(tmp_path: Path, cache: Path) -> None:
    path = save(tmp_path / "app.tar", [busybox()], User="nobody-here")
    refused(f"docker-archive:{path}", errors.IMAGE_UNREADABLE, "nobody-here", cache)


def test_a_layer_that_is_another(tmp_path: Path, cache: Path) -> None:
    layers = [busybox()]
    place = lay_out(tmp_path / "layout", [layer(Entry("x"))], configuration(layers, "amd64"))
    refused(f"oci:{place}", errors.IMAGE_UNREADABLE, "layer 1 has the digest", cache)


@pytest.mark.parametrize("cut", [100, 600, 2000, 500_000])
def test_a_cut_archive(tmp_path: Path, cache: Path, cut: int) -> None:
    path = save(tmp_path / "app.tar", [busybox()])
    path.write_bytes(path.read_bytes()[:cut])
    refused(f"docker-archive:{path}", errors.IMAGE_UNREADABLE, "app.tar cannot be used", cache)


def test_a_tag_that_is_not_there(tmp_path: Path, cache: Path) -> None:
    path = save(tmp_path / "app.tar", [busybox()])
    refused(f"docker-archive:{path}:app:2", errors.IMAGE_UNREADABLE, "0 images named app:2", cache)


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("docker-archive:/no/such.tar", "there is no /no/such.tar"),
        ("docker-daemon:-v", "that is no image's name"),
        ("docker-daemon:no-such-image:1", "docker"),
        ("docker://localhost:9/none", "localhost:9"),
    ],
)
def test_none(cache: Path, reference: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such/socket")
    with pytest.raises(UllageError) as caught:
        unpacked(reference)
    assert caught.value.kind is errors.IMAGE_NOT_FOUND
    assert re.search(reason, str(caught.value))
    assert not list(cache.rglob(".new-*"))


def test_without_any_network(tmp_path: Path, cache: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        'name: far\nbaseline: native\nimage: {oci: "docker://registry.example/app:1"}\n'
        "environments: {native: {provider: native}, box: {provider: oci}}\n"
        "workloads: [{name: command}]\n"
    )
    argv = ["unshare", "--net", sys.executable, "-m", "ullage", "image", "build", str(plan)]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == errors.IMAGE_NOT_FOUND.exit_code
    assert f"error[{errors.IMAGE_NOT_FOUND.code}]" in done.stderr
    assert "registry.example" in done.stderr and "Traceback" not in done.stderr
    assert not list(cache.rglob(".new-*"))


def test_a_damaged_gzip_layer(tmp_path: Path, cache: Path) -> None:
    layers = [busybox()]
    packed = bytearray(gzip.compress(layers[0]))
    packed[len(packed) // 2] ^= 0xFF
    place = lay_out(tmp_path / "layout", [bytes(packed)], configuration(layers, "amd64"))
    with pytest.raises(UllageError) as caught:
        unpacked(f"oci:{place}")
    assert caught.value.kind is errors.IMAGE_UNREADABLE


def test_an_archive_with_a_negative_size(tmp_path: Path, cache: Path) -> None:
    info = tarfile.TarInfo("manifest.json")
    info.size = -512
    path = tmp_path / "app.tar"
    path.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    refused(
        f"docker-archive:{path}", errors.IMAGE_UNREADABLE, "has -512 bytes|invalid offset", cache
    )


@pytest.mark.parametrize("name", ["index.json", "layer"])
def test_what_is_no_file_in_a_layout_is_not_waited_for(
    tmp_path: Path, cache: Path, name: str
) -> None:
    data = layer(Entry("x"))
    place = lay_out(tmp_path / "layout", [data], configuration([data], "amd64"))
    file = place / (name if "." in name else f"blobs/sha256/{digest(data).partition(':')[2]}")
    file.unlink()
    os.mkfifo(file)
    refused(f"oci:{place}", errors.IMAGE_UNREADABLE, "not a regular file", cache)


def test_an_archive_that_is_no_file_is_not_waited_for(tmp_path: Path, cache: Path) -> None:
    os.mkfifo(tmp_path / "app.tar")
    refused(f"docker-archive:{tmp_path}/app.tar", errors.IMAGE_UNREADABLE, "no regular file", cache)


def test_layers_that_unpack_to_more_than_there_may_be(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousandth of it packed: the end of a tar may be as long as one likes."""
    monkeypatch.setattr(archive, "MOST_BYTES", 5 << 20)
    layers = [layer(Entry(name)) + bytes(3 << 20) for name in "ab"]
    packed = [gzip.compress(data) for data in layers]
    place = lay_out(tmp_path / "layout", packed, configuration(layers, "amd64"))
    refused(f"oci:{place}", errors.IMAGE_UNREADABLE, "over 5MiB", cache)


def test_layers_leave_others_a_part_of_the_disk(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_LEFT_FREE", 1 << 60)
    path = save(tmp_path / "app.tar", [busybox()])
    refused(f"docker-archive:{path}", errors.IMAGE_NO_ROOM, "does not fit on the disk", cache)


@pytest.mark.parametrize("megabytes", [2, 5, 9])
def test_a_disk_that_is_full_is_no_fault_of_the_image(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, megabytes: int
) -> None:
    """While a layer is unpacked, while they are merged, and while the root is: it was blamed."""
    monkeypatch.setattr(archive, "_LEFT_FREE", 0)
    big = layer(Entry("big", os.urandom(3 << 20)))
    path = save(tmp_path / "app.tar", [big], Entrypoint=["/big"])
    cache.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(cache)]
    subprocess.run(mount, check=True)
    try:
        refused(f"docker-archive:{path}", errors.IMAGE_NO_ROOM, "does not fit on the disk", cache)
    finally:
        subprocess.run(["umount", "--lazy", str(cache)], check=True)  # we use the image


def test_an_archive_of_members_without_end(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_MOST_MEMBERS", 2)
    path = save(tmp_path / "app.tar", [busybox()])
    refused(f"docker-archive:{path}", errors.IMAGE_UNREADABLE, "more than 2 members", cache)


def test_a_configuration_of_wrong_values(tmp_path: Path, cache: Path) -> None:
    """Pydantic makes a note of each: sixteen megabytes became seven gigabytes."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path = save(tmp_path / "app.tar", [busybox()], Env=[[]] * 1_000_000)
    refused(f"docker-archive:{path}", errors.IMAGE_UNREADABLE, "is too long", cache)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


DPKG = "var/lib/dpkg/status"
INSTALLED = b"Package: %b\nStatus: install ok installed\nVersion: %b\n\n"


@pytest.mark.parametrize(
    ("entry", "packages"),
    [
        (Entry(DPKG, INSTALLED % (b"sh", b"1:2.0-1~x+y")), {"sh": "1:2.0-1~x+y"}),
        (Entry(DPKG, b"Status: install ok installed\n"), {}),
        (Entry(DPKG, INSTALLED % (b"a" * 1_000_000, b"1") + INSTALLED % (b"b", b"\x1b[2J")), {}),
        (Entry(DPKG, bytes(65 << 20)), {}),
        (Entry(DPKG, kind=tarfile.FIFOTYPE), {}),
        (link(DPKG, "/dev/zero"), {}),
        (link("var", "/var"), {}),
    ],
    ids=["one", "no name", "no word", "too long", "a pipe", "a device", "the host's"],
)
def test_the_packages_of_a_stranger_s_image(
    tmp_path: Path, entry: Entry, packages: dict[str, str]
) -> None:
    path = save(tmp_path / "app.tar", [busybox(), layer(entry)])
    assert unpacked(f"docker-archive:{path}").packages == packages


def test_nobody_else_runs_what_a_stranger_made_root_s(tmp_path: Path) -> None:
    """A program of the image that is setuid and root's lies in the cache, on this host's disk."""
    top = layer(Entry("bin/busybox", BUSYBOX.read_bytes(), mode=0o4755))
    path = save(tmp_path / "app.tar", [top])
    built = unpacked(f"docker-archive:{path}")
    assert (built.root / "bin/busybox").stat().st_mode & stat.S_ISUID
    assert not built.dir.stat().st_mode & 0o077
    built.dir.chmod(0o755)  # as an earlier ullage left it
    assert not unpacked(f"docker-archive:{path}").dir.stat().st_mode & 0o077


def test_files_of_a_plan_do_not_leave_the_image_by_a_link_of_another(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "app/link").symlink_to(tmp_path / "outside")
    (tmp_path / "conf").write_text("mine")
    files = {str(tmp_path / "app"): "/opt/app", str(tmp_path / "conf"): "/opt/app/link/conf"}
    with pytest.raises(UllageError) as caught:
        image.Additions(files).stage(tmp_path / "root")
    assert caught.value.kind is errors.IMAGE_BUILD_FAILED
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_pinned_image_that_is_here_is_not_fetched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """By Docker, where there is no skopeo."""
    calls: list[str] = []
    here = {"there"}

    async def call(reference: str, program: str, *words: str) -> str:
        calls.append(words[0])
        if words[0] == "image" and "there" not in here:
            raise UllageError(errors.IMAGE_NOT_FOUND, reference=reference, reason="none")
        here.add("there")
        return "sha256:" + "1" * 64

    monkeypatch.setattr(source, "_call", call)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}" if name == "docker" else None)
    pinned = f"docker://example.org/app@sha256:{'0' * 64}"
    asyncio.run(source.find(pinned))
    assert calls == ["image"]
    here.clear()
    asyncio.run(source.find(pinned))
    assert calls[1:] == ["image", "pull", "image"]
    asyncio.run(source.find("docker://example.org/app:1"))
    assert calls[4:] == ["pull", "image"]
