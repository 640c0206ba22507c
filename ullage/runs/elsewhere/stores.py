"""Runs in an object store: an archive each below one prefix, seen from here as a folder of runs.

An object is there whole or not at all, or it is no run. `mirrored` keeps what it has taken in this
user's cache: each archive is fetched once, as `runs/elsewhere/fetched.py` fetches a stranger's, and
goes when it has gone in the store.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, Final

import pyarrow
from pyarrow import fs

from ullage.common.errors import (
    FETCH_NO_RUN,
    STORE_HAS_RUN,
    STORE_NOT_KEPT,
    STORE_NOT_WRITTEN,
    UPLOAD_BAD_NAME,
    UPLOAD_ELASTIC,
    UPLOAD_UNFINISHED,
    UPLOAD_UNREADABLE,
    UllageError,
)
from ullage.common.files import cache_dir
from ullage.runs.elsewhere.fetched import fetched, refusal, refuse_key, unpacked, words
from ullage.runs.reader import RunFolder, is_elastic, typed

SUFFIX: Final = ".tar.gz"
_ADDRESS: Final = re.compile(r"s3:/+([^?]+?)/*(\?.*)?")
"""Also as a path has it, with one slash."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_AT_ONCE: Final = 8
_PIECE: Final = 1 << 20


@dataclass(frozen=True)
class Store:
    """A prefix in a bucket."""

    base: str
    """Bucket and prefix."""
    query: str = ""
    """What PyArrow is told of the server: `?endpoint_override=…`."""

    @classmethod
    def named(cls, text: str) -> Store | None:
        """As a user writes it; None: it is no address of a store. ADDRESS_HAS_KEY."""
        refuse_key(text)
        match = _ADDRESS.fullmatch(text)
        return None if match is None else cls(match[1], match[2] or "")

    @property
    def shown(self) -> str:
        """Without what may sign it."""
        return f"s3://{self.base}"

    def archive(self, run: str) -> str:
        """Address of that run's archive."""
        return f"{self.shown}/{run}{SUFFIX}{self.query}"

    def archives(self) -> dict[str, str]:
        """Run → what tells its archive from another of that name. FETCH_NOT_THERE, FETCH_NO_ANSWER.

        What has another name is no run.
        """
        with self._session(self.shown) as (system, path):
            bucket = system.get_file_info(path.partition("/")[0])
            if bucket.type == fs.FileType.NotFound:
                raise pyarrow.ArrowInvalid("no such bucket")
            selector = fs.FileSelector(path, allow_not_found=True)
            entries = [one for one in system.get_file_info(selector) if one.is_file]
        known = {}
        for entry in entries:
            name = PurePosixPath(entry.path).name
            run = name.removesuffix(SUFFIX)
            if run != name and _NAME.fullmatch(run):
                known[run] = f"{entry.size} {entry.mtime_ns}"
        return known

    def put(self, run: str, archive: BinaryIO, *, replace: bool) -> None:
        """STORE_HAS_RUN, STORE_NOT_WRITTEN; FETCH_NOT_THERE, FETCH_NO_ANSWER.

        Under a name that no reader lists, until all of it is there: PyArrow completes an object
        whose writer fails. What is left of it goes with the next upload of that run.
        """
        shown = f"{self.shown}/{run}{SUFFIX}"
        if run in self.archives() and not replace:
            raise UllageError(STORE_HAS_RUN, address=shown)
        size = archive.seek(0, 2)
        archive.seek(0)
        with self._session(shown) as (system, path):
            part, target = f"{path}/.{run}.part", f"{path}/{run}{SUFFIX}"
            try:
                with system.open_output_stream(part, compression=None) as stream:
                    while piece := archive.read(_PIECE):
                        stream.write(piece)
                _check_size(system, part, size, shown)
                system.copy_file(part, target)
                _check_size(system, target, size, shown)
            finally:
                with suppress(OSError):  # who may write may not be one who may remove
                    system.delete_file(part)

    @contextmanager
    def _session(self, shown: str) -> Iterator[tuple[fs.FileSystem, str]]:
        """The file system and the path in it; what it says is an error of ours."""
        try:
            yield fs.FileSystem.from_uri(f"{self.shown}{self.query}")
        except (OSError, pyarrow.ArrowException) as error:
            raise refusal(shown, error) from error


def _check_size(system: fs.FileSystem, path: str, size: int, shown: str) -> None:
    """STORE_NOT_WRITTEN."""
    there = system.get_file_info(path).size
    if there != size:
        reason = f"{there or 0:,} bytes are there, of {size:,}"
        raise UllageError(STORE_NOT_WRITTEN, address=shown, reason=reason)


