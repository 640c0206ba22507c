"""What an archive of a container image holds: a docker-archive, or an OCI layout.

Everything is bounded, and every digest that is named is checked.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import platform
import posixpath
import re
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, BinaryIO, Final, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ullage.common.archives.headers import ArchiveError, Header
from ullage.common.faults import first_fault
from ullage.common.quantities import format_bytes
from ullage.common.regular import open_regular
from ullage.host.container_image.layers import MOST_BYTES

_MOST_JSON: Final = 16 << 20
_MOST_VALUES: Final = 100_000
"""Each that is none of an image's takes a kilobyte of memory."""
_MOST_LAYERS: Final = 1000
_MOST_MEMBERS: Final = 100_000
_LEFT_FREE: Final = 1 << 29
"""Bytes of the disk that no layer may take: others live there too."""
_MOST_INDICES: Final = 4
_PIECE: Final = 1 << 20
_REF_NAME: Final = "org.opencontainers.image.ref.name"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
ARCHITECTURE: Final = _ARCHITECTURES.get(platform.machine(), platform.machine())
"""Of this machine, as images say it."""


class _Foreign(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class ImageSettings(_Foreign):
    """`config` of an image's configuration."""

    User: str | None = None
    Env: list[str] | None = None
    WorkingDir: str | None = None
    Entrypoint: list[str] | None = None
    Cmd: list[str] | None = None
    StopSignal: str | None = None


class _Layers(_Foreign):
    diff_ids: list[str] = Field(max_length=_MOST_LAYERS)


class Configuration(_Foreign):
    """https://github.com/opencontainers/image-spec/blob/v1.1.0/config.md."""

    architecture: str
    os: str
    rootfs: _Layers
    config: ImageSettings | None = None


class ForeignError(Exception):
    """An image for another machine; the text says which."""


class Archive:
    """An opened archive: its configuration, and its layers from the lowest up."""

    def __init__(self, place: Path, tar: tarfile.TarFile | None, tag: str | None) -> None:
        self._place = place
        self._tar = tar
        self._members = {} if tar is None else _members(tar)
        data, self._layers = self._manifest(tag)
        self.id = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.configuration = _parsed(data)
        made_for = f"{self.configuration.os}/{self.configuration.architecture}"
        if made_for != f"linux/{ARCHITECTURE}":
            raise ForeignError(made_for)
        if len(self._layers) != len(self.configuration.rootfs.diff_ids):
            raise ArchiveError("its configuration names more or fewer layers than there are")

    def layers(self, work: Path) -> Iterator[Path]:
        """Each layer as a tar in `work`, its digest checked."""
        pairs = zip(self._layers, self.configuration.rootfs.diff_ids, strict=True)
        left = MOST_BYTES
        for number, (name, diff_id) in enumerate(pairs):
            target = work / f"layer-{number}.tar"
            with self._open(name) as packed, target.open("wb") as out:
                digest = _unpack(packed, out, left)
                left -= out.tell()
            if digest != diff_id:
                raise ArchiveError(f"layer {number + 1} has the digest {digest}, and not {diff_id}")
            yield target

    def _manifest(self, tag: str | None) -> tuple[bytes, list[str]]:
        if "manifest.json" in self._members:
            return self._docker(tag)
        return self._oci(tag)

    def _docker(self, tag: str | None) -> tuple[bytes, list[str]]:
        images = _json(self._read("manifest.json"))
        images = [i for i in images if tag is None or tag in (i.get("RepoTags") or ())]
        if len(images) != 1:
            raise ArchiveError(f"it holds {len(images)} images{f' named {tag}' if tag else ''}")
        name = str(images[0]["Config"])
        data = self._read(name)
        named = re.search(r"([0-9a-f]{64})(\.json)?$", name)
        if named and hashlib.sha256(data).hexdigest() != named[1]:
            raise ArchiveError(f"its configuration has not the digest {named[1]}")
        return data, [str(layer) for layer in images[0]["Layers"]]

    def _oci(self, tag: str | None) -> tuple[bytes, list[str]]:
        index = _json(self._read("index.json"))
        for _ in range(_MOST_INDICES):
            manifest = _json(self._blob(_chosen(index, tag)))
            if "manifests" not in manifest:
                break
            index, tag = manifest, None
        else:
            raise ArchiveError("it is an index of indices without end")
        layers = [_blob_name(str(layer["digest"])) for layer in manifest["layers"]]
        return self._blob(str(manifest["config"]["digest"])), layers

    def _blob(self, digest: str) -> bytes:
        data = self._read(_blob_name(digest))
        if f"sha256:{hashlib.sha256(data).hexdigest()}" != digest:
            raise ArchiveError(f"what it calls {digest} is something else")
        return data

    def _read(self, name: str) -> bytes:
        with self._open(name) as file:
            data = file.read(_MOST_JSON + 1)
        if len(data) > _MOST_JSON or sum(map(data.count, b"[{,")) > _MOST_VALUES:
            raise ArchiveError(f"its {name} is too long")
        return data

    def _open(self, name: str) -> IO[bytes]:
        if self._tar is None:
            return open_regular(self._place / name, MOST_BYTES, self._place)
        member = self._members.get(name)
        for _ in range(8):
            if member is None or not member.issym():
                break
            # Docker before 25 links to the same layer of another image.
            name = posixpath.normpath(posixpath.join(posixpath.dirname(name), member.linkname))
            member = self._members.get(name)
        if member is None:
            raise ArchiveError(f"it has no {name}")
        file = self._tar.extractfile(member) if member.isreg() else None
        if file is None:
            raise ArchiveError(f"its {name} is no file")
        return file


def _members(tar: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    """By name, of what stands there twice the last."""
    members = list(islice(tar, _MOST_MEMBERS + 1))
    if len(members) > _MOST_MEMBERS:
        raise ArchiveError(f"it has more than {_MOST_MEMBERS:,} members")
    return {member.name: member for member in members}


_UNREADABLE: Final = (
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    ValueError,
    ArithmeticError,
    RecursionError,
)
"""What a word of another kind than is expected ends in."""


@contextmanager
def opened(place: Path, tag: str | None) -> Iterator[Archive]:
    """The image in a tar or in an OCI layout's directory. ArchiveError, ForeignError."""
    try:
        if place.is_dir():
            yield Archive(place, None, tag)
            return
        if place.exists() and not place.is_file():
            raise ArchiveError("it is no regular file")
        with tarfile.open(place, "r:", tarinfo=Header, encoding="utf-8") as tar:
            yield Archive(place, tar, tag)
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise ArchiveError(str(error)) from error
    except _UNREADABLE as error:
        raise ArchiveError(f"it cannot be read: {type(error).__name__}: {error}") from error


def _chosen(index: Any, tag: str | None) -> str:
    """The digest of the one manifest that is meant."""
    entries = [
        entry
        for entry in index["manifests"]
        if tag is None or (entry.get("annotations") or {}).get(_REF_NAME) == tag
    ]
    if len(entries) > 1:
        own = {"os": "linux", "architecture": ARCHITECTURE}
        platforms = [entry.get("platform") or {} for entry in entries]
        entries = [
            entry
            for entry, there in zip(entries, platforms, strict=True)
            if all(there.get(key) == value for key, value in own.items())
        ]
        if not entries and all("architecture" in there for there in platforms):
            raise ForeignError(", ".join(f"linux/{there['architecture']}" for there in platforms))
    if len(entries) != 1:
        raise ArchiveError(f"it holds {len(entries)} images{f' named {tag}' if tag else ''}")
    return str(entries[0]["digest"])


def _blob_name(digest: str) -> str:
    match = re.fullmatch(r"sha256:([0-9a-f]{64})", digest)
    if match is None:
        raise ArchiveError(f"{digest[:80]!r} is no SHA-256")
    return f"blobs/sha256/{match[1]}"


def _json(data: bytes) -> Any:
    return json.loads(data)


def _parsed(data: bytes) -> Configuration:
    try:
        return Configuration.model_validate_json(data)
    except ValidationError as error:
        raise ArchiveError(f"its configuration: {first_fault(error)}") from None


def _unpack(packed: IO[bytes], out: BinaryIO, most: int) -> str:
    """Write the layer as it is without compression, of so many bytes at most; its digest."""
    digest, size = hashlib.sha256(), 0
    with _unpacked(packed) as plain:
        while piece := plain.read(_PIECE):
            size += len(piece)
            if size > most:
                raise ArchiveError(f"its layers have over {format_bytes(MOST_BYTES)}")
            if shutil.disk_usage(out.fileno()).free < _LEFT_FREE + len(piece):
                raise OSError(errno.ENOSPC, "others need a part of this disk, too")
            digest.update(piece)
            out.write(piece)
    return f"sha256:{digest.hexdigest()}"


@contextmanager
def _unpacked(packed: IO[bytes]) -> Iterator[IO[bytes]]:
    head = packed.read(6)
    packed.seek(0)
    if head.startswith(b"\x1f\x8b"):
        with gzip.open(packed) as plain:
            yield cast("IO[bytes]", plain)
    elif head.startswith(b"\x28\xb5\x2f\xfd"):
        with TemporaryFile() as source:
            shutil.copyfileobj(packed, source, _PIECE)
            source.seek(0)
            with _plain_of_zstd(source) as plain:
                yield plain
    else:
        yield packed


@contextmanager
def _plain_of_zstd(source: IO[bytes]) -> Iterator[IO[bytes]]:
    """Through `zstd`, since Python 3.11 has no module for it; a reader may stop early."""
    program = shutil.which("zstd")
    if program is None:
        raise ArchiveError("a layer is packed by zstd, which is missing here: apt-get install zstd")
    argv = [program, "--decompress", "--stdout", "--quiet"]
    with subprocess.Popen(argv, stdin=source, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise ArchiveError("a layer's zstd data are damaged")
