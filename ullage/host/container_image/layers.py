"""Layers of a container image, merged into one tar.

https://github.com/opencontainers/image-spec/blob/v1.1.0/layer.md. All is done in memory on names:
nothing is looked up on this host, so no name and no link of an image can lead out of its root.
Devices are left out: every environment has a `/dev` of its own.
"""

from __future__ import annotations

import tarfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from ullage.common.archives.headers import ArchiveError, Header

MOST_ENTRIES: Final = 2_000_000
MOST_BYTES: Final = 64 << 30
_LONGEST_PATH: Final = 4096
"""Linux's PATH_MAX."""
_MOST_WORDS: Final = 256 << 20
"""Characters of all names and attributes, which are kept in memory."""
_MOST_STEPS: Final = 100_000_000
"""From a directory to one below it, or along a link, for all entries together."""
_MOST_LINKS: Final = 40
_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_PIECE: Final = 1 << 20


@dataclass
class LayerFile:
    """A file; several names may have it."""

    info: tarfile.TarInfo
    layer: BinaryIO | None = None
    """Where its bytes are, from `info.offset_data` on."""
    children: dict[str, LayerFile] = field(default_factory=dict)

    def content(self, most: int) -> bytes:
        """Of a regular file, so many bytes of it."""
        if self.layer is None:
            return b""
        self.layer.seek(self.info.offset_data)
        return self.layer.read(min(most, self.info.size))


def _directory() -> LayerFile:
    info = tarfile.TarInfo()
    info.type, info.mode = tarfile.DIRTYPE, 0o755
    return LayerFile(info)


class Tree:
    """The file system that layers make, one put on the other."""

    def __init__(self) -> None:
        self.root = _directory()
        self.files = 0
        """Regular files, links and directories that layers brought."""
        self._bytes, self._words, self._steps = 0, 0, 0

    def add(self, layer: BinaryIO) -> None:
        """Put a layer on top. ArchiveError when it is no whole tar, or may not be taken."""
        entries = list(self._counted(_entries(layer)))
        marks = [entry for entry in entries if _is_mark(entry)]
        for entry in entries:  # or a mark below one would follow the link that it replaces
            if entry.isdir():
                self._replace(_parts(entry.name))
        for mark in marks:  # they are about the layers below, wherever in this one they stand
            self._remove(_parts(mark.name))
        for entry in entries:
            if not (_is_mark(entry) or entry.ischr() or entry.isblk()):
                self._put(entry, layer)

    def _counted(self, entries: Iterator[tarfile.TarInfo]) -> Iterator[tarfile.TarInfo]:
        """The same, while there are not too many."""
        for entry in entries:
            self._count_file()
            _check_path(entry.name)
            _check_path(entry.linkname)
            self._bytes += entry.size if entry.isreg() else 0
            self._words += len(entry.name) + len(entry.linkname)
            self._words += sum(len(key) + len(value) for key, value in entry.pax_headers.items())
            if self._bytes > MOST_BYTES or self._words > _MOST_WORDS:
                raise ArchiveError(
                    f"it has over {self._bytes:,} bytes, or {self._words:,} characters of names"
                )
            yield entry

    def _count_file(self) -> None:
        self.files += 1
        if self.files > MOST_ENTRIES:
            raise ArchiveError(f"it has over {MOST_ENTRIES:,} files")

    def find(self, path: str) -> LayerFile | None:
        """What a path leads to, links followed within the root."""
        *above, name = _words(path) or [""]
        parent = self._resolve(above, make=False)
        for _ in range(_MOST_LINKS):
            node = parent.children.get(name) if parent and name else parent
            if node is None or not node.info.issym():
                return node
            target = _words(node.info.linkname)
            if not node.info.linkname.startswith("/"):
                target = above + target
            *above, name = target or [""]
            parent = self._resolve(above, make=False)
        return None

    def mount_point(self, name: str) -> None:
        """See that `/name` is a directory; where there is none it is added, empty."""
        node = self.root.children.setdefault(name, _directory())
        if not node.info.isdir():
            raise ArchiveError(f"its /{name} is no directory, and something is to be mounted there")

    def directory(self, path: str) -> None:
        """See that it leads to a directory, links followed; what is missing of it is added."""
        self._resolve(_words(path), make=True)

    def empty_file(self, directory: str, name: str) -> None:
        """Add an empty file to mount one upon, unless there is one."""
        self.mount_point(directory)
        node = self.root.children[directory].children.setdefault(name, LayerFile(tarfile.TarInfo()))
        if not node.info.isreg():
            raise ArchiveError(
                f"its /{directory}/{name} is no file, and one is to be mounted there"
            )

    def write(self, target: Path) -> None:
        """All of it as one tar, in the order of names."""
        first: dict[int, str] = {}
        with tarfile.open(
            target, "w", format=tarfile.PAX_FORMAT, encoding="utf-8", errors="surrogateescape"
        ) as tar:
            for path, node in self._walk():
                info = _copied(node.info, path)
                if id(node) in first:
                    info.type, info.linkname, info.size = tarfile.LNKTYPE, first[id(node)], 0
                elif not info.isdir():
                    first[id(node)] = path
                if info.isreg() and node.layer is not None:
                    node.layer.seek(node.info.offset_data)
                    tar.addfile(info, node.layer)
                else:
                    tar.addfile(info)

    def _walk(self) -> Iterator[tuple[str, LayerFile]]:
        todo = [(".", self.root)]
        while todo:
            path, node = todo.pop()
            _check_path(path)
            yield path, node
            names = sorted(node.children, reverse=True)
            todo += [(f"{path}/{name}", node.children[name]) for name in names]

    def _replace(self, parts: list[str]) -> None:
        """Take away what a directory of a new layer replaces: a link or a file below it."""
        parent = self._resolve(parts[:-1], make=False) if parts else None
        node = parent.children.get(parts[-1]) if parent is not None else None
        if parent is not None and node is not None and not node.info.isdir():
            del parent.children[parts[-1]]

    def _remove(self, parts: list[str]) -> None:
        parent = self._resolve(parts[:-1], make=False)
        if parent is None:
            return
        if parts[-1] == _OPAQUE:
            parent.children.clear()
        else:
            parent.children.pop(parts[-1].removeprefix(_WHITEOUT), None)

    def _put(self, entry: tarfile.TarInfo, layer: BinaryIO) -> None:
        parts = _parts(entry.name)
        if not parts:
            if entry.isdir():
                self.root.info = entry
            return
        parent = self._resolve(parts[:-1], make=True)
        assert parent is not None
        before = parent.children.get(parts[-1])
        if entry.islnk():
            node = self._linked(entry)
        elif entry.isdir() and before is not None and before.info.isdir():
            before.info = entry
            return
        else:
            node = LayerFile(entry, layer if entry.isreg() else None)
        parent.children[parts[-1]] = node

    def _linked(self, entry: tarfile.TarInfo) -> LayerFile:
        parts = _parts(entry.linkname)
        parent = self._resolve(parts[:-1], make=False)
        node = parent.children.get(parts[-1]) if parent is not None and parts else None
        if node is None or node.info.isdir():
            raise ArchiveError(f"{entry.name!r} is a link to {entry.linkname!r}, which is no file")
        return node

    def _resolve(self, parts: Sequence[str], *, make: bool) -> LayerFile | None:
        """The directory that this leads to. None: there is none, and none is to be made."""
        stack, todo, links = [self.root], deque(parts), 0
        while todo:
            name = todo.popleft()
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise ArchiveError("its paths and links lead about without end")
            if name == "..":
                del stack[max(1, len(stack) - 1) :]
                continue
            child = stack[-1].children.get(name)
            if child is None and make:
                self._count_file()
                child = stack[-1].children[name] = _directory()
            if child is not None and child.info.issym():
                links += 1
                if links > _MOST_LINKS:
                    raise ArchiveError(f"links to links without end at {'/'.join(parts)!r}")
                if child.info.linkname.startswith("/"):
                    stack = [self.root]
                todo.extendleft(reversed(_words(child.info.linkname)))
                continue
            if child is None or not child.info.isdir():
                if make:
                    raise ArchiveError(f"{'/'.join(parts)!r} lies below what is no directory")
                return None
            stack.append(child)
        return stack[-1]