def upload(run: Path, store: Store, *, raw: bool = True, replace: bool = False) -> str:
    """Put a finished run there; its address. raw: with the outputs of its trials.

    UPLOAD_ELASTIC, UPLOAD_UNFINISHED, UPLOAD_BAD_NAME, UPLOAD_UNREADABLE, and as `Store.put`.
    """
    if is_elastic(run):
        raise UllageError(UPLOAD_ELASTIC, path=typed(run))
    folder = RunFolder.open(run)
    if folder.finished is None:
        raise UllageError(UPLOAD_UNFINISHED, path=typed(run))
    name = run.resolve().name
    if not _NAME.fullmatch(name):
        raise UllageError(UPLOAD_BAD_NAME, path=typed(run))
    with tempfile.TemporaryDirectory(prefix="ullage-upload-") as temporary:
        archive = Path(temporary) / "archive"
        try:
            with tarfile.open(archive, mode="w:gz") as tar:
                tar.add(run.resolve(), name, filter=None if raw else _without_raw)
            unpacked(archive, Path(temporary) / "run", name)  # as whoever reads it there
        except UllageError as error:
            raise UllageError(UPLOAD_UNREADABLE, path=typed(run), reason=error.message) from error
        except (OSError, tarfile.TarError) as error:
            reason = f"the archive: {words(error)}"
            raise UllageError(STORE_NOT_WRITTEN, address=store.shown, reason=reason) from error
        with archive.open("rb") as content:
            store.put(name, content, replace=replace)
    return f"{store.shown}/{name}{SUFFIX}"


def _without_raw(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """All but what lies in `trials`."""
    return None if PurePosixPath(entry.name).parts[1:2] == ("trials",) else entry


def mirrored(
    store: Store,
    on_bad: Callable[[str, UllageError], None],
    say: Callable[[str], None] = lambda _: None,
) -> Path:
    """A folder with the runs of the store, as they are there now. on_bad: is told what is none.

    Nothing of it goes while this process lives. say: is told of what is waited for, and of copies
    that are kept because others read them. FETCH_NOT_THERE, FETCH_NO_ANSWER, STORE_NOT_KEPT.
    """
    there = store.archives()
    digest = hashlib.sha256(f"{store.base}{store.query}".encode()).hexdigest()[:32]
    root = cache_dir() / "stores" / digest
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (root / ".turn").open("a") as turn:
            _wait_for(turn, lambda: say(f"waiting: another ullage fetches runs of {store.shown}"))
            mirror = _Mirror(store, root)
            if left := mirror.outdated(there):
                for run in () if mirror.forget(left) else sorted(left):
                    shown = f"{store.shown}/{run}{SUFFIX}"
                    say(f"warning: {shown} has changed or gone: it is read as it was, as others do")
            mirror.hold()
            mirror.take(there, on_bad)
    except OSError as error:
        raise UllageError(STORE_NOT_KEPT, address=store.shown, reason=words(error)) from error
    return root


def _wait_for(turn: IO[str], waiting: Callable[[], None]) -> None:
    try:
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        waiting()
        fcntl.flock(turn, fcntl.LOCK_EX)


_HELD: Final[dict[Path, IO[str]]] = {}
"""Mirrors that this process reads, each by its open lock."""


class _Mirror:
    """What of a store is here: a folder for each run, and beside it which archive it came from.

    Who changes it has its turn. Who reads holds it: others may add runs, and take none away.
    """

    def __init__(self, store: Store, root: Path) -> None:
        self._store, self._root = store, root
        self._origins, self._aside = root / ".origins", root / ".aside"
        self._origins.mkdir(exist_ok=True)
        shutil.rmtree(self._aside, ignore_errors=True)  # of one that was killed
        self._aside.mkdir()
        if root not in _HELD:
            _HELD[root] = (root / ".readers").open("a")
        self._readers = _HELD[root]

    def outdated(self, there: Mapping[str, str]) -> set[str]:
        """Runs that are here, and not so there."""
        here = {path.name for path in self._root.iterdir() if _NAME.fullmatch(path.name)}
        return {run for run in here if there.get(run) != self._origin(run)}

    def forget(self, runs: Iterable[str]) -> bool:
        """They are here no more; no: somebody else reads."""
        try:
            fcntl.flock(self._readers, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        for run in runs:
            (self._origins / run).unlink(missing_ok=True)
            (self._root / run).rename(self._aside / run)
            shutil.rmtree(self._aside / run)
        return True

    def hold(self) -> None:
        """For as long as this process lives."""
        fcntl.flock(self._readers, fcntl.LOCK_SH)

    def take(self, there: Mapping[str, str], on_bad: Callable[[str, UllageError], None]) -> None:
        """Fetch those that are not here."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            missing = [run for run in there if not (self._root / run).exists()]
            for run, error in zip(
                missing, pool.map(lambda run: self._fetch(run, there[run]), missing), strict=True
            ):
                if error is not None:
                    on_bad(self._store.archive(run).partition("?")[0], error)

    def _origin(self, run: str) -> str:
        try:
            return (self._origins / run).read_text(encoding="utf-8")
        except OSError:
            return ""

    def _fetch(self, run: str, version: str) -> UllageError | None:
        """What is wrong with it is returned: others are not to suffer from it."""
        shown = self._store.archive(run).partition("?")[0]
        try:
            with fetched(self._store.archive(run)) as folder:
                if folder.name != run:
                    reason = f"the run in it is called {folder.name[:100]}"
                    raise UllageError(FETCH_NO_RUN, address=shown, reason=reason)
                shutil.move(folder, self._aside / run)
            (self._origins / run).write_text(version, encoding="utf-8")
            (self._aside / run).rename(self._root / run)  # whole
        except UllageError as error:
            return error
        except OSError as error:
            return UllageError(STORE_NOT_KEPT, address=shown, reason=words(error))
        return None
