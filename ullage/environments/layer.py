"""What an instance writes over the image, where the plan has the root writable (overlayfs)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from ullage.common.cleanup import Undo
from ullage.environments.base import InstanceSpec
from ullage.host import disks


@dataclass(frozen=True)
class Layer:
    """A directory of one instance's own, beside its data."""

    lower: Path
    """The image's root, which nobody changes."""
    place: Path

    @property
    def upper(self) -> Path:
        """Where what is written goes."""
        return self.place / "upper"

    @property
    def work(self) -> Path:
        """The kernel's own; the name is LXC's."""
        return self.place / "olwork"

    @property
    def options(self) -> str:
        """Of the mount (Documentation/filesystems/overlayfs.rst)."""
        names = {"lowerdir": self.lower, "upperdir": self.upper, "workdir": self.work}
        return ",".join(f"{name}={_escaped(path)}" for name, path in names.items())


async def over(spec: InstanceSpec, root: Path, undo: Undo) -> Layer:
    """An empty one; it is removed when all that is pushed later is undone."""
    layer = Layer(root, spec.data_dir.with_name(f"{spec.name}.layer"))
    undo.push(asyncio.to_thread, disks.remove_tree, layer.place)
    await asyncio.to_thread(_make, layer)
    return layer


def _make(layer: Layer) -> None:
    layer.work.mkdir(parents=True)
    layer.upper.mkdir()
    # What programs see as the mode of `/`.
    layer.upper.chmod(layer.lower.stat().st_mode & 0o7777)


def _escaped(path: Path) -> str:
    return "".join(f"\\{letter}" if letter in "\\:," else letter for letter in str(path))
