"""One root filesystem that every environment of a run stands on.

Built once, named by the digest of its bytes, kept in the cache, and never written again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from ullage.common.archives.headers import ArchiveError
from ullage.common.archives.inflow import Inflow
from ullage.common.commands import CommandError, attempt, needed, run
from ullage.common.errors import (
    HOST_MISSING,
    IMAGE_BUILD_FAILED,
    IMAGE_CHANGED,
    IMAGE_FOREIGN,
    IMAGE_LACKS_PACKAGE,
    IMAGE_NO_ROOM,
    IMAGE_UNREADABLE,
    UllageError,
)
from ullage.common.files import (
    cache_dir,
    difference,
    file_lock,
    hold,
    is_held,
    manifest,
    sha256_of,
)
from ullage.common.packages import install_command
from ullage.common.regular import read_regular
from ullage.common.text import printable
from ullage.host import disks
from ullage.host.container_image import archive, source
from ullage.host.container_image.layers import Tree
from ullage.host.container_image.user import configured
from ullage.host.disks import DiskFormat
from ullage.host.image_parts import mmdebstrap
from ullage.host.image_parts.artifacts import Artifact, stage
from ullage.runs.records import ImageConfig, ImageRecord

BASE_PACKAGES: Final = ("iproute2", "iputils-ping", "procps")
_FORMAT: Final = 1
_FACTS: Final = "image.json"
_DATABASE: Final = "var/lib/dpkg/status"
_PACKAGE: Final = re.compile(r"[a-z0-9][a-z0-9+.-]{0,99}")
_VERSION: Final = re.compile(r"[0-9A-Za-z.+:~-]{1,100}")
_MOST_PACKAGES: Final = 50_000
"""Debian 12 has 64,000; they all stand in each run's `resolved.json`."""
_UNFINISHED: Final = ".new"
_DISK_UUID: Final = "75110a6e-0000-4000-8000-726f6f740001"
_CONTAINER_RECIPE: Final = "2"
"""Changes with what an unpacked container image is."""
_MOUNT_POINTS: Final = ("data", "dev", "proc", "run", "sys", "tmp", "ullage")
_PATH: Final = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin")
_TAR_PATIENCE_S: Final = 600.0
_LEAST_FREE: Final = 1 << 20
"""With less a disk is full: tar writes pieces of 10 KiB."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class Image:
    """A built image. Nothing that runs from it changes it."""

    digest: str
    """`sha256:…` of the tar: the same package versions give the same one."""
    root: Path
    """The unpacked filesystem."""
    tar: Path
    packages: Mapping[str, str]
    """Every Debian package inside → its version."""
    dir: Path
    """Where it is kept, with its disks."""
    hashes: Mapping[str, str] = field(default_factory=dict)
    """Package → SHA-256 of its `.deb`; empty for an image that an older ullage built."""
    snapshot: str | None = None
    """The archive that the packages came from; None: the host's sources, as they were."""
    reference: str | None = None
    """What the plan calls the container image that it was made from; None: it is ours."""
    id: str | None = None
    """Of that image: the digest of its configuration."""
    config: ImageConfig | None = None
    writable: bool = False
    """Each instance may write its root, in a layer of its own; the image stays as it is."""

    async def disk(self, format: DiskFormat) -> Path:  # noqa: A002 - the field's word
        """The image as a disk with one ext4 file system, made once. Read-only for all."""
        path = self.disk_path(format)
        if path.exists():
            return path
        async with file_lock(lock_of(self.dir)):
            if not path.exists():
                with tempfile.TemporaryDirectory(dir=self.dir, prefix=f"{_UNFINISHED}-") as name:
                    unfinished = Path(name) / path.name
                    await self._make_disk(format, unfinished)
                    unfinished.chmod(0o444)
                    unfinished.rename(path)
        return path

    def disk_path(self, format: DiskFormat) -> Path:  # noqa: A002 - the field's word
        """Where that disk is once it has been made."""
        return self.dir / f"disk.{format}"

    async def _make_disk(self, kind: DiskFormat, target: Path) -> None:
        if kind == "raw":
            size = await asyncio.to_thread(disks.space_for, self.root)
            if os.geteuid() == 0:
                await disks.ext4(target, size, uuid=_DISK_UUID, root=self.root)
            else:
                await self._make_disk_unprivileged(target, size)
            return
        raw = self.dir / "disk.raw"
        if not raw.exists():
            raw = target.with_suffix(".raw")
            await self._make_disk("raw", raw)
        await disks.convert(raw, target)

    async def _make_disk_unprivileged(self, target: Path, size: int) -> None:
        """The same where `root` belongs to us: with the owners that the tar names.

        They exist in a user namespace; only there can the copy be read and removed again.
        """
        within = [needed("unshare", "util-linux"), "--map-root-user", "--map-auto", "--"]
        copy = target.parent / "copy"
        copy.mkdir()
        try:
            await _unpack(self.tar, copy, within)
            await disks.ext4(target, size, uuid=_DISK_UUID, root=copy, within=within)
        finally:
            await attempt([*within, "rm", "-rf", str(copy)], timeout_s=_TAR_PATIENCE_S)

    def require(self, programs: Iterable[str]) -> None:
        """IMAGE_LACKS_PACKAGE unless each program is on the PATH inside."""
        lacking = [name for name in programs if not self._has(name)]
        if lacking:
            raise UllageError(IMAGE_LACKS_PACKAGE, programs=", ".join(lacking))

    def _has(self, program: str) -> bool:
        # A link counts by its name: an absolute one would be followed on the host.
        places = (program.lstrip("/"),) if "/" in program else [f"{d}/{program}" for d in _PATH]
        return any(os.path.lexists(self.root / place) for place in places)

    async def verify(self) -> None:
        """IMAGE_CHANGED when the tar or the unpacked filesystem is not what was built."""
        digest = await asyncio.to_thread(sha256_of, self.tar)
        change = None if f"sha256:{digest}" == self.digest else "its tar"
        if change is None:
            facts = await asyncio.to_thread(read_facts, self.dir)
            now = await asyncio.to_thread(manifest, self.root)
            change = difference(facts["manifest"], now)
        if change is not None:
            raise UllageError(IMAGE_CHANGED, digest=self.digest, what=change, dir=self.dir)

    def record(self) -> ImageRecord:
        """As it goes into the run folder."""
        return ImageRecord(
            kind="built" if self.config is None else "oci",
            digest=self.digest,
            reference=self.reference,
            id=self.id,
            # Without the environment: people keep passwords there.
            config=self.config and self.config.model_copy(update={"env": {}}),
            packages=dict(self.packages),
            hashes=dict(self.hashes),
            snapshot=self.snapshot,
            root="writable" if self.writable else "read-only",
        )


