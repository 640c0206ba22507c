"""A run that lies elsewhere: an archive of its folder, by https or in an object store.

`tar czf run.tar.gz -C runs NAME` makes one; raw outputs may be left out. Who serves it is not
trusted: bytes, files and time are bounded, what is unpacked are regular files below one new
directory, and every checksum in them is held against what came.
"""

from __future__ import annotations

import http.client
import re
import tarfile
import tempfile
import time
import urllib.request
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit

import pyarrow
from pyarrow import fs

from ullage.common.archives.headers import ArchiveError, Header
from ullage.common.errors import (
    ADDRESS_HAS_KEY,
    FETCH_CHANGED,
    FETCH_NO_ANSWER,
    FETCH_NO_RUN,
    FETCH_NOT_THERE,
    FETCH_TOO_LARGE,
    UllageError,
)
from ullage.common.quantities import format_bytes
from ullage.runs.records import RESOLVED, TRIALS
from ullage.runs.verify import verify

MOST: Final = 1 << 30
"""Bytes of the archive, and of what is in it."""
MOST_FILES: Final = 200_000
SILENCE_S: Final = 30.0
LONGEST_S: Final = 600.0
"""Of all of it."""
_PIECE: Final = 1 << 20
_KEY: Final = re.compile(r"s3:/+[^/?]*[:@]|https?:/+[^/?]*@", re.IGNORECASE)
_GONE: Final = (401, 403, 404, 410)
_NO_OBJECT: Final = re.compile(r"NO_SUCH|NOT_FOUND|ACCESS_DENIED|HTTP status 40[134]")


@contextmanager
def fetched(address: str) -> Iterator[Path]:
    """The run's folder, for as long as the context lasts.

    ADDRESS_HAS_KEY, FETCH_NOT_THERE, FETCH_NO_ANSWER, FETCH_TOO_LARGE, FETCH_NO_RUN, FETCH_CHANGED.
    """
    refuse_key(address)
    shown = address.partition("?")[0]  # what follows may sign it
    with tempfile.TemporaryDirectory(prefix="ullage-fetched-") as temporary:
        archive, folder = Path(temporary) / "archive", Path(temporary) / "run"
        try:
            with _opened(address, shown) as source, archive.open("wb") as target:
                _copy(source, target, shown)
            run = unpacked(archive, folder, shown)
        except TimeoutError as error:
            raise _no_answer(shown, words(error)) from error
        yield run


def unpacked(archive: Path, folder: Path, shown: str) -> Path:
    """The run in an archive, in a folder that is made for it.

    FETCH_TOO_LARGE, FETCH_NO_RUN, FETCH_CHANGED.
    """
    if archive.stat().st_size > MOST:
        raise _too_large(shown)
    folder.mkdir()
    _unpack(archive, folder, shown)
    return _verified(folder, shown)


def refuse_key(address: str) -> None:
    """ADDRESS_HAS_KEY, which does not show it."""
    if _KEY.match(address):
        raise UllageError(ADDRESS_HAS_KEY)


@dataclass(frozen=True)
class _Source:
    """What is read, and how much of it there is to be, if that was told."""

    stream: IO[bytes]
    length: int | None


def _opened(address: str, shown: str) -> AbstractContextManager[_Source]:
    return _http(address, shown) if urlsplit(address).scheme != "s3" else _object(address, shown)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """What was asked for by https comes by https, and nothing from a file or by FTP."""

    def redirect_request(
        self, req: urllib.request.Request, *facts: Any
    ) -> urllib.request.Request | None:
        body, code, _, headers, address = facts
        allowed = ("https",) if req.type == "https" else ("http", "https")
        if urlsplit(address).scheme not in allowed:
            raise HTTPError(req.full_url, code, "it leads to another protocol", headers, body)
        return super().redirect_request(req, *facts)