def _entries(layer: BinaryIO) -> Iterator[tarfile.TarInfo]:
    try:
        with tarfile.open(
            fileobj=layer, mode="r:", tarinfo=Header, encoding="utf-8", errors="surrogateescape"
        ) as tar:
            while (entry := tar.next()) is not None:
                yield entry
            # At a damaged header that is not the first, tarfile ends as if all were read.
            layer.seek(tar.offset)
    except (tarfile.TarError, ValueError, EOFError, RecursionError) as error:
        raise ArchiveError(f"a layer is no tar: {error}") from error
    while piece := layer.read(_PIECE):
        if piece.count(0) != len(piece):
            raise ArchiveError("a layer is damaged: a header in its midst is none")


def _parts(path: str) -> list[str]:
    """The words of an entry's own name, which is below the root."""
    words = _words(path)
    if ".." in words:
        raise ArchiveError(f"{path!r} leads out of the root")
    return words


def _check_path(path: str) -> None:
    if len(path) > _LONGEST_PATH:
        raise ArchiveError(f"the path {path[:80]!r}… is longer than any may be")


def _words(path: str) -> list[str]:
    if "\0" in path:
        raise ArchiveError(f"{path!r} holds a NUL")
    return [word for word in path.split("/") if word not in {"", "."}]


def _is_mark(entry: tarfile.TarInfo) -> bool:
    return (_parts(entry.name) or [""])[-1].startswith(_WHITEOUT)


def _copied(info: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
    copy = tarfile.TarInfo(path)
    copy.type, copy.linkname = info.type, info.linkname
    copy.size = info.size if info.isreg() else 0
    copy.mode, copy.mtime = info.mode & 0o7777, int(info.mtime)
    copy.uid, copy.gid = info.uid, info.gid
    copy.pax_headers = info.pax_headers
    if info.type in {tarfile.AREGTYPE, tarfile.CONTTYPE}:
        copy.type = tarfile.REGTYPE
    return copy
