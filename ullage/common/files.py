"""Files written whole or not at all, locked, compared, and appended to line by line."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import stat
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Final


def put(file: Path, data: bytes) -> None:
    """Write a file whole or not at all; an OSError names it, not the temporary one.

    It is written under a name that nobody can guess, in a folder that stays the same even if
    another gets its name meanwhile; a link in the file's place is replaced, not followed.
    """
    temporary = f".{secrets.token_hex(16)}.tmp"
    try:
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from None
    try:
        _write_new(temporary, data, folder)
        os.rename(temporary, file.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(file), None
        raise
    finally:
        os.close(folder)


def _write_new(name: str, data: bytes, folder: int) -> None:
    """A file that was not there, on the disk when this returns."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o666, dir_fd=folder), "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def give(data: bytes, out: Path | None) -> None:
    """Write to a file, or to standard output without one; into a pipe or a device as it is."""
    if out and out.exists() and not out.is_file():
        out.write_bytes(data)
    elif out:
        put(out, data)
    else:
        sys.stdout.buffer.write(data)


_POLL_S: Final = 0.2


@contextlib.asynccontextmanager
async def file_lock(path: Path, waiting: Callable[[], None] = lambda: None) -> AsyncIterator[None]:
    """Only one holder at a time on this host; the lock goes with the process, however that ends.

    `waiting` is called once when somebody else holds it. Nobody but the owner may open the file:
    who can read one can hold its lock for ever.
    """
    with os.fdopen(_own(path), "wb") as file:
        announced = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not announced:
                    waiting()
                announced = True
                await asyncio.sleep(_POLL_S)
        yield


def hold(path: Path) -> int:
    """Hold its lock together with others who do; its time is now. It goes with the descriptor."""
    held = _own(path)
    try:
        fcntl.flock(held, fcntl.LOCK_SH)
        os.utime(held)
    except BaseException:
        os.close(held)
        raise
    return held


@contextlib.contextmanager
def unheld(path: Path) -> Iterator[bool]:
    """Whether nobody holds its lock; until the end nobody does, and who asks for it waits."""
    lock = _own(path)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(lock)


def _own(path: Path) -> int:
    # Also to be read: on NFS a lock that others may share needs that.
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    with contextlib.suppress(PermissionError):  # another user's, in a cache that is shared
        os.fchmod(descriptor, 0o600)
    return descriptor


def is_held(path: Path) -> bool:
    """Does anybody hold the lock now? That of another user may be held; what is no file is none."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        return isinstance(error, PermissionError)
    try:
        if stat.S_ISREG(os.fstat(lock).st_mode):
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def manifest(root: Path) -> dict[str, str]:
    """Path → `mode uid:gid size content` of everything under `root`.

    The content is the SHA-256 of a file, the target of a link, the numbers of a device. Times are
    left out: reading a file may change one.
    """
    lines: dict[str, str] = {}
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in (*folders, *sorted(files)):
            path = Path(folder) / name
            lines[str(path.relative_to(root))] = _line(path)
    return lines


def difference(before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """The first thing that differs, for people; None when nothing does."""
    for path in sorted({*before, *now}):
        if path not in now:
            return f"{path} is gone"
        if path not in before:
            return f"{path} is new"
        if before[path] != now[path]:
            return f"{path} is not the same"
    return None


def _line(path: Path) -> str:
    status = path.lstat()
    mode = status.st_mode
    if stat.S_ISREG(mode):
        content = sha256_of(path)
    elif stat.S_ISLNK(mode):
        content = str(path.readlink())
    elif stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        content = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    else:
        content = "-"
    size = 0 if stat.S_ISDIR(mode) else status.st_size
    return f"{mode:o} {status.st_uid}:{status.st_gid} {size} {content}"


_BLOCK: Final = 1 << 16
_MOST: Final = 1 << 28
"""Bytes of a few lines."""


def append(fd: int, file: Path, lines: bytes, *, wait: bool = False) -> None:
    """Write them, or nothing of them: OSError, also for a full disk.

    wait: until they are on the disk. They are with the kernel anyway, so `kill -9` takes none.
    """
    end = os.fstat(fd).st_size
    try:
        if os.write(fd, lines) != len(lines):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
        if wait:
            os.fsync(fd)
    except BaseException as error:
        os.ftruncate(fd, end)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(file)  # a descriptor's calls do not know it
        raise


def last_lines(fd: int, count: int) -> list[bytes]:
    """The last of them without their ends; the very last is what stands after the last newline."""
    start = os.fstat(fd).st_size
    data = b""
    while start > 0 and data.count(b"\n") < count and len(data) < _MOST:
        size = min(start, max(_BLOCK, len(data)))
        start -= size
        data = os.pread(fd, size, start) + data
    return data.split(b"\n")[-count:]


def cut_torn_end(fd: int) -> bool:
    """Take away what a killed writer, or a machine without power, has left of a line.

    True: there was something.
    """
    end = os.fstat(fd).st_size
    whole = end
    while whole > 0:
        start = max(0, whole - _BLOCK)
        newline = os.pread(fd, whole - start, start).rfind(b"\n")
        whole = start + newline + 1
        if newline >= 0:
            break
    if whole != end:
        os.ftruncate(fd, whole)
    return whole != end


def cache_dir() -> Path:
    """Where this user's images, downloads and what is derived are kept between runs."""
    if configured := os.environ.get("ULLAGE_CACHE_DIR"):
        return Path(configured)
    if os.geteuid() == 0:
        return Path("/var/cache/ullage")
    return home("XDG_CACHE_HOME", ".cache") / "ullage"


def home(variable: str, otherwise: str) -> Path:
    """A place of this user, which may be set by that variable."""
    return Path(os.environ.get(variable) or Path.home() / otherwise)
