"""Options and machines for QEMU, and a kernel that boots in no time and then hangs."""

from __future__ import annotations

import asyncio
import itertools
import struct
from pathlib import Path
from typing import Any

import pytest

from ullage.common import errors
from ullage.common.cleanup import Undo
from ullage.common.errors import UllageError
from ullage.environments.base import InstanceSpec
from ullage.environments.qemu.build import Builder
from ullage.environments.qemu.command_line import VirtualMachine
from ullage.environments.qemu.options import QemuOptions
from ullage.host.guest_kernel import GuestKernel
from ullage.host.image import Image

MIB = 1 << 20


def options(**fields: object) -> QemuOptions:
    return QemuOptions.model_validate(fields)


def hanging_kernel(folder: Path) -> GuestKernel:
    """Prints `HI` on the console and halts for ever."""
    # cli; out 0x3f8 …; hlt; jmp
    return _kernel(folder, b"\xfa\x66\xba\xf8\x03\xb0H\xee\xb0I\xee\xf4\xeb\xfd")


def talking_kernel(folder: Path) -> GuestKernel:
    """Prints a letter now and then, for ever, and never gets any further."""
    # cli; out 0x3f8; 2^22 times round; jmp
    code = b"\xfa\x66\xba\xf8\x03\xb0H\xee\xb9\x00\x00\x40\x00\xe2\xfe\xeb\xf6"
    return _kernel(folder, code)


def _kernel(folder: Path, code: bytes) -> GuestKernel:
    """Multiboot (Multiboot Specification 0.6.96, §3.1) with load addresses of its own."""
    magic, flags, base = 0x1BADB002, 1 << 16, 0x100000
    end = base + 32 + len(code)
    header = struct.pack(
        "<8I", magic, flags, -(magic + flags) & 0xFFFFFFFF, base, base, end, end, base + 32
    )
    kernel, initrd = folder / "kernel", folder / "initrd"
    kernel.write_bytes(header + code)
    initrd.write_bytes(b"nothing")
    return GuestKernel("0", "hanging 0", kernel, initrd)


def machine(folder: Path, **changes: Any) -> VirtualMachine:
    kernel = hanging_kernel(folder)
    fields: dict[str, Any] = {
        "name": "vm-0",
        "accelerator": "tcg",
        "machine": "q35",
        "cpu_model": "max",
        "vcpus": 1,
        "memory_bytes": 64 * MIB,
        "kernel": kernel.kernel,
        "initrd": kernel.initrd,
        "append": ("quiet",),
    }
    return VirtualMachine(**(fields | changes))


def pairs(argv: list[str]) -> list[tuple[str, str]]:
    return list(itertools.pairwise(argv))


def spec_for(tmp_path: Path, tag: str, built: Image | None, agent: Path) -> InstanceSpec:
    for name in ("state-0", "data-0"):
        (tmp_path / name).mkdir(exist_ok=True)
    return InstanceSpec(
        tag=tag,
        name="vm-0",
        cpu_ids=(0,),
        cpu_quota=None,
        memory_bytes=256 * MIB,
        image=built,
        agent=agent,
        state_dir=tmp_path / "state-0",
        data_dir=tmp_path / "data-0",
        network=None,
    )


def refused(builder: Builder) -> errors.ErrorKind:
    """Why it builds no VM; what it had made is undone."""

    async def boot() -> None:
        async with Undo() as undo:
            await builder.build(undo)

    with pytest.raises(UllageError) as caught:
        asyncio.run(boot())
    return caught.value.kind


def tiny_image(tmp_path: Path) -> Image:
    """A directory that passes for an image, good enough for a kernel that never looks at it."""
    root = tmp_path / "image/root"
    root.mkdir(parents=True)
    return Image("sha256:0", root, root.parent / "rootfs.tar", {}, root.parent)
