"""A plan's image as a disk of a cloud's: what stands on it, and who sees that it is the same."""

from __future__ import annotations

import asyncio
import json
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.clouds import boot_disk
from ullage.environments.clouds.calls import Deadline
from ullage.environments.clouds.ssh import Shell, ShellError
from ullage.host.image import Image

pytestmark = pytest.mark.root
SHELL = Shell("c-0", "127.0.0.1", "root", Path("key"), Path("hosts"))


def small(directory: Path, *files: str) -> Image:
    for name in files:
        file = directory / "root" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return Image("sha256:0", directory / "root", directory / "rootfs.tar", {}, directory)


@pytest.fixture
def own(tmp_path: Path) -> Image:
    return small(tmp_path / "own", "bin/program")


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Debian beside it takes minutes to build."""
    outside = small(tmp_path / "system", "boot/vmlinuz-6.1", "boot/initrd.img-6.1")

    async def build(*_: Any, **__: Any) -> Image:
        return outside

    monkeypatch.setattr("ullage.host.image.build", build)


def exported(own: Image, target: Path, cloud: boot_disk.Cloud = "ec2") -> boot_disk.BootDisk:
    return asyncio.run(boot_disk.export(own, cloud, target, on_progress=lambda _: None))


def refused(own: Image, target: Path) -> UllageError:
    with pytest.raises(UllageError) as caught:
        exported(own, target)
    return caught.value


@pytest.mark.usefixtures("system")
def test_the_image_stands_on_it_byte_by_byte(own: Image, tmp_path: Path) -> None:
    disk = exported(own, tmp_path / "disk")
    listed = subprocess.run(["/usr/sbin/sfdisk", "-J", disk.path], capture_output=True, check=True)
    partitions = json.loads(listed.stdout)["partitiontable"]["partitions"]
    assert [one["name"] for one in partitions] == ["ullage-boot", "ullage-image", "ullage-system"]
    content = disk.path.read_bytes()
    start, size = (partitions[1][field] * 512 for field in ("start", "size"))
    there = content[start : start + size]
    assert there == (own.dir / "disk.raw").read_bytes()
    assert disk.image_digest == f"sha256:{sha256(there).hexdigest()}"
    files = ["mdir", "-/", "-b", "-i", f"{disk.path}@@{partitions[0]['start'] * 512}", "::/"]
    names = subprocess.run(files, capture_output=True, text=True, check=True).stdout
    assert "EFI/BOOT/BOOTX64.EFI" in names and "vmlinuz" in names
    assert not list(tmp_path.glob(".ullage-*")), "nothing of its making is left"


@pytest.mark.usefixtures("system")
def test_a_cloud_of_qemu_gets_it_packed(own: Image, tmp_path: Path) -> None:
    disk = exported(own, tmp_path / "disk", "openstack")
    assert disk.path.read_bytes()[:4] == b"QFI\xfb"
    assert str(disk.path) in disk.upload


@pytest.mark.usefixtures("system")
def test_a_file_that_is_there_stays(own: Image, tmp_path: Path) -> None:
    target = tmp_path / "disk"
    target.write_text("precious")
    assert refused(own, target).kind is errors.DISK_EXISTS
    assert target.read_text() == "precious"


@pytest.mark.usefixtures("system")
def test_where_no_links_can_be_made(
    own: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stick with FAT."""

    def link(*_: Any) -> None:
        raise PermissionError

    monkeypatch.setattr("os.link", link)
    assert exported(own, tmp_path / "disk").path.stat().st_size > 0


@pytest.mark.usefixtures("system")
def test_a_loader_that_is_missing(
    own: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot_disk, "_LOADER", tmp_path / "nowhere.efi")
    error = refused(own, tmp_path / "disk")
    assert error.kind is errors.HOST_MISSING
    assert "systemd-boot-efi" in error.hint
    assert not (tmp_path / "disk").exists()


@pytest.mark.usefixtures("system")
def test_a_place_that_is_not_there(own: Image, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        exported(own, tmp_path / "nowhere" / "disk")


@pytest.mark.parametrize(
    ("there", "sent"), [("same", 1), ("other", 2), ("none", 2), ("unreadable", 2)]
)
def test_an_image_is_sent_unless_its_very_bytes_are_there(
    there: str, sent: int, own: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first thing that is sent is the agent."""
    lines: list[str] = []
    digest = sha256((asyncio.run(own.disk("raw"))).read_bytes()).hexdigest()
    answers = {"same": f"{digest}  -\n", "other": f"{'0' * 64}  -\n", "none": ""}

    async def run(_: Shell, words: list[str], *, source: Path | None = None, **__: Any) -> str:
        lines.append(words[-1])
        if source is not None:
            return f"{sha256(source.read_bytes()).hexdigest()}  there\n"
        if "sha256sum <" not in words[-1]:
            return ""
        if there == "unreadable":
            raise ShellError("sha256sum: Input/output error")
        return answers[there]

    monkeypatch.setattr(Shell, "run", run)
    own.tar.write_bytes(b"image")
    agent = tmp_path / "agent"
    agent.write_bytes(b"agent")
    with_image = asyncio.run(SHELL.furnish(agent, own, Deadline(60.0)))
    assert sum("cat >" in line for line in lines) == sent == 1 + with_image
