"""The images that the cache keeps: what they are, when they were used last, their removal."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ullage.common.errors import IMAGE_IN_USE, IMAGE_NOT_KEPT, UllageError
from ullage.common.files import unheld
from ullage.common.quantities import many
from ullage.host import disks, image

_MOST_NAMES: Final = 4
"""Of packages; the others are counted."""


@dataclass(frozen=True)
class KeptImage:
    """One image, with the disks that were made of it."""

    digest: str
    """`sha256:…` of its tar; empty where nothing says it: it is damaged."""
    content: str
    """What it was made of, in words."""
    size: int
    """Bytes on the disk."""
    used_epoch_s: float
    """When a process began to use it last, or when it was made, where an older ullage did."""
    in_use: bool
    place: Path

    @property
    def name(self) -> str:
        """As much of the digest as people read."""
        return self.digest.removeprefix("sha256:")[:12] or self.place.name


def kept() -> list[KeptImage]:
    """All of them, what was used last first."""
    places = (path for path in image.images_dir().glob("*") if path.is_dir())
    images = [_kept(place) for place in places if not place.name.startswith(".")]
    return sorted(images, key=lambda one: -one.used_epoch_s)


def _kept(place: Path) -> KeptImage:
    try:
        facts = image.read_facts(place)
    except UllageError:
        facts = {"digest": ""}
    use = image.use_of(place)
    return KeptImage(
        digest=str(facts["digest"]),
        content=_content(facts),
        size=sum(_sizes(place)),
        used_epoch_s=_time(use) or _time(place) or 0.0,
        in_use=_in_use(use),
        place=place,
    )


def _in_use(use: Path) -> bool:
    if not use.exists():  # an older ullage made the image
        return False
    try:
        with unheld(use) as nobody:
            return not nobody
    except PermissionError:  # another user's cache: who knows
        return True


def _time(path: Path) -> float | None:
    """When it was changed last; None: it is not there."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None


def _content(facts: Mapping[str, Any]) -> str:
    if not facts["digest"]:
        return "damaged"
    if "asked" in facts:
        own = [name for name in facts["asked"] if name not in image.BASE_PACKAGES]
        shown, more = own[:_MOST_NAMES], len(own) - _MOST_NAMES
        names = ", ".join(shown) + (f" and {more} more" if more > 0 else "")
        return f"Debian with {names}" if own else "Debian"
    return "a container image" if "id" in facts else "sent by another machine"


def _sizes(root: Path) -> Iterator[int]:
    for folder, _, files in os.walk(root):
        for name in files:
            with contextlib.suppress(FileNotFoundError):  # another removes it meanwhile
                yield Path(folder, name).lstat().st_blocks * 512


def chosen(images: Iterable[KeptImage], digest: str) -> list[KeptImage]:
    """Those with this digest or its beginning; IMAGE_NOT_KEPT when that is none or several."""
    beginning = digest.removeprefix("sha256:")
    those = [one for one in images if beginning and _matches(one, beginning)]
    if len({one.name for one in those}) != 1:
        raise UllageError(IMAGE_NOT_KEPT, count=many(len(those), "image"), digest=digest)
    return those


def _matches(one: KeptImage, beginning: str) -> bool:
    return one.digest.removeprefix("sha256:").startswith(beginning) or beginning == one.place.name


def remove(one: KeptImage) -> None:
    """Remove it with its disks; IMAGE_IN_USE, and nothing is touched, while somebody uses it."""
    with unheld(image.use_of(one.place)) as unused, unheld(image.lock_of(one.place)) as idle:
        # What a killed run has left may still be mounted there.
        place = one.place.resolve()
        if not (unused and idle) or any(path.is_relative_to(place) for path in disks.points()):
            raise UllageError(IMAGE_IN_USE, image=one.name)
        gone = image.work_dir(one.place)
        if one.place.exists():
            one.place.rename(gone / "image")
        disks.remove_tree(gone)
