"""The writer of a run folder: an append-only journal, fsynced, and files put in place by rename."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final

from ullage.common import sums
from ullage.common.errors import (
    RUN_DISK_FULL,
    RUN_IN_USE,
    RUN_NOT_FOUND,
    RUN_NOT_OURS,
    UllageError,
)
from ullage.common.files import append, cut_torn_end, last_lines, put
from ullage.common.regular import NOTHING, digest
from ullage.common.sums import Chain
from ullage.runs.records import JOURNAL, RESOLVED, TRIALS, Digests, Record


def new_folder(root: Path, name: str) -> Path:
    """Make `root/20261121T021033-name`; a second one in the same second gets a suffix."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    for suffix in ("", *(f"-{i}" for i in range(2, 100))):
        folder = root / f"{stamp}-{name}{suffix}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(root / f"{stamp}-{name}")


@contextmanager
def disk_full_as_error(folder: Path) -> Iterator[None]:
    """Turn `No space left on device` into RUN_DISK_FULL."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UllageError(RUN_DISK_FULL, path=folder) from error
        raise


class Journal:
    """Appends events to `journal.jsonl`; on the disk when `append` returns, if asked to wait.

    Only one controller may write: the journal is locked. An append that fails half-way (a
    full disk) is undone, so the journal stays whole.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise UllageError(RUN_NOT_FOUND, path=folder)
        self.folder = folder
        self._fd = _open_own(folder)
        try:
            self._lock()
            self._chain = Chain(self._cut_unfinished())
        except BaseException:
            os.close(self._fd)
            raise

    def append(self, *events: Record, wait: bool = True) -> None:
        """Write events, all or none, and wait until they are on the disk.

        Without waiting they will be there by the next event that is waited for.
        """
        chain = Chain(self._chain.before)
        lines = b"".join(chain.sealed(event.model_dump_json().encode()) + b"\n" for event in events)
        with disk_full_as_error(self.folder):
            append(self._fd, self.folder / JOURNAL, lines, wait=wait)
        self._chain = chain

    def resolve(self, resolved: Record) -> None:
        """Write `resolved.json` anew."""
        with disk_full_as_error(self.folder):
            put(self.folder / RESOLVED, sums.sealed(resolved.model_dump_json(indent=1).encode()))

    def trial_folder(self, trial: str) -> Path:
        """An empty folder for the raw outputs of a trial; a killed attempt's are removed."""
        folder = self.folder / TRIALS / trial
        with disk_full_as_error(self.folder):
            try:
                folder.mkdir()
            except (FileExistsError, FileNotFoundError):
                folder.mkdir(parents=True, exist_ok=True)
                for old in folder.iterdir():
                    old.unlink()
        return folder

    def digests(self, place: Path) -> Digests:
        """Of every regular file in and under a folder of the run."""
        digests: Digests = {}
        for above, folders, files in os.walk(place):
            folders.sort()
            for name in sorted(files):
                file = f"{above}/{name}"
                if stat.S_ISREG((status := os.lstat(file)).st_mode):
                    of_file = digest(Path(file), self.folder) if status.st_size else NOTHING
                    digests[file.removeprefix(f"{self.folder}/")] = of_file
        return digests

    def given(self) -> Digests:
        """Of what the user gave: the plan, and what lies beside it before anything was measured."""
        names = sorted(path.name for path in self.folder.glob("*") if path.suffix in _GIVEN)
        return {name: digest(self.folder / name, self.folder) for name in names}

    def close(self) -> None:
        """Give the folder free."""
        os.close(self._fd)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _lock(self) -> None:
        """Take the folder; the kernel gives it free when the process ends, however it ends."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UllageError(RUN_IN_USE, path=self.folder) from None

    def _cut_unfinished(self) -> str:
        """A controller killed while it wrote leaves a tail that was never acknowledged.

        That is a part of a line, or one half of a duet without the other, as both are written at
        once: the pair is run again. Returns the checksum of the last line that stays. What is
        damaged at its end is cut by nobody: who reads it says so.
        """
        *_, before, last, torn = [b"", b"", *last_lines(self._fd, 3)]
        if Chain(sums.sum_of(last) or "").is_damaged_end(torn):
            return ""
        cut = cut_torn_end(self._fd)
        if (half := _duet_half(last)) and half != _duet_half(before, swapped=True):
            os.ftruncate(self._fd, os.fstat(self._fd).st_size - len(last) - 1)
            last, cut = before, True
        if cut:
            os.fsync(self._fd)
        return sums.sum_of(last) or ""


_GIVEN: Final = (".yaml", ".txt")


def _open_own(folder: Path) -> int:
    """The journal of a folder that nobody else can change; RUN_NOT_OURS.

    A controller writes in it as itself, so nothing there may lead elsewhere.
    """
    if folder.stat().st_uid != os.geteuid():
        raise _not_ours(folder, "it is another user's")
    for above, folders, files in os.walk(folder):
        for path in (Path(above) / name for name in (*folders, *files)):
            if path.is_symlink():
                raise _not_ours(folder, f"{path.relative_to(folder)} in it is a symbolic link")
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(folder / JOURNAL, flags, 0o644)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _not_ours(folder, f"{JOURNAL} is not a regular file")
    return fd


def _not_ours(folder: Path, reason: str) -> UllageError:
    return UllageError(RUN_NOT_OURS, path=folder, reason=reason)


def _duet_half(line: bytes, *, swapped: bool = False) -> tuple[object, ...] | None:
    """Block, workload and the two environments of one half of a duet; None of all else."""
    try:
        event = json.loads(line)
        if event["event"] != "trial" or event["partner"] is None:
            return None
        two = event["environment"], event["partner"]
        return event["block"], event["workload"], *(two[::-1] if swapped else two)
    except (ValueError, KeyError, TypeError):
        return None


def now_ns() -> int:
    """Wall clock, nanoseconds since 1970."""
    return time.time_ns()
