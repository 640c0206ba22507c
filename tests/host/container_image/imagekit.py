"""Small container images, made by hand as `docker save` and `skopeo` write them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BUSYBOX = Path("/bin/busybox")


@dataclass(frozen=True)
class Entry:
    """One member of a layer's tar."""

    name: str
    data: bytes = b""
    kind: bytes = tarfile.REGTYPE
    link: str = ""
    mode: int = 0o755
    owner: int = 0
    xattrs: Mapping[str, str] = field(default_factory=dict)


def directory(name: str, mode: int = 0o755) -> Entry:
    return Entry(name, kind=tarfile.DIRTYPE, mode=mode)


def link(name: str, target: str) -> Entry:
    return Entry(name, kind=tarfile.SYMTYPE, link=target)


def hard_link(name: str, target: str) -> Entry:
    return Entry(name, kind=tarfile.LNKTYPE, link=target)


def layer(*entries: Entry) -> bytes:
    """Its tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry in entries:
            info = tarfile.TarInfo(entry.name)
            info.type, info.linkname, info.mode = entry.kind, entry.link, entry.mode
            info.uid = info.gid = entry.owner
            info.size = len(entry.data)
            info.pax_headers = {f"SCHILY.xattr.{k}": v for k, v in entry.xattrs.items()}
            tar.addfile(info, io.BytesIO(entry.data))
    return buffer.getvalue()


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def configuration(layers: Sequence[bytes], architecture: str, **config: Any) -> bytes:
    rootfs = {"type": "layers", "diff_ids": [digest(data) for data in layers]}
    settings = {"architecture": architecture, "os": "linux", "rootfs": rootfs, "config": config}
    return json.dumps(settings).encode()


def save(
    path: Path,
    layers: Sequence[bytes],
    *,
    architecture: str = "amd64",
    name: str = "app:1",
    **config: Any,
) -> Path:
    """As `docker save` writes it, with one image."""
    data = configuration(layers, architecture, **config)
    file = f"{hashlib.sha256(data).hexdigest()}.json"
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = json.dumps([{"Config": file, "RepoTags": [name], "Layers": names}]).encode()
    members = [(file, data), ("manifest.json", manifest), *zip(names, layers, strict=True)]
    path.write_bytes(layer(*(Entry(name, data, mode=0o644) for name, data in members)))
    return path


def lay_out(path: Path, packed: Sequence[bytes], data: bytes, tag: str = "1") -> Path:
    """As an OCI layout, a directory. packed: the layers as they lie there."""
    blobs = path / "blobs/sha256"
    blobs.mkdir(parents=True)
    layers = [{"digest": digest(blob), "size": len(blob)} for blob in packed]
    manifest = json.dumps({"config": {"digest": digest(data)}, "layers": layers}).encode()
    entry = {
        "digest": digest(manifest),
        "annotations": {"org.opencontainers.image.ref.name": tag},
    }
    for blob in (data, manifest, *packed):
        (blobs / digest(blob).removeprefix("sha256:")).write_bytes(blob)
    (path / "index.json").write_text(json.dumps({"manifests": [entry]}))
    return path


def busybox() -> bytes:
    """A layer with a static busybox by some of its names, and a user `app`."""
    names = ("sh", "id", "echo", "cat")
    return layer(
        directory("bin"),
        Entry("bin/busybox", BUSYBOX.read_bytes()),
        *(hard_link(f"bin/{name}", "bin/busybox") for name in names),
        Entry(
            "etc/passwd", b"root:x:0:0::/root:/bin/sh\napp:x:1234:1235::/home/app:\n", mode=0o644
        ),
        Entry("etc/group", b"app:x:1235:\nmore:x:77:app\n", mode=0o644),
        directory("home/app"),
    )
