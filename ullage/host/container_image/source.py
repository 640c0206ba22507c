"""Where a container image comes from: a daemon here, an archive, a registry."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ullage.common.commands import CommandError, run
from ullage.common.errors import IMAGE_NOT_FOUND, UllageError
from ullage.host.container_image import archive

_ARCHIVES: Final = ("docker-archive", "oci-archive", "oci")
_STORES: Final = {"docker-daemon": "docker", "containers-storage": "podman"}
_REGISTRY: Final = "docker://"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,399}")
_PINNED: Final = re.compile(r"(:[A-Za-z0-9_.-]+)?@(?P<digest>sha256:[0-9a-f]{64})$")
_LOOPBACK: Final = re.compile(r"docker://(localhost|127\.[0-9.]+)(:[0-9]+)?/")
_PATIENCE_S: Final = 1800.0


@dataclass(frozen=True)
class ImageSource:
    """An image that is there."""

    reference: str
    key: str
    """The same for the same image."""
    path: Path | None = None
    """The archive."""
    tag: str | None = None
    """Which image of it; None: there is one only."""
    store: str | None = None
    """Else the program that keeps it, or fetches it."""

    async def fetch(self, work: Path) -> Path:
        """The archive; its container engine writes it into `work`. IMAGE_NOT_FOUND."""
        if self.path is not None:
            return self.path
        target = work / "image.tar"
        if self.store == "skopeo":
            words = ["copy", "--quiet", *_plain(self.reference, "--src-tls-verify=false")]
            words += [_by_digest(self.reference), f"oci-archive:{target}"]
        else:
            kind = ["--format", "docker-archive"] if self.store == "podman" else []
            words = ["save", *kind, "--output", str(target), self.key]
        assert self.store is not None
        await _call(self.reference, self.store, *words)
        return target


async def find(reference: str) -> ImageSource:
    """Where it is, by its name in a plan. IMAGE_NOT_FOUND, ArchiveError, or ForeignError."""
    if reference.startswith(_REGISTRY):
        return await _in_registry(reference, _checked(reference, reference[len(_REGISTRY) :]))
    transport, colon, rest = reference.partition(":")
    if colon and transport in _ARCHIVES:
        return await asyncio.to_thread(_in_archive, reference, rest)
    if colon and transport in _STORES:
        return await _in_store(reference, _checked(reference, rest), [_STORES[transport]])
    return await _in_store(reference, _checked(reference, reference), list(_STORES.values()))


def _checked(reference: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UllageError(IMAGE_NOT_FOUND, reference=reference, reason="that is no image's name")
    return name


def _in_archive(reference: str, rest: str) -> ImageSource:
    name, _, tag = rest.partition(":")
    path = Path(name).absolute()
    if not path.exists():
        raise UllageError(IMAGE_NOT_FOUND, reference=reference, reason=f"there is no {path}")
    with archive.opened(path, tag or None) as image:
        return ImageSource(reference, image.id, path, tag or None)


async def _in_store(reference: str, name: str, stores: list[str]) -> ImageSource:
    reasons = []
    for store in stores:
        try:
            inspect = ("image", "inspect", "--format", "{{.Id}}", name)
            key = (await _call(reference, store, *inspect)).strip()
        except UllageError as error:
            reasons.append(str(error.facts["reason"]))
            continue
        return ImageSource(reference, key if ":" in key else f"sha256:{key}", store=store)
    raise UllageError(IMAGE_NOT_FOUND, reference=reference, reason="; ".join(reasons))


async def _in_registry(reference: str, name: str) -> ImageSource:
    if shutil.which("skopeo"):
        if pinned := _PINNED.search(name):
            return ImageSource(reference, pinned["digest"], store="skopeo")
        words = ["inspect", "--no-tags", *_plain(reference, "--tls-verify=false")]
        words += ["--format", "{{.Digest}}", reference]
        digest = (await _call(reference, "skopeo", *words)).strip()
        return ImageSource(reference, digest, store="skopeo")
    store = next((program for program in _STORES.values() if shutil.which(program)), "skopeo")
    if _PINNED.search(name):
        with contextlib.suppress(UllageError):  # then it is not here yet
            return await _in_store(reference, name, [store])
    await _call(reference, store, "pull", "--quiet", name)
    return await _in_store(reference, name, [store])


def _by_digest(reference: str) -> str:
    """Without a tag that stands before a digest: skopeo takes one of them, and this one decides."""
    return _PINNED.sub(r"@\g<digest>", reference)


def _plain(reference: str, flag: str) -> list[str]:
    """The flag for a registry of this machine: as for Docker, plain http will do there."""
    return [flag] if _LOOPBACK.match(reference) else []


async def _call(reference: str, program: str, *words: str) -> str:
    try:
        return await run([program, *words], timeout_s=_PATIENCE_S)
    except CommandError as error:
        raise UllageError(IMAGE_NOT_FOUND, reference=reference, reason=str(error)) from error