@dataclass(frozen=True)
class Additions:
    """What a plan adds to the image."""

    files: Mapping[str, str] = field(default_factory=dict)
    """File or directory here → its path inside."""
    commands: Sequence[Sequence[str]] = ()
    """To run inside, in order."""

    def lines(self) -> list[str]:
        """As a part of what an image is made of. IMAGE_BUILD_FAILED without the files."""
        lines = [f"run {json.dumps(list(argv))}" for argv in self.commands]
        for name, inside in sorted(self.files.items()):
            path = Path(name).absolute()
            if not path.exists():
                raise UllageError(
                    IMAGE_BUILD_FAILED,
                    reason=f"there is no {path}",
                    suggestion="`files` are looked up from where ullage is started",
                )
            content = json.dumps(manifest(path) if path.is_dir() else sha256_of(path))
            lines.append(f"file {inside} {path.stat().st_mode:o} {content}")
        return lines

    def stage(self, root: Path) -> None:
        """Copy the files below `root`, each at its path inside; root owns them there."""
        for name, inside in sorted(self.files.items()):  # as in `lines`
            target = root / inside.lstrip("/")
            places = (place for place in (target, *target.parents) if place.is_relative_to(root))
            if any(place.is_symlink() for place in places):
                raise UllageError(
                    IMAGE_BUILD_FAILED,
                    reason=f"{inside} leads through a link that another of the `files` brought",
                    suggestion="name the place that the link leads to",
                )
            target.parent.mkdir(parents=True, exist_ok=True)
            if Path(name).is_dir():
                shutil.copytree(name, target, symlinks=True, dirs_exist_ok=True)
            else:
                shutil.copy2(name, target)


