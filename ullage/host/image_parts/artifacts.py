"""Files of an image that no Debian package holds: fetched once, known by their digest."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tempfile
import time
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from ullage.common.errors import ARTIFACT_CHANGED, ARTIFACT_UNREACHABLE, UllageError
from ullage.common.files import cache_dir, sha256_of
from ullage.common.quantities import exact_bytes

_TIMEOUT_S: Final = 60.0
LARGEST: Final = 256 << 20
"""Bytes. What it is is known only when all of it is there: until then it may be anything."""
FETCH_S: Final = 900.0
_PIECE: Final = 1 << 20


@dataclass(frozen=True)
class Artifact:
    """One file, and where it stands in the image."""

    url: str
    sha256: str
    path: str
    """Absolute."""

    def __post_init__(self) -> None:
        path = PurePosixPath(self.path)
        if not path.is_absolute() or ".." in path.parts or not self.url.startswith("https://"):
            raise ValueError(f"no artifact: {self}")

    @property
    def line(self) -> str:
        """As a part of what an image is made of."""
        return f"{self.path} {self.sha256}"


def maven(
    group: str, name: str, version: str, sha256: str, *, into: str, classifier: str = ""
) -> Artifact:
    """A jar of Maven Central (https://repo1.maven.org), in that directory of the image."""
    file = f"{name}-{version}{f'-{classifier}' if classifier else ''}.jar"
    base = "https://repo1.maven.org/maven2"
    url = f"{base}/{group.replace('.', '/')}/{name}/{version}/{file}"
    return Artifact(url, sha256, f"{into}/{file}")


async def stage(artifacts: Iterable[Artifact], root: Path) -> None:
    """Put all of them below `root`, each at its path. ARTIFACT_UNREACHABLE, ARTIFACT_CHANGED."""
    for artifact in artifacts:
        cached = await asyncio.to_thread(_fetched, artifact)
        place = root / artifact.path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(shutil.copyfile, cached, place)
        place.chmod(0o644)


def _fetched(artifact: Artifact) -> Path:
    """The file in the cache, fetched when it is not there."""
    place = cache_dir() / "artifacts" / artifact.sha256
    if place.is_file() and sha256_of(place) == artifact.sha256:
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=place.parent)
    download = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            digest = _download(artifact.url, file)
        if digest != artifact.sha256:
            raise UllageError(ARTIFACT_CHANGED, url=artifact.url, found=digest)
        download.rename(place)
    finally:
        download.unlink(missing_ok=True)
    return place


def _download(url: str, file: BinaryIO) -> str:
    """Write what the address holds, up to LARGEST and for FETCH_S; its SHA-256."""
    digest, size, until = hashlib.sha256(), 0, time.monotonic() + FETCH_S
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:  # noqa: S310  https alone
            while piece := answer.read1(
                _PIECE
            ):  # `read` waits for all of a piece, however it drips
                size += len(piece)
                if size > LARGEST:
                    raise OSError(f"it is longer than {exact_bytes(LARGEST)}")
                if time.monotonic() > until:
                    raise OSError(f"it has not come within {FETCH_S:g} s")
                digest.update(piece)
                file.write(piece)
    except (OSError, HTTPException) as error:
        raise UllageError(ARTIFACT_UNREACHABLE, url=url, reason=error) from error
    return digest.hexdigest()
