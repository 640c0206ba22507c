"""The guest kernel: module order, initramfs, unpacking."""

from __future__ import annotations

import asyncio
import lzma
import stat
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.host import guest_kernel


def elf_with_modinfo(modinfo: bytes) -> bytes:
    """The smallest ELF file with a `.modinfo` section."""
    names = b"\0.modinfo\0.shstrtab\0"
    at = 64
    sections = [
        (0, 0, 0, 0, 0, 0),
        (1, 1, 0, 0, at, len(modinfo)),
        (10, 3, 0, 0, at + len(modinfo), len(names)),
    ]
    table = b"".join(struct.pack("<IIQQQQ", *section) + bytes(24) for section in sections)
    start = at + len(modinfo) + len(names)
    head = bytearray(64)
    head[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", head, 0x28, start)
    struct.pack_into("<HHH", head, 0x3A, 64, 3, 2)
    return bytes(head) + modinfo + names + table


def module(folder: Path, name: str, *, depends: str = "", softdep: str = "") -> None:
    notes = [f"name={name}", f"depends={depends}"]
    if softdep:
        notes.append(f"softdep={softdep}")
    content = elf_with_modinfo(b"".join(note.encode() + b"\0" for note in notes))
    (folder / f"{name}.ko").write_bytes(content)


def test_modules_come_after_what_they_need(tmp_path: Path) -> None:
    module(tmp_path, "virtio_net", depends="virtio,net_failover")
    module(tmp_path, "net-failover", depends="failover")
    module(tmp_path, "failover")
    module(tmp_path, "virtio")
    module(tmp_path, "ext4", depends="jbd2", softdep="pre: crc32c_generic not_there post: other")
    module(tmp_path, "jbd2")
    module(tmp_path, "crc32c_generic")
    module(tmp_path, "unwanted")
    files = guest_kernel.module_files(tmp_path)
    order = [path.stem for path in guest_kernel.load_order(["virtio-net", "ext4", "virtio"], files)]
    assert order == [
        "virtio",
        "failover",
        "net-failover",
        "virtio_net",
        "crc32c_generic",
        "jbd2",
        "ext4",
    ]


def test_a_missing_module_is_an_error(tmp_path: Path) -> None:
    module(tmp_path, "e1000", depends="nowhere")
    with pytest.raises(UllageError) as caught:
        guest_kernel.load_order(["e1000"], guest_kernel.module_files(tmp_path))
    assert caught.value.kind is errors.GUEST_KERNEL_UNUSABLE
    assert "nowhere" in caught.value.message


def test_packed_modules_are_unpacked(tmp_path: Path) -> None:
    content = elf_with_modinfo(b"depends=a,b\0")
    (tmp_path / "x.ko.xz").write_bytes(lzma.compress(content))
    path = guest_kernel.module_files(tmp_path)["x"]
    assert guest_kernel.module_bytes(path) == content
    assert guest_kernel.needs(guest_kernel.module_bytes(path)) == (["a", "b"], [])


@given(st.binary(max_size=300))
def test_garbage_is_no_module(garbage: bytes) -> None:
    assert guest_kernel.needs(b"\x7fELF\x02\x01" + garbage) == ([], [])


def read_cpio(archive: bytes) -> list[tuple[str, int, bytes]]:
    """What the kernel's own unpacker would see."""
    files: list[tuple[str, int, bytes]] = []
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * i :][:8], 16) for i in range(13)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        name = archive[at + 110 : at + 110 + name_size - 1].decode()
        start = (at + 110 + name_size + 3) // 4 * 4
        if name == "TRAILER!!!":
            return files
        files.append((name, mode, archive[start : start + size]))
        at = (start + size + 3) // 4 * 4


NAMES = st.text("abcdefghij_-./", min_size=1, max_size=20)


@given(st.lists(st.tuples(NAMES, st.just(stat.S_IFREG | 0o644), st.binary(max_size=50))))
def test_cpio_round_trip(entries: list[tuple[str, int, bytes]]) -> None:
    archive = guest_kernel.cpio(entries)
    assert len(archive) % 4 == 0
    assert read_cpio(archive) == entries
    assert archive == guest_kernel.cpio(entries)


def bz_image(payload: bytes) -> bytes:
    """A kernel image with one setup sector, just as far as the boot protocol goes."""
    head = bytearray(2 * 512)
    head[0x1F1] = 1
    struct.pack_into("<II", head, 0x248, 32, len(payload))
    return bytes(head) + bytes(32) + payload + b"tail"


def test_the_elf_file_is_taken_out_of_a_bzimage() -> None:
    elf = b"\x7fELF" + bytes(1000)
    # The kernel's build appends the unpacked size to the stream.
    packed = bz_image(lzma.compress(elf) + struct.pack("<I", len(elf)))
    assert guest_kernel.vmlinux(packed) == elf


@given(st.binary(max_size=2000))
def test_another_kernel_image_stays_as_it_is(image: bytes) -> None:
    assert guest_kernel.vmlinux(image) == image
    assert guest_kernel.vmlinux(bz_image(image)) == bz_image(image)


def test_the_initramfs_holds_agent_and_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = tmp_path / "modules"
    modules.mkdir()
    module(modules, "virtio")
    module(modules, "e1000", depends="virtio")
    monkeypatch.setattr(guest_kernel, "MODULES", ("e1000",))
    (tmp_path / "vmlinux-6.1-test").write_bytes(b"kernel")
    agent = tmp_path / "agent"
    agent.write_bytes(b"agent one")
    unpacked = guest_kernel._look(tmp_path, "linux-image-6.1-test 1")
    with_initramfs = guest_kernel._with_initramfs(unpacked, agent, ())
    assert with_initramfs.version == "6.1-test"
    entries = {
        name: (mode, content)
        for name, mode, content in read_cpio(with_initramfs.initrd.read_bytes())
    }
    assert entries["init"] == (stat.S_IFREG | 0o755, b"agent one")
    assert entries["modules.list"][1] == b"/modules/virtio.ko\n/modules/e1000.ko\n"
    assert entries["modules/e1000.ko"][1] == (modules / "e1000.ko").read_bytes()
    assert stat.S_ISDIR(entries["proc"][0])
    module(modules, "nfsd")
    more = guest_kernel._with_initramfs(unpacked, agent, ("nfsd",))
    loaded = {name: content for name, _, content in read_cpio(more.initrd.read_bytes())}
    assert loaded["modules.list"].endswith(b"/modules/e1000.ko\n/modules/nfsd.ko\n")
    assert "modules/nfsd.ko" not in entries
    agent.write_bytes(b"agent two")
    assert guest_kernel._with_initramfs(unpacked, agent, ()).initrd != with_initramfs.initrd


def test_an_unknown_package_names_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ULLAGE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(guest_kernel, "META_PACKAGE", "linux-image-of-nobody")
    with pytest.raises(UllageError) as caught:
        asyncio.run(guest_kernel.guest_kernel(tmp_path / "agent"))
    assert caught.value.kind is errors.GUEST_KERNEL_UNUSABLE
    assert list(tmp_path.iterdir()) == []