@contextmanager
def _http(address: str, shown: str) -> Iterator[_Source]:
    opener = urllib.request.build_opener(_Redirects())
    try:
        with opener.open(address, timeout=SILENCE_S) as response:
            length = response.headers.get("Content-Length", "")
            yield _Source(response, int(length) if length.isdecimal() else None)
    except HTTPError as error:
        refusal = _not_there if error.code in _GONE else _no_answer
        raise refusal(shown, f"HTTP {error.code}, {words(error.reason)}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _no_answer(shown, words(error)) from error


@contextmanager
def _object(address: str, shown: str) -> Iterator[_Source]:
    try:
        store, path = fs.FileSystem.from_uri(address)
        there = store.get_file_info(path)
        if there.type == fs.FileType.Directory:
            raise UllageError(FETCH_NO_RUN, address=shown, reason="it is a folder, not an archive")
        if there.type != fs.FileType.File:
            raise _not_there(shown, "no such object")
        with store.open_input_stream(path, compression=None) as stream:
            yield _Source(stream, there.size)
    except (OSError, pyarrow.ArrowException) as error:
        raise refusal(shown, error) from error


def refusal(shown: str, error: Exception) -> UllageError:
    """What an object store's complaint means: FETCH_NOT_THERE, FETCH_NO_ANSWER."""
    gone = isinstance(error, pyarrow.ArrowInvalid) or _NO_OBJECT.search(str(error))
    return (_not_there if gone else _no_answer)(shown, words(error))


def _not_there(shown: str, reason: str) -> UllageError:
    return UllageError(FETCH_NOT_THERE, address=shown, reason=reason)


def _no_answer(shown: str, reason: str) -> UllageError:
    return UllageError(FETCH_NO_ANSWER, address=shown, reason=reason)


def words(error: object) -> str:
    """Of an error, in one line."""
    return " ".join(str(getattr(error, "reason", error)).split())[:300] or type(error).__name__


def _copy(source: _Source, target: BinaryIO, shown: str) -> None:
    ends, taken = time.monotonic() + LONGEST_S, 0
    if (source.length or 0) > MOST:
        raise _too_large(shown)
    while piece := source.stream.read(_PIECE):
        taken += len(piece)
        if taken > MOST:
            raise _too_large(shown)
        if time.monotonic() > ends:
            raise TimeoutError(f"it was not there after {LONGEST_S:.0f} s")
        target.write(piece)
    if source.length not in (None, taken):
        raise _no_answer(shown, f"it ended after {taken:,} of {source.length:,} bytes")


def _too_large(shown: str) -> UllageError:
    return UllageError(FETCH_TOO_LARGE, address=shown, most=format_bytes(MOST))


def _unpack(archive: Path, folder: Path, shown: str) -> None:
    try:
        with tarfile.open(archive, "r|*", tarinfo=Header, encoding="utf-8") as tar:
            left = MOST
            for number, entry in enumerate(tar):
                left -= entry.size
                if left < 0 or number >= MOST_FILES:
                    raise _too_large(shown)
                _put(tar, entry, folder)
    except (
        ArchiveError,
        tarfile.TarError,
        OSError,
        EOFError,
        zlib.error,
        LZMAError,
        ValueError,
        RecursionError,
    ) as error:
        raise UllageError(FETCH_NO_RUN, address=shown, reason=words(error)) from error


def _put(tar: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path) -> None:
    """A directory or a regular file, and nothing outside of the folder. TarError."""
    parts = [part for part in PurePosixPath(entry.name).parts if part != "."]
    if not (entry.isdir() or entry.isreg()) or entry.issparse():
        raise tarfile.TarError(f"{entry.name!r} in it is no regular file")
    if entry.name.startswith("/") or ".." in parts or "\0" in entry.name:
        raise tarfile.TarError(f"{entry.name!r} in it lies outside of the run")
    place = folder.joinpath(*parts)
    if entry.isdir():
        place.mkdir(parents=True, exist_ok=True)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    content = tar.extractfile(entry)
    assert content is not None
    with place.open("xb") as target:  # a name that stands twice is refused
        while piece := content.read(_PIECE):
            target.write(piece)


def _verified(folder: Path, shown: str) -> Path:
    """The run in it, whole but for raw outputs."""
    places = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
    runs = [place for place in places if (place / RESOLVED).is_file()]
    if len(runs) != 1:
        reason = f"{len(runs)} folders in it have a {RESOLVED}"
        raise UllageError(FETCH_NO_RUN, address=shown, reason=reason)
    for file in verify(runs[0]):
        left_out = file.state == "missing" and file.file.startswith(f"{TRIALS}/")
        if file.state in ("changed", "missing") and not left_out:
            reason = f"{file.file} is {file.state}" + (f": {file.detail}" if file.detail else "")
            raise UllageError(FETCH_CHANGED, address=shown, reason=reason)
    return runs[0]
