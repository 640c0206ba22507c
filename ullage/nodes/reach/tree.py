"""What a node needs of ullage: this installation's own files and the packages that they import, as
one tree that is named by its digest. Nothing is fetched from anywhere.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import re
import sys
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

import ullage

PYTHON: Final = f"python{sys.version_info[0]}.{sys.version_info[1]}"
"""The node's own, of the same version: what is sent holds modules compiled for it."""
HOME: Final = PurePosixPath(".local/share/ullage/node")
"""Below the home directory there: a tree for each digest."""
_LIBRARIES: Final = ("pydantic", "PyYAML", "qemu.qmp")
"""What `ullage.nodes.serve` imports, with what they need in turn."""
_LEFT_OUT: Final = re.compile(
    r"__pycache__|(^|/)(analysis|report|cli|experiments|mpich|openmpi)(/|$)|(^|/)_elastic"
    r"|bin/(?!ullage-agent$)|\.pyi$"
)
"""Of our own: what only the controller's side needs."""
_RUNNER: Final = f"""#!/bin/sh
case $0 in /*) here=${{0%/*}} ;; *) here=$PWD/${{0%/*}} ;; esac
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
case $1 in
serve)
    exec {PYTHON} -I -S -c 'import sys
sys.path.insert(0, sys.argv[1])
from ullage.nodes.serve import main
main()' "$here/site" ;;
attach) exec "$here/site/ullage/bin/ullage-agent" attach "$2" ;;
esac
echo 'ullage-node: serve, or attach SOCKET' >&2
exit 2
"""
_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9._-]+")


def runner(digest: str | None = None) -> PurePosixPath:
    """The program there, below the home directory."""
    return HOME / (digest or tree_digest()) / "ullage-node"


@cache
def tree_digest() -> str:
    """Of every file of the tree: two nodes with the same one behave alike."""
    total = hashlib.sha256()
    for name, data, mode in _files():
        total.update(f"{name}\0{mode:o}\0{len(data)}\0".encode() + data)
    return total.hexdigest()[:24]


def packed() -> bytes:
    """The tree as a tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as tar:
        for name, data, mode in _files():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), mode
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def _files() -> Iterator[tuple[str, bytes, int]]:
    """(path in the tree, content, mode) of everything, in order."""
    yield "ullage-node", _RUNNER.encode(), 0o755
    package = Path(ullage.__file__).parent
    for file in sorted(package.rglob("*")):
        name = file.relative_to(package).as_posix()
        if file.is_file() and not _LEFT_OUT.search(name):
            mode = 0o755 if name.startswith("bin/") else 0o644
            yield f"site/ullage/{name}", file.read_bytes(), mode
    for distribution in _distributions():
        for entry in sorted(distribution.files or (), key=str):
            file = Path(str(distribution.locate_file(entry)))
            inside = ".." not in entry.parts and "__pycache__" not in entry.parts
            if inside and file.is_file():
                yield f"site/{entry.as_posix()}", file.read_bytes(), 0o644


def _distributions() -> list[importlib.metadata.Distribution]:
    """The libraries and what they need, each once, in the order of their names."""
    todo, known = list(_LIBRARIES), dict[str, importlib.metadata.Distribution]()
    while todo:
        name = _plain(todo.pop())
        if name in known:
            continue
        known[name] = importlib.metadata.distribution(name)
        for line in known[name].requires or ():
            requirement = _REQUIREMENT.match(line)
            if requirement and ";" not in line:
                todo.append(requirement[0])
    return [known[name] for name in sorted(known)]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
