"""What the big guest stands on: Debian's image, and a disk with Python and what plans run from."""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from ullage.common.commands import CommandError, run
from ullage.common.files import cache_dir, file_lock
from ullage.common.packages import needed_to_run
from ullage.environments.agent.client import binary
from ullage.host import disks, image
from ullage.host.guest_kernel import GuestKernel, guest_kernel
from ullage.host.image import Image
from ullage.plan import matrix, schema

CHECKOUT: Final = Path(__file__).resolve().parents[3]
PACKAGES: Final = (
    # The meta-package is what ullage inside asks apt for.
    *("linux-image-amd64", "systemd-sysv", "udev", "dbus", "kmod", "procps", "apparmor"),
    *("ethtool", "fdisk", "iperf3", "netpipe-tcp", "tcpdump", "python3"),
)
"""Beside those that `ullage setup` installs."""

HOST_PREFIX: Final = Path("/usr")
PREFIX: Final = Path(sys.base_prefix)
"""Of the Python that runs here, and inside: Debian's own, or a copy."""

_RECIPE: Final = "3"
_EXTRAS: Final = ("libvirt-python",)
"""Of what is installed here beside the lock's: it goes by the libvirt that is there."""
_KEPT: Final = 4
"""Payloads, a gigabyte and a half each."""
_SIZE: Final = 16 << 30
_PATIENCE_S: Final = 600.0
_LABEL: Final = "6b766d20-6f6e-4000-8000-6c6576656c64"
_NOT_COPIED: Final = shutil.ignore_patterns("test", "*.a", "__pycache__", "site-packages")


@dataclass(frozen=True)
class Disks:
    """All read-only: a guest writes into layers of its own."""

    system: Image
    kernel: GuestKernel
    payload: Path


async def prepare(plans: Sequence[str], packages: Sequence[str] = ()) -> Disks:
    """From the cache, by the digest of what they are made of, or made now.

    packages: more of Debian's in the system.
    """
    kernel = await guest_kernel(binary())
    release = kernel.package.split()[0]
    system = await image.build((*needed_to_run(), *PACKAGES, release, *packages), on_progress=print)
    await system.disk("raw")
    images = [await _image(plan) for plan in plans]
    return Disks(system, kernel, await _payload(kernel, images))


async def _image(plan: str) -> Image:
    """What the plan's environments run from."""
    resolved = matrix.resolve(*schema.loads(plan))
    built = await image.build(matrix.packages(resolved), matrix.artifacts(resolved))
    await built.disk("raw")
    return built


async def _payload(kernel: GuestKernel, images: Iterable[Image]) -> Path:
    """A disk with `python`, `packages` and ullage's cache on it."""
    unique = {one.dir: one for one in images}
    lock = (CHECKOUT / "requirements.lock").read_text(encoding="utf-8")
    inputs = (_RECIPE, sys.version, sys.base_prefix, lock, kernel.package, kernel.initrd.name)
    recipe = "\n".join((*inputs, *sorted(f"{d} {one.digest}" for d, one in unique.items())))
    name = hashlib.sha256(recipe.encode()).hexdigest()[:24]
    disk = cache_dir() / "big-guest" / f"{name}.raw"
    disk.parent.mkdir(parents=True, exist_ok=True)
    async with file_lock(disk.with_suffix(".lock")):
        if not disk.exists():
            with tempfile.TemporaryDirectory(dir=disk.parent) as place:
                await _fill(Path(place), lock, kernel, unique, disk)
    disk.touch()
    # One that runs from an older one has it open.
    for old in sorted(disk.parent.glob("*.raw"), key=lambda file: -file.stat().st_mtime)[_KEPT:]:
        old.unlink(missing_ok=True)
    return disk


async def _fill(
    place: Path, lock: str, kernel: GuestKernel, images: Iterable[Path], disk: Path
) -> None:
    stage = place / "stage"
    if PREFIX != HOST_PREFIX:
        shutil.copytree(PREFIX, stage / "python", symlinks=True, ignore=_NOT_COPIED)
    _copy_distributions(lock, stage / "packages")
    await _compile(stage)
    for folder in (kernel.kernel.parent, *images):
        target = stage / "cache" / folder.relative_to(cache_dir())
        target.parent.mkdir(parents=True, exist_ok=True)
        # Links: they take no room, and owners stay as they are.
        await run(["cp", "-al", str(folder), str(target)], timeout_s=_PATIENCE_S)
    await disks.ext4(place / "disk", _SIZE, uuid=_LABEL, root=stage)
    (place / "disk").rename(disk)


async def _compile(stage: Path) -> None:
    """Emulated, the first start would take half a minute. Some packages hold templates of code."""
    argv = [sys.executable, "-m", "compileall", "-qq", "-j", "0", "-x", "/tests?/", str(stage)]
    with contextlib.suppress(CommandError):
        await run(["env", "-u", "PYTHONDONTWRITEBYTECODE", *argv], timeout_s=_PATIENCE_S)


def _copy_distributions(lock: str, target: Path) -> None:
    """What the lock names, and extras, as pip has them here; some of it is for other systems."""
    installed = {re.sub(r"[-_.]+", "-", one.name).lower(): one for one in distributions()}
    for written in (*re.findall(r"^([a-z0-9][a-z0-9._-]*)==", lock, re.MULTILINE), *_EXTRAS):
        name = re.sub(r"[-_.]+", "-", written)
        files = installed[name].files or () if name in installed else ()
        for file in files:
            if ".." not in file.parts and file.suffix != ".pyc":
                path = target / file
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(str(file.locate()), path)