async def build(
    packages: Sequence[str],
    artifacts: Sequence[Artifact] = (),
    additions: Additions | None = None,
    *,
    snapshot: str | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Image:
    """The image with these packages and the base ones, from the cache when it was built before.

    artifacts: files that no package holds. additions: what the plan adds. snapshot: the
    address of the archive to take packages from; None: from where the host's apt does.

    `on_progress` gets a few words on each step. Raises IMAGE_BUILD_FAILED, HOST_MISSING.
    """
    progress = on_progress or (lambda _: None)
    names = sorted({*BASE_PACKAGES, *packages})
    lines = [artifact.line for artifact in artifacts]
    additions = additions or Additions()
    lines += await asyncio.to_thread(additions.lines)
    pinned = () if snapshot is None else (snapshot,)
    recipe = "\n".join((mmdebstrap.RECIPE, mmdebstrap.SUITE, *names, *lines, *pinned))
    place = await asyncio.to_thread(_place, recipe)
    if (place / _FACTS).exists():
        return _load(place)
    async with file_lock(lock_of(place), lambda: progress("waiting for another build")):
        if not (place / _FACTS).exists():
            await asyncio.to_thread(_remove_unfinished, place)
            await _build_new(names, artifacts, additions, place, progress, snapshot=snapshot)
    return _load(place)


async def from_container(
    reference: str, *, on_progress: Callable[[str], None] | None = None
) -> Image:
    """The user's own container image, from the cache when it was unpacked before.

    Raises IMAGE_NOT_FOUND, IMAGE_UNREADABLE, IMAGE_FOREIGN, IMAGE_NO_ROOM, HOST_MISSING.
    """
    progress = on_progress or (lambda _: None)
    try:
        there = await source.find(reference)
        recipe = f"container {_CONTAINER_RECIPE} {there.key}"
        place = await asyncio.to_thread(_place, recipe)
        lock = lock_of(place)
        async with file_lock(lock, lambda: progress("waiting for another build")):
            if not (place / _FACTS).exists():
                await asyncio.to_thread(_remove_unfinished, place)
                await _unpack_new(reference, there, place, progress)
            # A stranger's image may hold programs that make root of whoever runs them here.
            await asyncio.to_thread(place.chmod, 0o700)
    except ArchiveError as error:
        reason = printable(str(error), 400)
        raise UllageError(IMAGE_UNREADABLE, reference=reference, reason=reason) from error
    except archive.ForeignError as error:
        raise UllageError(
            IMAGE_FOREIGN,
            reference=reference,
            platform=printable(str(error), 200),
            own=archive.ARCHITECTURE,
        ) from error
    return replace(_load(place), reference=reference)


def received(digest: str) -> Image | None:
    """The image with that digest, when another machine has sent it here."""
    place = _place(f"received {digest}")
    return _load(place) if (place / _FACTS).exists() else None


async def receive(digest: str, inflow: Inflow, config: ImageConfig | None = None) -> Image | str:
    """Keep an image that another machine sends, as its tar.

    If the digest of what has arrived is not the one that was promised, it is not kept, and that is
    returned. One that is there already stays, and what comes is passed over.

    CutError; OSError, IMAGE_BUILD_FAILED when the disk is full.
    """
    place = await asyncio.to_thread(_place, f"received {digest}")
    async with file_lock(lock_of(place)):
        if (place / _FACTS).exists():  # another session has received it, and may run from it
            await _taking(inflow, inflow.drain)
            return _load(place)
        await asyncio.to_thread(_remove_unfinished, place)
        work = work_dir(place)
        receive = partial(_receive_into, work / "image", place, digest, inflow, config)
        try:
            actual = await _taking(inflow, receive)
        finally:
            with contextlib.suppress(OSError):  # `abandoned` finds what stays
                await asyncio.to_thread(disks.remove_tree, work)
    return _load(place) if actual == digest else actual


async def _taking(inflow: Inflow, take: Callable[[], _T]) -> _T:
    """What a thread makes of it; the thread has ended afterwards whatever happens."""
    taking = asyncio.ensure_future(asyncio.to_thread(take))
    try:
        await asyncio.wait((taking,))
    finally:
        inflow.stop()
        await asyncio.wait((taking,))
    return taking.result()


def _receive_into(
    directory: Path, place: Path, digest: str, inflow: Inflow, config: ImageConfig | None
) -> str:
    root = directory / "root"
    root.mkdir(parents=True)
    try:
        actual = f"sha256:{inflow.keep(directory / 'rootfs.tar', _unpacker('-', root))}"
    except CommandError as error:
        raise _not_unpacked(error) from error
    if actual == digest:
        facts = {
            "format": _FORMAT,
            "digest": digest,
            "packages": _versions_if_any(root),
            "config": config and config.model_dump(mode="json"),
            "manifest": manifest(root),
        }
        _keep(directory, facts, place, secret=config is not None)
    return actual


def _keep(directory: Path, facts: Mapping[str, Any], place: Path, *, secret: bool) -> None:
    """secret: a stranger's image may hold programs that make root of whoever runs them here, and
    its environment is among its facts, where people keep passwords.
    """
    (directory / _FACTS).touch(0o600 if secret else 0o644)
    (directory / _FACTS).write_text(json.dumps(facts, sort_keys=True), encoding="utf-8")
    directory.chmod(0o700 if secret else 0o755)
    directory.rename(place)


def _place(recipe: str) -> Path:
    """Where the image of that recipe lies. While this process lives nobody removes it."""
    place = images_dir() / hashlib.sha256(recipe.encode()).hexdigest()[:24]
    place.parent.mkdir(parents=True, exist_ok=True)
    if place not in _USED:
        try:
            _USED[place] = hold(use_of(place))
        except OSError as error:  # another user's cache, who does not know of us then
            if error.errno not in _NOT_OURS:
                raise
    return place


_NOT_OURS: Final = {errno.EACCES, errno.EPERM, errno.EROFS}
_USED: Final[dict[Path, int]] = {}
"""The images that this process has used, each with the lock that says so."""


def work_dir(place: Path) -> Path:
    """A new directory beside that image; `abandoned` finds it, unless the image's lock is held."""
    return Path(tempfile.mkdtemp(dir=place.parent, prefix=f"{_UNFINISHED}-{place.name}-"))


def images_dir() -> Path:
    return cache_dir() / "images"


def lock_of(place: Path) -> Path:
    """Whose lock is held by who builds that image, makes a disk of it or removes it."""
    return place.with_suffix(".lock")


def use_of(place: Path) -> Path:
    """Whose lock is held by those who use that image; its time is that of the last of them."""
    return place.with_suffix(".used")


async def _unpack_new(
    reference: str, there: source.ImageSource, place: Path, progress: Callable[[str], None]
) -> None:
    work = work_dir(place)
    try:
        directory = work / "image"
        directory.mkdir(0o700)
        (directory / "root").mkdir()
        tar = directory / "rootfs.tar"
        progress("taking the image from where it is")
        saved = await there.fetch(work)
        progress("merging its layers")
        identity, config = await asyncio.to_thread(_merge, saved, there.tag, work, tar)
        if there.path is not None and identity != there.key:
            raise ArchiveError("it became another image while it was read")
        progress("unpacking")
        await _unpack(tar, directory / "root")
        progress("computing digests")
        facts = {
            "format": _FORMAT,
            "digest": f"sha256:{await asyncio.to_thread(sha256_of, tar)}",
            "packages": await asyncio.to_thread(_versions_if_any, directory / "root"),
            "id": identity,
            "config": config.model_dump(mode="json"),
            "manifest": await asyncio.to_thread(manifest, directory / "root"),
        }
        # The image's environment is in it, where people keep passwords.
        (directory / _FACTS).touch(0o600)
        (directory / _FACTS).write_text(json.dumps(facts, sort_keys=True), encoding="utf-8")
        directory.rename(place)
    except (OSError, ArchiveError, UllageError) as error:
        if _is_full(work, error):
            raise UllageError(IMAGE_NO_ROOM, reference=reference, directory=place.parent) from error
        raise
    finally:
        with contextlib.suppress(OSError):  # `abandoned` finds what stays
            await asyncio.to_thread(disks.remove_tree, work)


def _is_full(directory: Path, error: BaseException | None) -> bool:
    """Whether that is why; what a program of others failed of, only the disk can tell."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
            return True
        error = error.__cause__
    return shutil.disk_usage(directory).free < _LEAST_FREE


def _merge(saved: Path, tag: str | None, work: Path, tar: Path) -> tuple[str, ImageConfig]:
    """Write its layers as one tar, with the places that environments mount upon.

    Returns the image's digest, and how it wants its program to be run.
    """
    tree = Tree()
    with contextlib.ExitStack() as files, archive.opened(saved, tag) as image:
        for layer in image.layers(work):
            tree.add(files.enter_context(layer.open("rb")))
        if not tree.files:
            raise ArchiveError("it holds no file")
        config = configured(image.configuration.config or archive.ImageSettings(), tree)
        for name in _MOUNT_POINTS:
            tree.mount_point(name)
        tree.empty_file("ullage", "agent")
        tree.directory(config.workdir)
        tree.write(tar)
        return image.id, config


def require_on_host(programs: Mapping[str, str], artifacts: Iterable[Artifact] = ()) -> None:
    """HOST_MISSING with all programs that the host does not have, else with the first file.

    programs: name → the Debian package that holds it.
    """
    lacking = [name for name in programs if shutil.which(name) is None]
    if lacking:
        packages = sorted({programs[name] for name in lacking})
        command = install_command(*packages)
        raise UllageError(HOST_MISSING, what=", ".join(lacking), command=command)
    for artifact in artifacts:
        if not Path(artifact.path).exists():
            raise UllageError(HOST_MISSING, what=artifact.path, command=f"put {artifact.url} there")


def host_image(programs: Iterable[str]) -> ImageRecord:
    """The host's own userland, for `image: host`: the packages that hold these programs.

    A host without dpkg's database gives no packages.
    """
    paths = [Path(path) for program in programs if (path := shutil.which(program))]
    owners = _owners({str(name) for path in paths for name in (path, path.resolve())})
    try:
        versions = _versions(Path("/"))
    except OSError:
        versions = {}
    packages = {owner: versions[owner] for owner in sorted(owners) if owner in versions}
    return ImageRecord(kind="host", digest="host", packages=packages)


def _owners(paths: set[str]) -> set[str]:
    """The packages that installed these files, from dpkg's lists."""
    # A merged /usr: packages may still list /bin/x for what is found as /usr/bin/x.
    names = {name.encode() for path in paths for name in (path, path.removeprefix("/usr"))}
    return {
        file.name.removesuffix(".list").partition(":")[0]
        for file in Path("/var/lib/dpkg/info").glob("*.list")
        if not names.isdisjoint(file.read_bytes().splitlines())
    }


def _load(place: Path) -> Image:
    facts = read_facts(place)
    return Image(
        digest=facts["digest"],
        root=place / "root",
        tar=place / "rootfs.tar",
        packages=facts["packages"],
        dir=place,
        hashes=facts.get("hashes", {}),
        snapshot=facts.get("snapshot"),
        id=facts.get("id"),
        config=ImageConfig.model_validate(facts["config"]) if facts.get("config") else None,
    )


def read_facts(place: Path) -> dict[str, Any]:
    """What was written down of the image as it was made; IMAGE_CHANGED."""
    try:
        facts = json.loads((place / _FACTS).read_text(encoding="utf-8"))
        if facts["format"] == _FORMAT and all(
            k in facts for k in ("digest", "packages", "manifest")
        ):
            return dict(facts)
        fault = f"{_FACTS} is of another format"
    except (OSError, ValueError, KeyError, TypeError) as error:
        fault = f"{_FACTS} cannot be read: {error}"
    raise UllageError(IMAGE_CHANGED, digest=place.name, what=fault, dir=place)


async def _build_new(
    names: Sequence[str],
    artifacts: Sequence[Artifact],
    additions: Additions,
    place: Path,
    progress: Callable[[str], None],
    *,
    snapshot: str | None,
) -> None:
    work = work_dir(place)
    try:
        directory = work / "image"
        (directory / "root").mkdir(parents=True)
        tar, extra = directory / "rootfs.tar", work / "extra"
        if artifacts:
            progress("fetching what no package holds")
            await stage(artifacts, extra)
        await asyncio.to_thread(additions.stage, extra)
        more = sorted(extra.iterdir()) if extra.exists() else []
        await mmdebstrap.bootstrap(
            names, tar, work, progress, more, commands=additions.commands, snapshot=snapshot
        )
        progress("unpacking")
        await _unpack(tar, directory / "root")
        progress("computing digests")
        versions = await asyncio.to_thread(_versions, directory / "root")
        facts = {
            "format": _FORMAT,
            "digest": f"sha256:{await asyncio.to_thread(sha256_of, tar)}",
            "suite": mmdebstrap.SUITE,
            "asked": list(names),
            "artifacts": {artifact.path: artifact.sha256 for artifact in artifacts},
            "packages": versions,
            "hashes": await asyncio.to_thread(mmdebstrap.hashes, work / "lists", versions),
            "snapshot": snapshot,
            "manifest": await asyncio.to_thread(manifest, directory / "root"),
        }
        (directory / _FACTS).write_text(json.dumps(facts, sort_keys=True), encoding="utf-8")
        directory.rename(place)
    finally:
        with contextlib.suppress(OSError):  # `abandoned` finds what stays
            await asyncio.to_thread(disks.remove_tree, work)


async def _unpack(tar: Path, root: Path, within: Sequence[str] = ()) -> None:
    try:
        await run(_unpacker(str(tar), root, within), timeout_s=_TAR_PATIENCE_S)
    except CommandError as error:
        raise _not_unpacked(error) from error


def _unpacker(tar: str, root: Path, within: Sequence[str] = ()) -> list[str]:
    """The program that unpacks it; `-`: from its standard input."""
    argv = [*within, needed("tar", "tar"), "--extract", "--numeric-owner", "--xattrs"]
    argv += ["--xattrs-include=*", "--file", tar, "--directory", str(root)]
    if os.geteuid() != 0:
        # Who is not root has no device nodes; a VM gets its /dev from its kernel.
        argv += ["--exclude=./dev/*", "--same-owner" if within else "--no-same-owner"]
    return argv


def _not_unpacked(error: CommandError) -> UllageError:
    suggestion = "is there space left in the cache?"
    return UllageError(IMAGE_BUILD_FAILED, reason=error.reason, suggestion=suggestion)


def _versions_if_any(root: Path) -> dict[str, str]:
    """The same of a stranger's root, whose database need not be there, or be one."""
    try:
        return _installed(read_regular(root / _DATABASE, root=root))
    except OSError:
        return {}


def _versions(root: Path) -> dict[str, str]:
    """What dpkg installed inside, from its own database."""
    return _installed((root / _DATABASE).read_bytes())


def _installed(database: bytes) -> dict[str, str]:
    versions: dict[str, str] = {}
    for stanza in database.decode("utf-8", "replace").split("\n\n"):
        lines = (line.partition(": ") for line in stanza.splitlines() if line[:1] not in {"", " "})
        fields = {key: value for key, _, value in lines}
        name, version = fields.get("Package", ""), fields.get("Version", "")
        installed = fields.get("Status", "").endswith(" installed")
        if installed and _PACKAGE.fullmatch(name) and _VERSION.fullmatch(version):
            versions[name] = version
        if len(versions) == _MOST_PACKAGES:
            break
    return dict(sorted(versions.items()))


def abandoned() -> list[Path]:
    """What builders that died have left in the cache; `disks.remove_tree` removes each."""
    images = images_dir()
    halves = [(path, path.name.split("-")[1]) for path in images.glob(f"{_UNFINISHED}-*-*")]
    halves += [(path, path.parent.name) for path in images.glob(f"*/{_UNFINISHED}-*")]
    return sorted(path for path, name in halves if not is_held(images / f"{name}.lock"))


def _remove_unfinished(place: Path) -> None:
    """What a builder that died has left: we hold the lock, so it is nobody's."""
    for unfinished in (*place.parent.glob(f"{_UNFINISHED}-{place.name}-*"), place):
        disks.remove_tree(unfinished)
